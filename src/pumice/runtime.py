"""What a process hands to its parts: time, chance, a log, traces, permission to write, and fail points for crash tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pumice.telemetry.traces import OFF, Tracing
from pumice.values import Value

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pumice.clock import Clock


class Log(Protocol):
    """Told of what an operator wants to know: the name of what happened, and its facts."""

    def __call__(self, event: str, /, **facts: object) -> None: ...


def silent(event: str, /, **facts: object) -> None:
    """Logs nothing."""
    del event, facts


def always() -> None:
    """The guard of a process without a lease: it may always write."""


def no_fail_point(point: str) -> None:
    """No fail point is set."""
    del point


class Runtime(Value):
    """`guard` raises where this process may no longer write; `fail_point` is called with the name of the step that comes next."""

    clock: Clock
    chance: random.Random
    log: Log = silent
    guard: Callable[[], None] = always
    fail_point: Callable[[str], None] = no_fail_point
    tracing: Tracing = OFF
