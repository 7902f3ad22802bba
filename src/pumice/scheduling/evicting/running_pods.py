"""Pods that run or are bound and belong to a gang, as columns sorted by node; kept from one snapshot to the next.

Nodes whose pods have not changed keep their part, and gangs that have not changed keep their numbers: what a cycle looks at is what is different.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.tasks import EVICTABLE, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Sized

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.gangs import Gang
    from pumice.cluster.requests import Request
    from pumice.cluster.residents import Residents
    from pumice.cluster.state import Snapshot
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.points import Indexes

IDLE_NUMBERS_MAX = 10_000  # of gangs and requests that nobody has any more; with more of them everything is made anew
ASKED_MAX = 8  # questions about single pods whose answers are kept
NO_QUEUE = -1
_ready = operator.itemgetter(Status.BOUND, Status.BINDING, Status.RUNNING, Status.SUCCEEDED)  # of what a snapshot knows


class _Part:
    """One node's pods: (gang, request, status, preemptable) for each."""

    __slots__ = ("answers", "residents", "rows", "tasks")

    def __init__(self, residents: Residents, tasks: tuple[Task, ...], rows: Column) -> None:
        self.residents = residents
        self.tasks = tasks
        self.rows = rows
        self.answers: dict[Callable[[Task], int], Column] = {}


class RunningPods:
    """`edges[n]` to `edges[n + 1]` are the rows of node n."""

    def __init__(self) -> None:
        self.position: dict[str, int] = {}  # of gangs
        self.requests: dict[Request, int] = {}
        self.gangs: list[Gang | None] = []  # None: pods name a group that is not there
        self.queues: dict[str, int] = {}
        self._parts: dict[str, _Part] = {}  # by node
        self._priority: list[int] = []
        self._surplus: list[int] = []
        self._queue: list[int] = []
        self._names: list[str] = []
        self._seen: Mapping[str, Gang] = {}
        self._seen_gangs = -1
        self._concatenate()

    def follow(self, snapshot: Snapshot) -> None:
        """Become what the snapshot has, whatever was before."""
        table = snapshot.nodes
        former, names = self._parts, list(table.names)
        pairs = list(zip(names, table.tasks, strict=True))
        changed = {
            name: each for name, each in pairs if (part := former.get(name)) is None or part.residents is not each
        }
        fresh = dict(zip(changed, self._made(list(changed.values())), strict=True))
        self._parts = {name: fresh[name] if name in fresh else former[name] for name in names}
        is_same, self._names = not fresh and names == self._names, names
        if not is_same:
            self._concatenate()
        self._follow_gangs(snapshot)

    def _made(self, nodes: Sequence[Residents]) -> Iterator[_Part]:
        """The parts of some nodes: all their rows are one array, of which each has its slice."""
        own = [tuple([task for task in each if task.gang and task.status in EVICTABLE]) for each in nodes]
        tasks = list(itertools.chain.from_iterable(own))
        position, requests = self.position, self.requests
        columns = (
            [position.setdefault(task.gang, len(position)) for task in tasks],
            [requests.setdefault(task.request, len(requests)) for task in tasks],
            [task.status for task in tasks],
            [task.preemptable for task in tasks],
        )
        more = len(position) - len(self.gangs)
        self.gangs += [None] * more
        self._priority += [0] * more
        self._surplus += [0] * more
        self._queue += [NO_QUEUE] * more
        rows = np.array(columns, dtype=np.int64).T
        return (
            _Part(each, part, rows[start:end])
            for each, part, (start, end) in zip(nodes, own, _slices(own), strict=True)
        )

    def _concatenate(self) -> None:
        parts = self._parts.values()
        self.tasks: list[Task] = list(itertools.chain.from_iterable(part.tasks for part in parts))
        rows = np.concatenate([np.zeros((0, 4), dtype=np.int64), *(part.rows for part in parts)])
        self.gang: Indexes = rows[:, 0].astype(np.intp)
        self.request: Indexes = rows[:, 1].astype(np.intp)
        self.status = rows[:, 2].astype(np.int8)
        self.preemptable: Mask = rows[:, 3].astype(bool)
        self.edges: Indexes = np.cumsum([0, *(len(part.tasks) for part in parts)])
        self._answers: dict[Callable[[Task], int], Column] = {}

    def _follow_gangs(self, snapshot: Snapshot) -> None:
        gangs = snapshot.gangs
        if gangs is self._seen and self._seen_gangs == len(self.gangs):
            return
        lineage = snapshot.lineage
        if lineage is not None and lineage.gangs is gangs and lineage.former is self._seen:
            new = itertools.islice(self.position, self._seen_gangs, None)
            changed = sorted({*(lineage.changed & self.position.keys()), *new})
        else:
            pairs = zip(self.position, self.gangs, strict=True)
            changed = [key for key, former in pairs if gangs.get(key) is not former]
        self._seen, self._seen_gangs = gangs, len(self.gangs)
        for key in changed:
            at, gang = self.position[key], gangs.get(key)
            self.gangs[at] = gang
            self._queue[at] = NO_QUEUE
            if gang is not None:
                self._queue[at] = self.queues.setdefault(gang.spec.queue, len(self.queues))
                self._priority[at] = gang.spec.priority
                self._surplus[at] = sum(_ready(gang.counts)) - gang.spec.min_member
        self.gang_priority: Column = np.array(self._priority, dtype=np.int64)
        self.surplus: Column = np.array(self._surplus, dtype=np.int64)
        self.queue: Indexes = np.array(self._queue, dtype=np.intp)

    @property
    def is_worn(self) -> bool:
        return len(self.gangs) + len(self.requests) > IDLE_NUMBERS_MAX + 2 * len(self.tasks)

    def in_queues(self, names: Container[str]) -> Mask:
        """Which gangs are in queues of these names."""
        known = np.array([*(name in names for name in self.queues), False], dtype=bool)
        found: Mask = known[self.queue]  # NO_QUEUE is the last
        return found

    def of_pods(self, ask: Callable[[Task], int]) -> Column:
        """What is said of each pod as it is, whatever else there is: asked once, and not again in later cycles."""
        column = self._answers.get(ask)
        if column is None:
            if len(self._answers) >= ASKED_MAX:
                self._answers.clear()
            unasked = [part for part in self._parts.values() if ask not in part.answers]
            told = np.array([ask(task) for part in unasked for task in part.tasks], dtype=np.int64)
            for part, (start, end) in zip(unasked, _slices([part.tasks for part in unasked]), strict=True):
                part.answers = {} if len(part.answers) >= ASKED_MAX else part.answers
                part.answers[ask] = told[start:end]
            own = [part.answers[ask] for part in self._parts.values()]
            column = self._answers[ask] = np.concatenate([np.zeros(0, dtype=np.int64), *own])
        return column


def _slices(parts: Iterable[Sized]) -> Iterator[tuple[int, int]]:
    """Where each of them is when they stand one after another."""
    return itertools.pairwise(itertools.accumulate(map(len, parts), initial=0))


def of(snapshot: Snapshot) -> RunningPods:
    # Taken out, so that it is not left there half brought up to date if this fails.
    pods: RunningPods = snapshot.carried.pop(RunningPods, None) or RunningPods()
    if pods.is_worn:
        pods = RunningPods()
    pods.follow(snapshot)
    snapshot.carried[RunningPods] = pods
    return pods
