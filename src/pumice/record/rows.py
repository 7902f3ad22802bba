"""What the record keeps, one Struct a table. Times are whole seconds since 1970, amounts are cards, cores and GiB."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

TEXT_CHARS_MAX = 1_024  # of a reason; longer ones are cut


class State:
    """How a gang, an attempt or a run stands or ended."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    SUCCEEDED = "Succeeded"  # of a pod
    FAILED = "Failed"
    ABORTED = "Aborted"  # suspended: it ends here, and goes on with another attempt if it is resumed
    TERMINATED = "Terminated"
    EVICTED = "Evicted"
    DELETED = "Deleted"  # by somebody, before it ended by itself
    GONE = "Gone"  # it ended while nobody looked: when and how is not known


FINISHED = (State.COMPLETED, State.FAILED, State.ABORTED, State.TERMINATED, State.EVICTED, State.DELETED, State.GONE)


class Gang(msgspec.Struct, frozen=True, gc=False):
    """A Job with all its attempts, or a PodGroup that no Job owns."""

    TABLE: ClassVar[str] = "gangs"

    uid: str
    kind: str
    namespace: str
    name: str
    user_name: str
    queue: str
    team: str  # the queue below root that its queue belongs to
    shapes: str  # JSON: [{task, pods, resources}]
    minimum: int
    submitted: int
    admitted: int | None
    started: int | None
    ended: int | None
    state: str
    reason: str
    seen: int

    @property
    def key(self) -> tuple[str, ...]:
        return (self.uid,)


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One run of a whole gang. `number` is the version of the Job that made its pods, 0 for other gangs: it grows, and has gaps."""

    TABLE: ClassVar[str] = "attempts"

    gang: str
    number: int
    pods: int
    started: int | None
    ended: int | None
    state: str
    seen: int

    @property
    def key(self) -> tuple[str, int]:
        return (self.gang, self.number)


class Run(msgspec.Struct, frozen=True, gc=False):
    """A pod from its bind to its end: what it held and for how long."""

    TABLE: ClassVar[str] = "runs"

    uid: str
    gang: str
    attempt: int
    pod: str
    task: str
    node: str
    resources: str  # JSON: {resource: amount}
    bound: int  # from here on its room is held
    started: int | None
    ended: int | None
    state: str
    exit_code: int | None
    restarts: int
    checkpointed: int | None
    seen: int

    @property
    def key(self) -> tuple[str, ...]:
        return (self.uid,)


class Eviction(msgspec.Struct, frozen=True, gc=False):
    """A pod that was taken away, for whom and by which rule, and what that cost."""

    TABLE: ClassVar[str] = "evictions"

    uid: str  # of the pod
    gang: str
    attempt: int
    pod: str
    at: int
    rule: str  # the action of the scheduler, or who else evicted it
    claimant: str  # `namespace/name` of the gang that it left for; empty for none
    why: str
    lost_s: int  # since its start or its last checkpoint
    seen: int

    @property
    def key(self) -> tuple[str, ...]:
        return (self.uid,)


class Capacity(msgspec.Struct, frozen=True, gc=False):
    """What all nodes together had of a resource, from this time on."""

    TABLE: ClassVar[str] = "capacity"

    at: int
    resource: str
    amount: float

    @property
    def key(self) -> tuple[int, str]:
        return (self.at, self.resource)


class Forecast(msgspec.Struct, frozen=True, gc=False):
    """When a gang was expected to start, as it was thought at `made`. What came true stands in the gang's own row."""

    TABLE: ClassVar[str] = "forecasts"

    gang: str
    made: int
    p50: int
    p90: int

    @property
    def key(self) -> tuple[str, int]:
        return (self.gang, self.made)


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Rows that were given up because the database was away for too long."""

    TABLE: ClassVar[str] = "gaps"

    since: int
    until: int
    rows: int

    @property
    def key(self) -> tuple[int, ...]:
        return (self.since,)


Row: TypeAlias = Gang | Attempt | Run | Eviction | Capacity | Forecast
# In the order in which they are written; the buffer gives them up from the end.
TABLES: tuple[type[Row], ...] = (Gang, Attempt, Eviction, Capacity, Forecast, Run)


def cut(text: str) -> str:
    """A text of limited length, without what PostgreSQL cannot store."""
    text = text.replace("\0", "")
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 3]}..."
