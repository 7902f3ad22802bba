"""Taints, grouped: clusters have thousands of nodes and a handful of different sets of taints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.api.core import Taint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from pumice.api.pods import Toleration
    from pumice.cluster.columns import Mask
    from pumice.scheduling.session import Session

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
_REPELLING = frozenset({NO_SCHEDULE, NO_EXECUTE})
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeTaints:
    """The nodes by their sets of taints; one for all plugins of a session."""

    def __init__(self, session: Session) -> None:
        objects = session.room.table.objects
        sets: dict[tuple[Taint, ...], int] = {(): 0}
        groups = (sets.setdefault(_bare(node.spec.taints), len(sets)) for node in objects)
        self._group = np.fromiter(groups, dtype=np.intp, count=len(objects))
        self._sets = list(sets)
        self.cordoned: Mask = np.fromiter((node.spec.unschedulable for node in objects), dtype=bool, count=len(objects))

    def repelling(self, tolerations: Sequence[Toleration]) -> Mask:
        """Nodes with a NoSchedule or NoExecute taint that is not tolerated."""
        return self._each(lambda taints: _untolerated(taints, _REPELLING, tolerations) > 0).astype(bool)

    def disliked(self, tolerations: Sequence[Toleration]) -> NDArray[np.int64]:
        """How many PreferNoSchedule taints of each node are not tolerated."""
        return self._each(lambda taints: _untolerated(taints, frozenset({PREFER_NO_SCHEDULE}), tolerations))

    def closed(self, tolerations: Sequence[Toleration]) -> Mask:
        """Cordoned nodes, unless the pod tolerates just that."""
        if any(tolerates(toleration, _CORDON) for toleration in tolerations):
            return np.zeros_like(self.cordoned)
        return self.cordoned

    def _each(self, judge: Callable[[tuple[Taint, ...]], int]) -> NDArray[np.int64]:
        answers = np.fromiter((judge(taints) for taints in self._sets), dtype=np.int64, count=len(self._sets))
        judged: NDArray[np.int64] = answers[self._group]
        return judged


def _bare(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Without the times at which they were added, which tell equal taints apart."""
    return tuple(Taint(taint.key, taint.value, taint.effect) for taint in taints) if taints else ()


def _untolerated(taints: Iterable[Taint], effects: frozenset[str], tolerations: Sequence[Toleration]) -> int:
    return sum(
        taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key or effect of the toleration stands for every key or effect."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Lt" | "Gt":
            return _compares(toleration, taint)
        case _:
            return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Numeric tolerations: the taint's value lies below or above the toleration's; anything but integers is no match."""
    try:
        bound, value = int(toleration.value), int(taint.value)
    except ValueError:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound
