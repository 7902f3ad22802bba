"""Shapes: pods that no enabled plugin can tell apart are one shape, and are filtered, scored and placed as one.

Every plugin that filters or scores declares what it reads of a pod. One that declares nothing is taken to read everything:
then each pod is a shape of its own, which is correct and slow.
"""

from __future__ import annotations

import enum
import functools
import operator
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.api import names
from pumice.cluster.columns import FIRST_ROWS, PODS_ROW
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from pumice.cluster.columns import Axis, Column, Mask
    from pumice.cluster.gangs import Gang
    from pumice.cluster.requests import Request
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.decisions import ShapeRoom
    from pumice.scheduling.core.verdict import Denial

_encode = msgspec.msgpack.Encoder(enc_hook=dict).encode  # the shared empty mapping is a read-only view
_NOTHING = b""


class Reads(enum.Flag):
    """Parts of a pod. Its request is always part of its shape."""

    NOTHING = 0
    NAMESPACE = enum.auto()
    LABELS = enum.auto()
    ANNOTATIONS = enum.auto()
    ROLE = enum.auto()
    GANG = enum.auto()
    PRIORITY = enum.auto()
    NODE_AFFINITY = enum.auto()  # nodeSelector and node affinity
    TOLERATIONS = enum.auto()
    POD_AFFINITY = enum.auto()
    SPREAD = enum.auto()
    PORTS = enum.auto()
    VOLUMES = enum.auto()
    CLAIMS = enum.auto()
    IMAGES = enum.auto()
    CONTAINERS = enum.auto()  # each container's own requests and limits
    REVOCABLE_ZONE = enum.auto()
    EVERYTHING = enum.auto()


@functools.cache  # adding up flags takes microseconds, and there are few policies
def together(parts: tuple[Reads, ...]) -> Reads:
    """All of them."""
    return functools.reduce(operator.or_, parts)


def _ports(task: Task) -> bytes:
    spec = task.pod.spec
    ports = [
        (port.host_ip, port.host_port, port.protocol)
        for container in (*spec.containers, *(each for each in spec.init_containers if each.is_sidecar))
        for port in container.ports
        if port.host_port
    ]
    return _encode(ports) if ports else _NOTHING


def _node_affinity(task: Task) -> bytes:
    spec = task.pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return _encode((spec.node_selector, affinity)) if spec.node_selector or affinity else _NOTHING


def _pod_affinity(task: Task) -> bytes:
    affinity = task.pod.spec.affinity
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return _NOTHING
    return _encode((affinity.pod_affinity, affinity.pod_anti_affinity))


def _volumes(task: Task) -> Hashable:
    """Claims and disks; the name of every pod's token volume ends in letters of its own."""
    mounts = task.mounts
    return (mounts.claims, mounts.disks) if mounts is not None else _NOTHING


def _annotations(task: Task) -> list[tuple[str, str]]:
    """All but the one that a new leader writes: pods that came before it and after it are not different for that."""
    return sorted(each for each in task.pod.metadata.annotations.items() if each[0] != names.LEADER)


def _claims(task: Task) -> bytes:
    spec = task.pod.spec
    return (
        _encode((spec.resource_claims, task.pod.status.resource_claim_statuses)) if spec.resource_claims else _NOTHING
    )


_PARTS: tuple[tuple[Reads, Callable[[Task], Hashable]], ...] = (
    (Reads.NAMESPACE, lambda task: task.namespace),
    (Reads.LABELS, lambda task: _encode(sorted(task.pod.metadata.labels.items()))),
    (Reads.ANNOTATIONS, lambda task: _encode(_annotations(task))),
    (Reads.ROLE, lambda task: task.role),
    (Reads.GANG, lambda task: task.gang),
    (Reads.PRIORITY, lambda task: task.priority),
    (Reads.NODE_AFFINITY, _node_affinity),
    (Reads.TOLERATIONS, lambda task: _encode(task.pod.spec.tolerations) if task.pod.spec.tolerations else _NOTHING),
    (Reads.POD_AFFINITY, _pod_affinity),
    (
        Reads.SPREAD,
        lambda task: _encode(spread) if (spread := task.pod.spec.topology_spread_constraints) else _NOTHING,
    ),
    (Reads.PORTS, _ports),
    (Reads.VOLUMES, _volumes),
    (Reads.CLAIMS, _claims),
    (
        Reads.IMAGES,
        lambda task: tuple(each.image for each in (*task.pod.spec.containers, *task.pod.spec.init_containers)),
    ),
    (Reads.CONTAINERS, lambda task: _encode([each.resources for each in task.pod.spec.containers])),
    (Reads.REVOCABLE_ZONE, lambda task: (task.revocable_zone, task.preemptable)),
    (Reads.EVERYTHING, lambda task: task.uid),
)


@functools.cache  # a policy has one value of it, and asking flags takes longer than reading most parts
def _parts(reads: Reads) -> tuple[Callable[[Task], Hashable], ...]:
    return tuple(part for read, part in _PARTS if read & reads)


