"""task-topology: within a gang, tasks that talk a lot share nodes, and tasks that get in each other's way do not.

Annotations of the group say which: `volcano.sh/task-topology-affinity: "ps,worker;driver"` keeps ps and worker together, and
drivers with drivers; `...-anti-affinity` keeps apart; `...-task-order` says who is placed first. Members are sorted into buckets,
each meant for one node; a node scores by how much of the bucket it holds already and could still take.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from pumice.api import names
from pumice.cluster import amounts
from pumice.cluster.columns import SCORED_CPU_ROW, SCORED_MEMORY_ROW
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.shapes import Reads
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

ROLES_MAX = 64  # named in one annotation; pairs of them grow with the square

# What kind of wish makes a role be placed earlier.
_KEEPS_TO_ITSELF, _WITH_OTHERS, _WITH_ITS_LIKE, _AWAY_FROM_OTHERS = 4, 3, 2, 1
_MIB = 2**20
_NOT_ROOM = frozenset({SCORED_CPU_ROW, SCORED_MEMORY_ROW})


class Args(arguments.Args, frozen=True, kw_only=True):
    weight: Annotated[int, msgspec.Meta(description="weight of the score")] = msgspec.field(
        name="task-topology.weight", default=1
    )


class TaskTopology(Plugin):
    """Orders members bucket by bucket, and draws each to the node of its bucket."""

    args_type = Args
    args: Args

    def open(self, session: Session) -> None:
        self.session = session
        self.gangs: dict[str, _Buckets] = {}
        for key, gang in session.gangs.items():
            if gang.tally[Status.PENDING] and (wishes := read_wishes(gang)) is not None:
                self.gangs[key] = _Buckets(session, gang, wishes)
        on = session.on
        on.declare(Reads.NOTHING, self._bucket_and_role)
        if self.gangs:
            on.task_order(self.order)
            on.live_score(self.score, concerns=self._concerns)
            on.moved(self.moved)

    def _bucket_and_role(self, task: Task) -> tuple[str, int, str] | None:
        buckets = self.gangs.get(task.gang)
        bucket = buckets.of.get(task.uid) if buckets is not None else None
        return None if bucket is None else (task.gang, bucket.number, task.role)

    def _concerns(self, shape: Shape) -> bool:
        buckets = self.gangs.get(shape.example.gang)
        return buckets is not None and shape.example.uid in buckets.of

    def order(self, task: Task) -> float:
        buckets = self.gangs.get(task.gang)
        return 0.0 if buckets is None else float(buckets.rank.get(task.uid, len(buckets.rank)))

    def score(self, shape: Shape, task: Task, nodes: Indexes) -> Scores:
        del shape
        buckets = self.gangs[task.gang]
        return buckets.score(task, nodes) * (100.0 * self.args.weight / buckets.largest)

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del shape
        buckets = self.gangs.get(gang.key)
        if buckets is not None:
            for task, node in zip(tasks, nodes, strict=True):
                buckets.move(task, node, sign)


# ------------------------------------------------------------------------------------------------- wishes


class Wishes(Value):
    """Pairs of roles (a role with itself included) that want to share nodes, or must not; and who comes first."""

    together: frozenset[tuple[str, str]]
    apart: frozenset[tuple[str, str]]
    urgency: Mapping[str, int]  # only of roles that some wish names
    first: Mapping[str, int]  # place in the order of placement; others come after all of them

    def pull(self, role: str, others: Mapping[str, int]) -> int:
        """How many of the others the role wants to be with, less those that it must avoid."""
        return sum(
            count * (((role, other) in self.together) - ((role, other) in self.apart))
            for other, count in others.items()
        )

    def push(self, role: str, others: Mapping[str, int]) -> int:
        """How many of the others the role must avoid."""
        return sum(count for other, count in others.items() if (role, other) in self.apart)


def read_wishes(gang: GangState) -> Wishes | None:
    """What the group's annotations ask for; None where they say nothing, or name a role twice or one that no member has."""
    notes = gang.spec.annotations
    keys = (names.TASK_TOPOLOGY_AFFINITY, names.TASK_TOPOLOGY_ANTI_AFFINITY, names.TASK_TOPOLOGY_ORDER)
    if not any(key in notes for key in keys):
        return None
    known = {task.role for task in gang.tasks} | set(gang.spec.role_minimums)
    affinity, anti_affinity, (order, *_) = ([_split(group) for group in notes.get(key, "").split(";")] for key in keys)
    listed = [*affinity, *anti_affinity, order]
    if sum(map(len, listed)) > ROLES_MAX or any(len(set(group)) < len(group) or set(group) - known for group in listed):
        return None
    urgency: dict[str, int] = {}
    for groups, alone, shared in (
        (affinity, _WITH_ITS_LIKE, _WITH_OTHERS),
        (anti_affinity, _KEEPS_TO_ITSELF, _AWAY_FROM_OTHERS),
    ):
        for group in groups:
            for role in group:
                urgency[role] = max(urgency.get(role, 0), alone if len(group) == 1 else shared)
    first = {role: place for place, role in enumerate(order)}
    return Wishes(frozenset(_pairs(affinity)), frozenset(_pairs(anti_affinity)), urgency, first)


def _split(group: str) -> list[str]:
    return [role for part in group.split(",") if (role := part.strip())]


