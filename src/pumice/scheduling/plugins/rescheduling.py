"""rescheduling: moves pods off nodes that are too busy, while others are nearly idle. Works with the action shuffle.

Strategy lowNodeUtilization: nodes below all `thresholds` have room to spare, as much as leads them to `targetThresholds`; nodes above
any target give up pods, the least important first, until they are below it or that room is used up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec
import numpy as np

from pumice.cluster import amounts
from pumice.cluster.columns import CPU_ROW, MEMORY_ROW
from pumice.cluster.requests import is_guaranteed
from pumice.scheduling.core import arguments
from pumice.scheduling.core.memory import Slot, past
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.placing.loads import expiry, load_columns
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pumice.api.pods import Pod
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session

_ROWS = (CPU_ROW, MEMORY_ROW)
_NAMES = (amounts.CPU, amounts.MEMORY)

Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class Percents(msgspec.Struct, frozen=True):
    """Of a node's capacity; other resources than these are not measured."""

    cpu: Percent = 100
    memory: Percent = 100

    def parts(self) -> NDArray[np.float64]:
        return np.array([[self.cpu], [self.memory]]) / 100


class Params(msgspec.Struct, frozen=True, rename="camel"):
    thresholds: Percents = Percents()
    target_thresholds: Percents = Percents()

    def __post_init__(self) -> None:
        for name in ("cpu", "memory"):
            low, high = getattr(self.thresholds, name), getattr(self.target_thresholds, name)
            if low > high:
                raise ValueError(
                    f"thresholds.{name} {low:g} lies above targetThresholds.{name} {high:g}: "
                    "a node cannot be idle and too busy at once"
                )


class Strategy(msgspec.Struct, frozen=True):
    name: Literal["lowNodeUtilization"]
    params: Params = Params()


class Args(arguments.Args, frozen=True, kw_only=True):
    """`metricsPeriod` is accepted and not needed: measurements say themselves what they are."""

    IGNORED: ClassVar[frozenset[str]] = frozenset({"metricsPeriod"})

    interval: Annotated[str, msgspec.Meta(description="pods are moved at most once in this time")] = "5m"
    strategies: Annotated[
        tuple[Strategy, ...], msgspec.Meta(description="name and params of each strategy; there is lowNodeUtilization")
    ] = (Strategy("lowNodeUtilization"),)

    def __post_init__(self) -> None:
        arguments.duration("interval", self.interval)


class ReschedulingMemory(msgspec.Struct, frozen=True):
    """When pods were last moved."""

    last_run: int | None = None


MEMORY = Slot("rescheduling", ReschedulingMemory, persistent=True)


class Rescheduling(Plugin):
    """Only where loads are known; only pods that may be preempted; no gang is broken for it."""

    args_type = Args
    memory = MEMORY

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.chosen: frozenset[str] = frozenset()
        self.interval = arguments.duration("interval", args.interval)
        self.strategies = args.strategies

    def open(self, session: Session) -> None:
        self.session = session
        session.on.shuffled(self.choose)

    def choose(self, running: Sequence[Task]) -> Sequence[Task]:
        last = past(self.session.memory.of(MEMORY).last_run, self.session.now)
        if last is not None and self.session.now < last + self.interval:
            return []
        chosen = {
            task.uid: task
            for strategy in self.strategies
            for task in _Balancing(self.session, strategy.params).victims(running)
        }
        self.chosen = frozenset(chosen)
        return list(chosen.values())

    def learn(self, session: Session) -> ReschedulingMemory | None:
        return ReschedulingMemory(session.now) if self.chosen & session.evicted else None

    def next_change(self, session: Session) -> Instant | None:
        """The end of the interval, or when a measurement becomes too old; a new measurement is news."""
        known = past(session.memory.of(MEMORY).last_run, session.now)
        last = session.now if self.chosen & session.evicted else known
        interval_ends = None if last is None else last + self.interval
        times = [interval_ends, expiry(session)]
        return min((when for when in times if when is not None and when > session.now), default=None)


class _Balancing:
    """One run of lowNodeUtilization; rows of all columns are cpu and memory."""

    def __init__(self, session: Session, params: Params) -> None:
        self.session = session
        self.target = params.target_thresholds.parts()
        loads = load_columns(session)
        table = session.room.table
        self.capacity = table.allocatable[list(_ROWS)].astype(np.float64)
        self.used = np.vstack([loads.cpu, loads.memory])
        usable = np.array([not node.spec.unschedulable for node in table.objects], dtype=bool)
        self.low = loads.known & usable & (self.used < params.thresholds.parts()).all(axis=0)
        self.high = loads.known & ~self.low & (self.used > self.target).any(axis=0)

    def victims(self, running: Sequence[Task]) -> list[Task]:
        if not self.low.any() or not self.high.any():
            return []
        room = ((self.target - self.used) * self.capacity)[:, self.low].sum(axis=1)
        surplus = _Surplus(self.session)
        by_node: dict[int, list[Task]] = {}
        for task, node in self.session.on_nodes(running):
            if task.preemptable:
                by_node.setdefault(node, []).append(task)
        chosen = []
        for node in sorted(np.flatnonzero(self.high).tolist(), key=lambda node: (-self.used[:, node].sum(), node)):
            for task in _least_important_first(by_node.get(node, [])):
                if not (self.used[:, node] > self.target[:, 0]).any():
                    break
                request = np.array([task.request.amounts.get(name, 0) for name in _NAMES], dtype=np.float64)
                if (request <= room).all() and surplus.take(task):
                    room -= request
                    self.used[:, node] -= request / np.maximum(self.capacity[:, node], 1)
                    chosen.append(task)
        return chosen


class _Surplus(Mutable):
    """Members that their gang can do without; a gang of one moves as a whole."""

    session: Session
    taken: dict[str, int] = msgspec.field(default_factory=dict)

    def take(self, task: Task) -> bool:
        gang = self.session.gangs[task.gang]
        already = self.taken.get(gang.key, 0)
        if gang.spec.min_member > 1 and gang.tally.ready - already <= gang.spec.min_member:
            return False
        self.taken[gang.key] = already + 1
        return True


def _least_important_first(tasks: Sequence[Task]) -> list[Task]:
    """Lowest priority first (none before any), then by quality of service, then the youngest."""
    youngest_first = sorted(tasks, key=lambda task: (task.created, task.uid), reverse=True)
    return sorted(youngest_first, key=lambda task: (*_priority(task.pod), quality_of_service(task.pod)))


def _priority(pod: Pod) -> tuple[bool, int]:
    return pod.spec.priority is not None, pod.spec.priority or 0


def quality_of_service(pod: Pod) -> int:
    """0 best effort, 1 burstable, 2 guaranteed: every container has equal requests and limits of cpu and memory."""
    needs = [each.resources for each in (*pod.spec.containers, *pod.spec.init_containers)]
    if not any(_asks(each.requests) or _asks(each.limits) for each in needs):
        return 0
    return 2 if is_guaranteed(pod) else 1


def _asks(resources: Mapping[str, str | float]) -> bool:
    return any(amounts.amount(name, resources[name]) for name in _NAMES if name in resources)
