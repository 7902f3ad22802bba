"""What the engine cannot know by itself, handed in by the process that runs it: answers of an HTTP extender, measured loads.

Every port is plain data or a plain call, so that the simulator and the tests can stand in, and a cycle can be replayed.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from pumice.instant import Instant  # noqa: TC001  a recording is decoded by these types
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pumice.scheduling.time.accuracy import Forecast
    from pumice.scheduling.time.run_times import RunTimes


class NodeLoad(Value):
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


class Resting(NamedTuple):
    """A gang that is not to be tried before `until`, and what failed when it last was."""

    why: str
    until: Instant


class Stopwatch(Protocol):
    """Measures what happens inside `with`: the engine has no clock of its own. `what` is open, action or plugin."""

    def __call__(self, what: str, name: str, /) -> AbstractContextManager[object]: ...


_NOT_MEASURED = nullcontext()


def no_measure(what: str, name: str, /) -> AbstractContextManager[object]:
    """For a cycle that is not measured."""
    del what, name
    return _NOT_MEASURED


class Ports(Value):
    """Everything injected; the defaults are a world without extender and measurements."""

    extender: Extender | None = None
    loads: Mapping[str, NodeLoad] = msgspec.field(default_factory=dict)
    measure: Stopwatch = no_measure
    resting: Mapping[str, Resting] = msgspec.field(default_factory=dict)  # by gang
    forecasts: Mapping[str, Forecast] = msgspec.field(default_factory=dict)  # by gang: made since the last cycle
    run_times: RunTimes | None = None  # a record of past runs, asked before what the engine remembers itself