def _pairs(groups: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    for group in groups:
        if len(group) == 1:
            yield group[0], group[0]
        yield from itertools.permutations(group, 2)


# ------------------------------------------------------------------------------------------------- buckets


class _Bucket(Mutable, eq=False):
    """Members meant for one node: those that still wait, in order, and how many are on which node."""

    number: int
    roles: Counter[str] = msgspec.field(default_factory=Counter)
    waiting: dict[str, Task] = msgspec.field(default_factory=dict)
    on_node: Counter[int] = msgspec.field(default_factory=Counter)
    weight: float = 0.0  # what the waiting ones ask for, all resources in one number


class _Buckets:
    """The buckets of one gang."""

    def __init__(self, session: Session, gang: GangState, wishes: Wishes) -> None:
        self.session = session
        self.gang = gang
        self.wishes = wishes
        self.all: list[_Bucket] = []
        self.of: dict[str, _Bucket] = {}
        self.roles_on: dict[int, Counter[str]] = {}
        concerned = [task for task in gang.tasks if task.role in wishes.urgency]
        self._sort_in_placed([task for task in concerned if gang.status(task) in OCCUPYING])
        waiting = [task for task in concerned if gang.status(task) is Status.PENDING]
        for task in sorted(waiting, key=lambda task: (*self._turn(task.role), task.name)):
            self._sort_in(task)
        self.largest = max((bucket.roles.total() for bucket in self.all), default=1)
        self.rank = self._ranks()

    def _turn(self, role: str) -> tuple[int, int]:
        wishes = self.wishes
        return wishes.first.get(role, len(wishes.first)), -wishes.urgency.get(role, 0)

    def _sort_in_placed(self, tasks: Iterable[Task]) -> None:
        """One bucket for each node that holds members."""
        by_node: dict[int, _Bucket] = {}
        known = self.session.room.table.index
        for task in sorted(tasks, key=lambda task: (task.node, task.name)):
            if task.node in known:
                node = known[task.node]
                bucket = by_node.get(node) or by_node.setdefault(node, self._new())
                self._add(bucket, task)
                bucket.on_node[node] += 1
                self.roles_on.setdefault(node, Counter())[task.role] += 1

    def _sort_in(self, task: Task) -> None:
        """Into the bucket that the task is drawn to most, the smaller of equals; a new one where all push it away."""
        best = max(self.all, key=lambda each: (self.wishes.pull(task.role, each.roles), -each.weight), default=None)
        if best is None or self.wishes.pull(task.role, best.roles) < 0:
            best = self._new()
        self._add(best, task)
        best.waiting[task.uid] = task
        best.weight += _weight(task)

    def _new(self) -> _Bucket:
        self.all.append(_Bucket(len(self.all)))
        return self.all[-1]

    def _add(self, bucket: _Bucket, task: Task) -> None:
        bucket.roles[task.role] += 1
        self.of[task.uid] = bucket

    def _ranks(self) -> dict[str, int]:
        """The fullest bucket first, its roles in their turn; equals share a rank, and a member in no bucket comes last."""
        keys = {
            task.uid: (-len(bucket.waiting), bucket.number, *self._turn(task.role))
            for bucket in self.all
            for task in bucket.waiting.values()
        }
        places = {key: place for place, key in enumerate(sorted(set(keys.values())))}
        return {uid: places[key] for uid, key in keys.items()}

    def move(self, task: Task, node: int, sign: int) -> None:
        bucket = self.of.get(task.uid)
        if bucket is None:
            return
        bucket.on_node[node] += sign
        self.roles_on.setdefault(node, Counter())[task.role] += sign
        if sign > 0:
            bucket.waiting.pop(task.uid, None)
        elif self.gang.status(task) is Status.PENDING:
            bucket.waiting[task.uid] = task

    def score(self, task: Task, nodes: Indexes) -> Scores:
        """Members of the bucket on the node, less those that the task must avoid there, and those that would fit beside it."""
        bucket = self.of[task.uid]
        there = np.zeros(len(self.session.room.table))
        for node, count in bucket.on_node.items():
            there[node] += count
        for node, roles in self.roles_on.items():
            there[node] -= self.wishes.push(task.role, roles)
        return there[nodes] + self._fit_together(bucket, task, nodes)

    def _fit_together(self, bucket: _Bucket, task: Task, nodes: Indexes) -> Scores:
        room, axis = self.session.room, self.session.room.table.axis
        others = sorted((each for each in bucket.waiting.values() if each.uid != task.uid), key=self._place)
        asked = np.cumsum([axis.demand(each.request) for each in (task, *others)], axis=0)
        fits = np.full(len(nodes), len(others) + 1)
        for row in np.flatnonzero(asked[-1]).tolist():
            if row not in _NOT_ROOM:
                free = room.idle[row, nodes] + room.releasing[row, nodes]
                np.minimum(fits, np.searchsorted(asked[:, row], free, side="right"), out=fits)
        scores: Scores = np.maximum(fits, 1).astype(np.float64)
        return scores

    def _place(self, task: Task) -> tuple[int, str]:
        return self.rank.get(task.uid, len(self.rank)), task.name


def _weight(task: Task) -> float:
    """A thousandth of a core, a thousandth of a card and a mebibyte weigh the same."""
    return sum(
        value / _MIB if amounts.in_bytes(name) else value
        for name, value in task.request.amounts.items()
        if name != amounts.PODS
    )