class Shape(Mutable, eq=False):
    """Equal pods, what they ask for as a column, and what the cycle has already found out about them."""

    example: Task
    request: Request
    demand: Column
    rows: tuple[int, ...]  # the real resources asked for, pods included
    denials: list[Denial] | None = None  # of the fixed filters; filled once a cycle
    allowed: Mask | None = None  # nodes that no fixed filter refuses
    most: int | None = None  # how many such pods the allowed nodes hold when empty
    now: tuple[Mask, Column] | None = None  # nodes that may take them, and how many each has room for; at a cycle's end
    told: dict[int, ShapeRoom] = msgspec.field(default_factory=dict)  # the same in words, by how many are asked for

    def copies(self, free: Column) -> Column:
        """How many such pods fit into each column of free room."""
        return copies(free, self.demand, self.rows)

    def fits(self, free: Column) -> Mask:
        """Where at least one fits; comparisons are ten times cheaper than divisions."""
        fit: Mask = free[PODS_ROW] >= self.demand[PODS_ROW]
        for row in self.rows:
            if row != PODS_ROW:
                fit &= free[row] >= self.demand[row]
        return fit


_MANY = np.iinfo(np.int64).max


def copies(free: Column, demand: Column, rows: Iterable[int]) -> Column:
    """How many pods that ask for so much fit into each column of free room, by the rows that they ask for."""
    fit = np.full(free.shape[1:], _MANY, dtype=np.int64)
    for row in rows:
        np.minimum(fit, free[row] // demand[row], out=fit)
    return np.maximum(fit, 0, out=fit)


class Trait(Value):
    """What a plugin makes of a pod that tells it from others (`Points.declare`)."""

    of: Callable[[Task], Hashable]
    concerns: Callable[[Task], bool] | None
    lasts: Hashable


class _Read(Value):
    """What does not change as long as the pod's gang does not: a part of its shape's key, and the traits that are asked anew in every cycle."""

    key: Hashable
    anew: tuple[int, ...]


_ALL, _MIXED = "all members", _Read(None, ())  # no uid; and what is read of members that differ


class ShapeBook:
    """Finds the shape of a task; the key is what the enabled plugins declare they read, and traits of their own making."""

    def __init__(self, axis: Axis, gangs: Mapping[str, Gang]) -> None:
        self.axis = axis
        self._gangs = gangs
        self._reads = Reads.NOTHING
        self._traits: Sequence[Trait] = ()
        self._kept: Hashable = None
        self._shapes: dict[Hashable, Shape] = {}
        self._of_task: dict[str, Shape] = {}
        self._of_gang: dict[str, Shape | None] = {}

    def settle(self, reads: Reads, traits: Sequence[Trait]) -> None:
        """From now on these tell pods apart."""
        self._reads, self._traits = reads, traits
        self._kept = (ShapeBook, reads.value, tuple([trait.lasts for trait in traits]))

    def of(self, task: Task) -> Shape:
        shape = self._of_task.get(task.uid)
        if shape is None:
            shape = self._of_task[task.uid] = self._of_gang.get(task.gang) or self._find(task)
        return shape

    def of_all(self, gang: Gang, first: Task) -> Shape | None:
        """The shape that all members have, as in most gangs; None where they differ, or where that has to be asked anew in every cycle."""
        key = gang.spec.key
        if key in self._of_gang:
            return self._of_gang[key]
        known = gang.known.setdefault(self._kept, {})
        read = known.get(_ALL)
        if read is None:
            reads = {self._read(task, known) for task in gang.tasks}
            read = known[_ALL] = _MIXED if len(reads) > 1 else reads.pop()
        shape = self._of_gang[key] = None if read is _MIXED or read.anew else self._shape(read.key, first)
        return shape

    def count(self, gang: Gang, tasks: Sequence[Task]) -> dict[Shape, int]:
        """How many of these members are of which shape."""
        shape = self.of_all(gang, tasks[0]) if tasks else None
        return dict(Counter(map(self.of, tasks))) if shape is None else {shape: len(tasks)}

    def _find(self, task: Task) -> Shape:
        gang = self._gangs.get(task.gang)
        read = self._read(task, {} if gang is None else gang.known.setdefault(self._kept, {}))
        if not read.anew:
            return self._shape(read.key, task)
        return self._shape((read.key, *[(number, self._traits[number].of(task)) for number in read.anew]), task)

    def _read(self, task: Task, known: dict[str, _Read]) -> _Read:
        read = known.get(task.uid)
        if read is None:
            read = known[task.uid] = self._look(task)
        return read

    def _look(self, task: Task) -> _Read:
        parts = tuple([part(task) for part in _parts(self._reads)])
        concerned = [
            (number, trait)
            for number, trait in enumerate(self._traits)
            if trait.concerns is None or trait.concerns(task)
        ]
        lasting = tuple([(number, trait.of(task)) for number, trait in concerned if trait.lasts is not None])
        anew = tuple([number for number, trait in concerned if trait.lasts is None])
        return _Read((task.request, parts, lasting), anew)

    def _shape(self, key: Hashable, task: Task) -> Shape:
        shape = self._shapes.get(key)
        if shape is None:
            demand = self.axis.demand(task.request)
            rows = [row for row in range(len(demand)) if demand[row] > 0 and not 3 <= row < len(FIRST_ROWS)]
            # In the order of names, or sums of fractions would depend on which resource was heard of first.
            rows.sort(key=lambda row: (row >= len(FIRST_ROWS), self.axis.names[row]))
            shape = self._shapes[key] = Shape(task, task.request, demand, tuple(rows))
        return shape
