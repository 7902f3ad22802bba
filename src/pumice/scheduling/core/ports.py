"""What the engine cannot know by itself, handed in by the process that runs it: answers of an HTTP extender, measured loads, memories.

Every port is plain data or a plain call, so that the simulator and the tests can stand in, and a cycle can be replayed.
"""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pumice.cluster.gangs import Gang
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.policy import Policy


@dataclasses.dataclass(frozen=True, slots=True)
class NodeLoad:
    """Measured use of one node, in percent of its capacity, averaged over `period`."""

    cpu_percent: float
    memory_percent: float
    measured_at: Instant
    period: str = "10m"


class Extender(Protocol):
    """POSTs a body to a verb of the HTTP extender and returns its answer; raises ExtenderFailed where there is none."""

    def __call__(self, verb: str, body: Mapping[str, Any]) -> Mapping[str, Any]: ...


class ExtenderFailed(Exception):
    """The extender did not answer, or answered something else than 200 with JSON."""


@dataclasses.dataclass(frozen=True, slots=True)
class Vain:
    """Evictions were planned for a gang as it was, without success; they are not planned again before `until`.

    Unless there is something new: other rules (`ground`, the snapshot's, and the policy), or more places that stand free.
    """

    gang: Gang
    policy: Policy
    ground: int
    free: int
    pause: Duration
    until: Instant


@dataclasses.dataclass(slots=True)
class Memory:
    """What is carried from one cycle to the next: times of plugins' last evictions and runs, and for whom evictions were
    planned in vain, by action and gang. Kept by the caller of `plan`.
    """

    instants: dict[str, Instant] = dataclasses.field(default_factory=dict)
    vain: dict[tuple[str, str], Vain] = dataclasses.field(default_factory=dict)
    is_behind: bool = False  # the last cycle's budget ended before everybody had his turn


class Stopwatch(Protocol):
    """Measures what happens inside `with`: the engine has no clock of its own. `what` is open, action or plugin."""

    def __call__(self, what: str, name: str, /) -> AbstractContextManager[object]: ...


def unmeasured(what: str, name: str, /) -> AbstractContextManager[object]:
    """Nobody wants to know how long it took."""
    del what, name
    return nullcontext()


@dataclasses.dataclass(frozen=True, slots=True)
class Ports:
    """Everything injected; the defaults are a world without extender, measurements and past."""

    extender: Extender | None = None
    loads: Mapping[str, NodeLoad] = dataclasses.field(default_factory=dict)
    memory: Memory = dataclasses.field(default_factory=Memory)
    measure: Stopwatch = unmeasured
    resting: Mapping[str, str] = dataclasses.field(default_factory=dict)  # gangs not to be tried now, and what failed
