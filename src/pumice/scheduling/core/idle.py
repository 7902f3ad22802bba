"""What stands idle: by resource, and the part of it that no large pod can use because its node is partly taken."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.columns import PODS_ROW, SCORED_CPU_ROW, SCORED_MEMORY_ROW

if TYPE_CHECKING:
    from pumice.cluster.columns import NodeTable

_NO_RESOURCE = frozenset({PODS_ROW, SCORED_CPU_ROW, SCORED_MEMORY_ROW})


@dataclasses.dataclass(frozen=True, slots=True)
class Idle:
    """Of one resource, in its units (bytes or thousandths), over nodes that take pods."""

    capacity: int
    used: int
    idle: int
    fragmented: int


def idle(table: NodeTable) -> dict[str, Idle]:
    """Idle and fragmented amounts by resource name; cordoned nodes are left out."""
    open_ = np.array([not node.spec.unschedulable for node in table.objects], dtype=bool)
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
