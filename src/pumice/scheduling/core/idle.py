"""What stands idle: by resource, the part of it that lies on nodes partly taken, and the GPUs that workers of a size cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts
from pumice.cluster.columns import PODS_ROW, SCORED_CPU_ROW, SCORED_MEMORY_ROW
from pumice.scheduling.core.decisions import Stranded
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.cluster.columns import Column, Mask, NodeTable
    from pumice.scheduling.core.decisions import ShapeRoom
    from pumice.scheduling.core.session import Session

SIZES_MAX = 16  # of workers, by resource: those that wait, then the largest

_NO_RESOURCE = frozenset({PODS_ROW, SCORED_CPU_ROW, SCORED_MEMORY_ROW})


class Idle(Value):
    """Of one resource, in its units (bytes or thousandths), over nodes that take pods."""

    capacity: int
    used: int
    idle: int
    fragmented: int


def idle(table: NodeTable) -> dict[str, Idle]:
    """Idle and fragmented amounts by resource name; cordoned nodes are left out."""
    open_ = _open(table)
    found = {}
    for row, name in enumerate(table.axis.names):
        if row in _NO_RESOURCE or not len(table):
            continue
        allocatable, used = table.allocatable[row][open_], table.used[row][open_]
        if not allocatable.any():
            continue
        free = np.maximum(allocatable - used, 0)
        partly = (used > 0) & (free > 0)
        found[name] = Idle(
            sum(allocatable.tolist()), sum(used.tolist()), sum(free.tolist()), sum(free[partly].tolist())
        )
    return found


def _open(table: NodeTable) -> Mask:
    return np.array([not node.spec.unschedulable for node in table.objects], dtype=bool)


def _ready(table: NodeTable) -> Mask:
    """Nodes that do not say otherwise."""
    return np.array(
        [
            all(each.status == "True" for each in node.status.conditions if each.type == "Ready")
            for node in table.objects
        ],
        dtype=bool,
    )


# ----------------------------------------------------------------------------------------------------- GPUs for workers


def stranded(session: Session, waiting: Iterable[ShapeRoom] = ()) -> tuple[Stranded, ...]:
    """By resource and size of a worker, from the smallest; where such pods wait, cpu, memory and filters count too.

    The sizes are those that wait, and a whole node. Nodes that are cordoned or not ready are left out.
    """
    room, table = session.room, session.room.table
    gpus = [row for row, name in enumerate(table.axis.names) if amounts.is_gpu(name) and table.allocatable[row].any()]
    if not gpus:
        return ()
    open_ = session.snapshot.kept(stranded, table.objects, lambda: _open(table) & _ready(table))
    shapes, found = list(waiting), list[Stranded]()
    for row in gpus:
        free = np.maximum(room.idle[row][open_], 0) // amounts.MILLI
        whole = int(table.allocatable[row].max()) // amounts.MILLI
        found += _by_size(table.axis.names[row], free, whole, shapes)
    return tuple(found)


def _by_size(name: str, free: Column, whole: int, shapes: list[ShapeRoom]) -> list[Stranded]:
    fits: dict[int, int] = {}
    waiting: dict[int, int] = {}
    for shape in shapes:
        size = int(shape.each.get(name, 0)) // amounts.MILLI
        if size > 0:
            fits[size] = max(fits.get(size, 0), shape.fit * size)
            waiting[size] = waiting.get(size, 0) + shape.waiting
    sizes = sorted(set([whole, *sorted(fits, reverse=True)][:SIZES_MAX]) - {0})
    total = sum(free.tolist())
    return [
        Stranded(
            name, size, total, min(total, fits.get(size, sum((free // size * size).tolist()))), waiting.get(size, 0)
        )
        for size in sizes
    ]
