"""pdb: evictions stay within the PodDisruptionBudgets of their pods, counted over everything that a cycle plans.

The API server refuses what a budget does not allow, so that a plan beyond it is made in vain, again and again. A gang that waits is told of budgets
that allow nobody to leave.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from pumice.api.policy import PodDisruptionBudget
from pumice.cluster.matching import compile_selector
from pumice.cluster.tasks import EVICTABLE, Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.plugin import Plugin, Watch
from pumice.scheduling.core.points import Bound
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.placing import members, turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice import selectors
    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import EvictionKind
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.evicting.victim_columns import VictimColumns, View


NAME = "pdb"
KEPT_MAX = 64  # gangs that budgets keep from leaving, and that others are told of
_WITHIN, _BETWEEN = frozenset({"preempt", "gangpreempt"}), frozenset({"reclaim", "gangreclaim"})


class _Budget:
    """One budget, and how much of it this cycle has used up."""

    def __init__(self, budget: PodDisruptionBudget) -> None:
        self.key = budget.metadata.key
        self.is_shut = budget.status.disruptions_allowed <= 0
        self.selector: selectors.LabelSelector = compile_selector(budget.spec.selector)
        self.granted = budget.status.disrupted_pods  # evictions that the API server counts already
        self.left = budget.status.disruptions_allowed

    def concerns(self, task: Task) -> bool:
        # Pods that do not run yet may go whatever a budget says (API server parity).
        if task.status is Status.BOUND:
            return False
        return task.name not in self.granted and self.selector.matches(task.pod.metadata.labels)


class Pdb(Plugin):
    """Of the candidates, in their order, as many as the budgets allow; a pod under several budgets needs all of them.

    Budgets hold whichever tier chooses the victims.
    """

    essential = True
    stays_open = True
    watches = (Watch(PodDisruptionBudget),)

    def open(self, session: Session) -> None:
        self.session = session
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
        if self.budgets:
            on.moved(self.moved)
            on.close(self.tell)

    def of(self, task: Task) -> tuple[_Budget, ...]:
        if task.uid not in self._of:
            own = self.budgets.get(task.namespace, ())
            self._of[task.uid] = tuple(budget for budget in own if budget.concerns(task))
        return self._of[task.uid]

    def within_budgets(self, victims: Sequence[Task]) -> list[Task]:
        if not self.budgets:
            return list(victims)
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
        if not spent:
            return np.ones(len(view), dtype=bool)
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

    # ------------------------------------------------------------------------------------------------- what is told

    def tell(self) -> None:
        """Told of what stands in the cluster, and not of what was tried: a gang whose turn was skipped is told the same."""
        session = self.session
        if not any(budget.is_shut for own in self.budgets.values() for budget in own):
            return
        kept = list(itertools.islice(self._kept(), KEPT_MAX))
        for gang in turns.contenders(session) if kept else ():
            if gang.key in session.made_room_for or session.is_ready(gang):
                continue
            victim, budget = next(((each, by) for each, by in kept if self._ranks_above(gang, each)), (None, None))
            if victim is not None and budget is not None:
                facts = Facts(name=budget.key, gang=victim.key)
                members.refuse(gang, Reason(Code.DISRUPTION_BUDGET, NAME, facts, cure=Cure.WAITING))

    def _kept(self) -> Iterator[tuple[GangState, _Budget]]:
        """Gangs of which a budget lets nobody go, each with it."""
        for key, gang in sorted(self.session.gangs.items()):
            if key.partition("/")[0] in self.budgets:
                own = (self.of(task) for task in gang.tasks_in(*EVICTABLE) if task.preemptable)
                shut = next((budget for budgets in own for budget in budgets if budget.is_shut), None)
                if shut is not None:
                    yield gang, shut

    def _ranks_above(self, gang: GangState, victim: GangState) -> bool:
        """Whether the gang could evict the other one if no budget kept it."""
        session = self.session
        actions = frozenset(session.policy.actions)
        if gang.queue == victim.queue:
            return gang.priority > victim.priority and bool(actions & _WITHIN)
        may_take = session.queue_of(victim).reclaimable and not session.points.overused.holds(session.queue_of(gang))
        return may_take and bool(actions & _BETWEEN)
