"""conformance: system pods are never victims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import EvictionKind
    from pumice.scheduling.core.session import Session

PROTECTED_NAMESPACE = "kube-system"
PROTECTED_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(Plugin):
    """Protects kube-system and the critical priority classes from eviction, whichever tier chooses the victims."""

    essential = True
    stays_open = True

    def open(self, session: Session) -> None:
        on = session.on
        bound = Bound(lambda _claimant, _columns: None, lambda _key, view: view.of_pods(is_ordinary) > 0, exact=True)
        for point in (on.preemptable, on.reclaimable):
            point(lambda _, candidates: ordinary(candidates), bound)
            point.shield(lambda _, candidates: ordinary(candidates), bound)
        on.evictable(self.of_gangs)
        on.evictable.shield(self.of_gangs)
        on.shuffled.guard(ordinary)

    def of_gangs(self, kind: EvictionKind, claimant: GangState, candidates: Sequence[Task]) -> Sequence[Task]:
        del kind, claimant
        return ordinary(candidates)


def ordinary(candidates: Sequence[Task]) -> list[Task]:
    return [task for task in candidates if is_ordinary(task)]


def is_ordinary(task: Task) -> bool:
    return task.namespace != PROTECTED_NAMESPACE and task.pod.spec.priority_class_name not in PROTECTED_CLASSES
