"""What a cycle decided: binds by gang, evictions, claims, and what to tell users. Plain data for dispatch and printers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from pumice.api.disruptions import Party, Story
from pumice.cluster.amounts import Amounts
from pumice.cluster.tasks import Task
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.core.verdict import Cause, FitError, Reason
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pumice.api import disruptions
    from pumice.api.changes import Claim
    from pumice.instant import Instant
    from pumice.scheduling.core.failures import Failure


class VolumeChoice(Value):
    """What becomes of a claim before its pod is bound: it gets this volume, or (volume empty) one is made near the node."""

    claim: str  # namespace/name
    volume: str
    node: str


class DeviceChoice(Value):
    """What is written into a claim before its pod is bound: that the pod uses it, and the devices where it had none so far."""

    claim: str  # namespace/name
    allocation: Mapping[str, Any] | None  # status.allocation as the API has it; None: it has its devices already


Preparation = VolumeChoice | DeviceChoice


class Bind(Value):
    """One pod and its node; what is in `first` has to be written, and to take effect, before the bind.

    `annotations` travel with the bind onto the pod: which cards and CPUs were chosen for it. `lock` names the lock on the node
    that a device plugin wants held from before the bind until it has handed the devices out; empty for none.
    """

    task: Task
    node: str
    first: tuple[Preparation, ...] = ()
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    lock: str = ""


class GangCommit(Value):
    """One gang's binds: all of them, or none. `needed` members must be bound before the gang counts as started."""

    gang: str
    binds: tuple[Bind, ...]
    needed: int
    mends: bool = False  # completes an attempt that was cut short


class Evict(Value):
    """A victim: by which rule it goes, for which gang (empty: for none), and what that does to its own."""

    task: Task
    rule: str  # the action's name, as Volcano's events have it
    claimant: str
    cause: Cause
    about: Story | None = None
    after_notice: bool = False  # it was told, and its room counts as leaving already

    @property
    def story(self) -> Story:
        """The whole of it, for those who read it on the pod; without parties that nobody has worked out."""
        if self.about is not None:
            return self.about
        return Story(self.rule, self.cause.code.value, self.cause.text, claimant=Party(gang=self.claimant))


class Notice(Value):
    """A pod is told that it, or others of its gang, will have to go."""

    task: Task
    about: disruptions.Notice


class Release(Value):
    """Members of a gang that was never started as a whole and cannot be finished, or that will never run: they give their room back."""

    gang: str
    tasks: tuple[Task, ...]
    cause: Cause
    at_once: bool = False  # there is no agent that could end them first


class GangSummary(Struct, frozen=True):
    """How the members of a gang stand, and what stopped the first that was stopped."""

    members: Mapping[str, int]  # by status
    minimum: int
    pending: Mapping[str, int]  # by the reason word of their condition
    origin: FitError | Reason | None = None
    pod: str = ""  # whose error the origin is; empty where it is the whole gang's
    is_ready: bool = False
    others: Reason | None = None  # why nobody leaves for it who could

    @property
    def text(self) -> str:
        """`pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Unschedulable, 2 Schedulable. Origin reason is ...`"""
        counts = _histogram({**self.members, "minAvailable": self.minimum})
        text = f"pod group is {'ready' if self.is_ready else 'not ready'}, {counts}"
        if self.pending:
            text += f"; Pending: {_histogram(self.pending)}"
        if self.origin is not None:
            text += f". Origin reason is {self.pod + ': ' if self.pod else ''}{self.origin.text}"
        if self.others is not None:
            text += f"; {self.others.text}"
        return text

    @property
    def topic(self) -> Hashable:
        """Equal as long as nothing but numbers changes."""
        why = tuple(each.topic if each is not None else None for each in (self.origin, self.others))
        return (self.is_ready, frozenset(self.members), frozenset(self.pending), why)


