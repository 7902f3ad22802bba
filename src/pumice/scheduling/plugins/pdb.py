"""pdb: evictions stay within the PodDisruptionBudgets of their pods, counted over everything that a cycle plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.api.policy import PodDisruptionBudget
from pumice.cluster.matching import compile_selector
from pumice.cluster.tasks import EVICTABLE
from pumice.scheduling.core.arguments import Args as NoArgs
from pumice.scheduling.core.plugin import Plugin, Watch
from pumice.scheduling.core.points import Bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice import selectors
    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import EvictionKind
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.evicting.victim_columns import VictimColumns, View


class _Budget:
    """One budget, and how much of it this cycle has used up."""

    def __init__(self, budget: PodDisruptionBudget) -> None:
        self.selector: selectors.LabelSelector = compile_selector(budget.spec.selector)
        self.granted = budget.status.disrupted_pods  # evictions that the API server counts already
        self.left = budget.status.disruptions_allowed

    def concerns(self, task: Task) -> bool:
        return task.name not in self.granted and self.selector.matches(task.pod.metadata.labels)


class Pdb(Plugin):
    """Of the candidates, in their order, as many as the budgets allow; a pod under several budgets needs all of them.

    Budgets hold whichever tier chooses the victims.
    """

    essential = True

    args_type = NoArgs
    watches = (Watch(PodDisruptionBudget),)

    def __init__(self, args: NoArgs, option: PluginOption) -> None:
        del args, option

    def open(self, session: Session) -> None:
        self.budgets: dict[str, list[_Budget]] = {}
        for key, budget in sorted(session.snapshot.objects(PodDisruptionBudget).items()):
            self.budgets.setdefault(key.partition("/")[0], []).append(_Budget(budget))
        self._of: dict[str, tuple[_Budget, ...]] = {}
        self._combinations: dict[tuple[_Budget, ...], int] = {}
        on = session.on
        bound = Bound(self._spent, self.not_spent)
        for point in (on.preemptable, on.reclaimable):
            point(lambda _, candidates: self.within_budgets(candidates), bound)
            point.shield(lambda _, candidates: self.within_budgets(candidates), bound)
        on.evictable(self.of_gangs)
        on.evictable.shield(self.of_gangs)
        on.shuffled.guard(self.within_budgets)
        on.moved(self.moved)

    def of(self, task: Task) -> tuple[_Budget, ...]:
        if task.uid not in self._of:
            own = self.budgets.get(task.namespace, ())
            self._of[task.uid] = tuple(budget for budget in own if budget.concerns(task))
        return self._of[task.uid]

    def within_budgets(self, victims: Sequence[Task]) -> list[Task]:
        left = {id(budget): budget.left for budgets in self.budgets.values() for budget in budgets}
        chosen = []
        for task in victims:
            own = self.of(task)
            if all(left[id(budget)] > 0 for budget in own):
                chosen.append(task)
                for budget in own:
                    left[id(budget)] -= 1
        return chosen

    def _spent(self, claimant: Task, columns: VictimColumns) -> tuple[bool, ...]:
        """Which budgets allow no eviction at all."""
        del claimant, columns
        return tuple(budget.left <= 0 for budgets in self.budgets.values() for budget in budgets)

    def not_spent(self, spent: tuple[bool, ...], view: View) -> Mask:
        """Pods of which every budget allows one more."""
        kinds = view.of_tasks(self._budgets_of)
        numbers = {id(each): at for at, each in enumerate(one for own in self.budgets.values() for one in own)}
        free = [not any(spent[numbers[id(budget)]] for budget in budgets) for budgets in self._combinations]
        mask: Mask = np.array(free, dtype=bool)[kinds]
        return mask

    def _budgets_of(self, task: Task) -> int:
        """A number for the budgets that the pod is under."""
        return self._combinations.setdefault(self.of(task), len(self._combinations))

    def of_gangs(self, kind: EvictionKind, claimant: GangState, candidates: Sequence[Task]) -> Sequence[Task]:
        del kind, claimant
        return self.within_budgets(candidates)

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        """Pods that were on their nodes when the cycle began move only by being evicted, or spared after all."""
        del gang, shape, nodes
        for task in tasks:
            if task.status in EVICTABLE:
                for budget in self.of(task):
                    budget.left += sign
