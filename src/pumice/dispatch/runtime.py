"""What every part of dispatch gets from outside: time, chance, a log, traces, permission to write, and fail points for crash tests."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pumice.errors import PumiceError
from pumice.kube.informer import Log, silent
from pumice.telemetry.traces import OFF, Tracing

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pumice.clock import Clock


class PreparationFailed(PumiceError):
    """What a gang needs before its first bind cannot be had; nobody of it was bound."""


def _always() -> None:
    """Nobody else may lead."""


def _nowhere(point: str) -> None:
    """No fail point is set."""
    del point


@dataclasses.dataclass(frozen=True, slots=True)
class Runtime:
    """`guard` raises where this process may no longer write; `reach` names the step that comes next."""

    clock: Clock
    chance: random.Random
    log: Log = silent
    guard: Callable[[], None] = _always
    reach: Callable[[str], None] = _nowhere
    tracing: Tracing = OFF