def _histogram(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {word}" for word, count in counts.items()))


# Between the numbers and the summary, which pods are told without the numbers.
OF_GANG = " tasks in gang unschedulable: "


class Shortage(Struct, frozen=True):
    """So many of a gang's members have no place, and why."""

    count: int
    size: int  # 0: the gang has no members yet
    why: GangSummary | Reason

    @property
    def text(self) -> str:
        counted = f"{self.count}/{self.size}{OF_GANG}" if self.size else ""
        return f"{counted}{self.why.text}"


class Condition(Struct, frozen=True):
    """A PodGroup condition that should hold now."""

    type: str
    status: bool
    reason: str
    why: Shortage | None = None

    @property
    def message(self) -> str:
        return self.why.text if self.why is not None else ""


class PodVerdict(Struct, frozen=True):
    """The PodScheduled condition of a pod that was not placed, and the node it may hope for."""

    task: Task
    reason: str
    why: GangSummary | FitError | Reason
    nominated_node: str = ""
    of_gang: bool = False  # the message speaks of the whole gang, and is the same for all such members

    @property
    def message(self) -> str:
        return self.why.text


class ShortResource(Struct, frozen=True):
    """A resource of which equal pods would need more than is free on the nodes that may take them."""

    resource: str
    free: float
    most_on_one_node: float


class HyperNodeRoom(Struct, frozen=True):
    """The hyper node within a tier that has most room for equal pods; the name is empty where there is none."""

    tier: int
    hyper_node: str
    fit: int


class ShapeRoom(Struct, frozen=True):
    """Equal members that wait, and the room for them at the end of the cycle, each pod looked at by itself."""

    each: Amounts
    waiting: int
    fit: int
    nodes: int
    may_take: int  # nodes that no filter refuses
    short: tuple[ShortResource, ...]
    within: HyperNodeRoom | None = None  # where the gang must stay in one hyper node


class Expected(Struct, frozen=True):
    """How long a gang is expected to run, and who says so (scheduling/time/estimates.py)."""

    length: int  # nanoseconds
    source: str
    right: float | None = None  # learned: the part of past runs that ended in time
    end: int | None = None  # when it is expected to end, if it runs


class Reserved(Struct, frozen=True):
    """Room that is reserved for a gang: from when on at the latest, and on how many nodes."""

    time: int
    nodes: int
    since: int  # it has had a reservation since then


class GangReport(Struct, frozen=True):
    """How a gang stands after the cycle."""

    gang: str
    phase: str
    running: int
    succeeded: int
    failed: int
    conditions: tuple[Condition, ...]
    why: Shortage | None  # of the event that goes with it
    reasons: tuple[Reason, ...]
    pods: tuple[PodVerdict, ...]
    uid: str = ""  # of the group that was looked at: a restarted Job's next group has the same name
    room: tuple[ShapeRoom, ...] = ()
    position: int = 0  # among the waiting gangs of its queue, from 1; 0 for one that does not wait
    reservation: Reserved | None = None
    expected: Expected | None = None  # where somebody asked for it in this cycle

    @property
    def message(self) -> str:
        return self.why.text if self.why is not None else ""


class Stranded(Value):
    """GPUs of one resource that are free, and how many of them workers with so many each could use; in whole GPUs."""

    resource: str
    each: int
    free: int
    usable: int
    waiting: int = 0  # pods of that size

    @property
    def unusable(self) -> int:
        return self.free - self.usable


class QueueFigures(Value):
    """A queue's books at the end of the cycle, as the plugin that divides the cluster keeps them."""

    allocated: Amounts
    request: Amounts
    deserved: Amounts
    admitted: Amounts
    ceiling: Amounts
    share: float
    overused: bool


class Factors(Struct, frozen=True):
    """What makes up the rank of a gang that waits, each from 0 to 1, and their weighted sum: the higher, the sooner."""

    priority_class: float
    fair_share: float
    age: float
    size: float
    queue: float
    total: float
    used: float = 0.0  # by its user, through its queue


class UserUsage(Struct, frozen=True):
    """What a user has used of the cluster through one queue: on average, recent use counting most."""

    usage: float
    weight: float
    factor: float  # fair share: 1 for a user who used nothing, 0.5 for one who used as much as it may, and so on


class QueueUsage(Struct, frozen=True):
    """The same of a queue, beside the part that is its own by weight."""

    usage: float
    weight: float
    fair: float
    factor: float
    users: Mapping[str, UserUsage]


class Decisions(Value):
    """Everything one cycle wants done; nothing has been written yet."""

    commits: tuple[GangCommit, ...] = ()
    evictions: tuple[Evict, ...] = ()
    notices: tuple[Notice, ...] = ()
    withdrawn: tuple[Task, ...] = ()  # pods that were told, and stay after all
    rings: tuple[tuple[str, ...], ...] = ()  # gangs that have evicted one another within an hour, and do so again
    claims: tuple[Claim, ...] = ()
    unclaims: Mapping[str, str] = msgspec.field(default_factory=dict)  # gang -> why its claim is over
    # Gang -> uid of its group, which waited until now.
    admitted: Mapping[str, str] = msgspec.field(default_factory=dict)
    releases: tuple[Release, ...] = ()
    ungated: tuple[Task, ...] = ()  # pods whose queue has a share for them: the gate that held them back goes
    pipelined: Mapping[str, str] = msgspec.field(default_factory=dict)  # pod key -> node
    gangs: Mapping[str, GangReport] = msgspec.field(default_factory=dict)
    figures: Mapping[str, QueueFigures] = msgspec.field(default_factory=dict)
    shares: Mapping[str, float] = msgspec.field(default_factory=dict)  # gang -> dominant share
    factors: Mapping[str, Factors] = msgspec.field(default_factory=dict)  # by gang, of those that wait
    factor_weights: Mapping[str, float] = msgspec.field(default_factory=dict)
    usage: Mapping[str, QueueUsage] = msgspec.field(default_factory=dict)  # by queue, where usage is remembered
    stranded: tuple[Stranded, ...] = ()  # by resource and size of a worker, after what is decided here
    unfinished: bool = False  # the budget ended before the work did: plan again soon
    next_change: Instant | None = None  # when the clock alone may change a decision
    memory: Memory = EMPTY  # for the next cycle
    refused_memory: Mapping[str, str] = msgspec.field(default_factory=dict)  # slot -> why its new value is not in it
    metrics: Mapping[str, Mapping[tuple[str, ...], float]] = msgspec.field(default_factory=dict)  # of plugins
    failures: tuple[Failure, ...] = ()  # of plugins; what they broke on was planned without
    queues: Mapping[str, Amounts] = msgspec.field(default_factory=dict)  # allocated, descendants included
    # By the group that is not there.
    orphans: Mapping[str, tuple[PodVerdict, ...]] = msgspec.field(default_factory=dict)
