"""Taints, grouped: clusters have thousands of nodes and a handful of different sets of taints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.api.core import Taint
from pumice.api.tolerations import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, tolerates
from pumice.values import once

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.api.pods import Toleration
    from pumice.cluster.columns import Column, Mask
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session

_REPELLING = frozenset({NO_SCHEDULE, NO_EXECUTE})
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeTaints:
    """The nodes by their sets of taints; one for all plugins of a session."""

    of_node_objects = True

    def __init__(self, session: Session) -> None:
        self._objects = session.room.table.objects

    @once
    def _taint_sets(self) -> tuple[Indexes, list[tuple[Taint, ...]]]:
        """The number of each node's set of taints, and the sets."""
        sets: dict[tuple[Taint, ...], int] = {(): 0}
        groups = [
            sets.setdefault(_bare(taints) if (taints := node.spec.taints) else (), len(sets)) for node in self._objects
        ]
        return np.array(groups, dtype=np.intp), list(sets)

    @once
    def _cordoned_nodes(self) -> Mask:
        return np.array([node.spec.unschedulable for node in self._objects], dtype=bool)

    def repelling(self, tolerations: Sequence[Toleration]) -> Mask:
        """Nodes with a NoSchedule or NoExecute taint that is not tolerated."""
        return self._each(_REPELLING, tolerations) > 0

    def disliked(self, tolerations: Sequence[Toleration]) -> Column | None:
        """How many PreferNoSchedule taints of each node are not tolerated; None where there are none."""
        if not any(taint.effect == PREFER_NO_SCHEDULE for taints in self._taint_sets[1] for taint in taints):
            return None
        return self._each(frozenset({PREFER_NO_SCHEDULE}), tolerations)

    def closed(self, tolerations: Sequence[Toleration]) -> Mask:
        """Cordoned nodes, unless the pod tolerates just that."""
        if any(tolerates(toleration, _CORDON) for toleration in tolerations):
            return np.zeros_like(self._cordoned_nodes)
        return self._cordoned_nodes

    def _each(self, effects: frozenset[str], tolerations: Sequence[Toleration]) -> Column:
        """How many taints with one of the effects are not tolerated, on each node."""
        group, sets = self._taint_sets
        counts: Column = np.array(
            [_count_untolerated(taints, effects, tolerations) for taints in sets], dtype=np.int64
        )[group]
        return counts


def _bare(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Without the times at which they were added, which tell equal taints apart."""
    return tuple(Taint(taint.key, taint.value, taint.effect) for taint in taints)


def _count_untolerated(taints: Iterable[Taint], effects: frozenset[str], tolerations: Sequence[Toleration]) -> int:
    return sum(
        taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )
