"""Which pods gang-wise eviction takes together: what a gang can spare, and what only goes with the gang as a whole.

Members above the minimums of their gang, their role and their sub gang's policy form a *safe* bundle: the gang runs on without
them. All others, wherever they run, form one *whole* bundle: without one of them the gang is broken, and the rest would go on
running, paid for and useless. Safe bundles always go first, so a gang's whole bundle is taken only after its safe one.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.cluster import amounts
from pumice.cluster.gangs import NO_POLICY
from pumice.cluster.tasks import OCCUPYING
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Status, Task
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.points import EvictionKind
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Eviction


class Bundle(Value, eq=False):
    """Victims of one gang; `whole` means that with them the whole gang is gone."""

    gang: GangState
    whole: bool
    tasks: tuple[Task, ...]  # whose room may help
    elsewhere: tuple[Task, ...] = ()  # the rest of a whole gang

    @property
    def victims(self) -> tuple[Task, ...]:
        return (*self.tasks, *self.elsewhere)

    def worth(self, need: Amounts) -> float:
        """What it gives of what is needed, for what it costs its gang; safe bundles cost nothing."""
        if not self.whole:
            return float("inf")
        gives = amounts.sum_of(task.request.amounts for task in self.tasks)
        costs = amounts.sum_of(task.request.amounts for task in self.gang.tasks)
        useful = sum(min(gives.get(name, 0), value) / value for name, value in need.items() if value > 0)
        price = sum(costs.get(name, 0) / value for name, value in need.items() if value > 0)
        return useful / price if price else 0.0


def bundles_of(gang: GangState, tasks: Iterable[Task], everywhere: Sequence[Task]) -> list[Bundle]:
    """A gang's candidates as at most one safe and one whole bundle; a gang that is broken already has nothing to lose.

    `tasks` are those whose room may help. `everywhere` are all that may go: if some member may not, the gang cannot go whole.
    """
    # Of equal members the last goes first: the first ones often lead the others.
    ordered = sorted(tasks, key=lambda task: (task.priority, -(task.index or 0), task.uid))
    if gang.tally.ready < gang.minimum:
        return [Bundle(gang, whole=False, tasks=tuple(ordered))]
    surplus = _Surplus(gang)
    safe: list[Task] = []
    needed: list[Task] = []
    for task in ordered:
        (safe if surplus.take(task) else needed).append(task)
    found = []
    if safe:
        found.append(Bundle(gang, whole=False, tasks=tuple(safe)))
    if needed and len(everywhere) == sum(gang.tally[status] for status in OCCUPYING):
        taken = {task.uid for task in ordered}
        elsewhere = tuple(task for task in everywhere if task.uid not in taken)
        found.append(Bundle(gang, whole=True, tasks=tuple(needed), elsewhere=elsewhere))
    return found


class _Surplus:
    """What a gang has beyond each of its minimums, and what is left of it as members are taken."""

    def __init__(self, gang: GangState) -> None:
        self.gang = gang
        self.members = gang.tally.ready - gang.minimum
        self.roles: dict[str, int] = {}
        if gang.roles_count:
            self.roles = {role: gang.role_ready(role) - least for role, least in gang.spec.role_minimums.items()}
        self.parts = {
            index: sum(sub.is_ready for sub in gang.subs if sub.sub.policy == index) - policy.min_sub_groups
            for index, policy in enumerate(gang.spec.policies)
        }
        self.taken: dict[str, int] = {}  # by sub gang

    def take(self, task: Task) -> bool:
        """Take the task if no minimum suffers."""
        sub = self.gang.sub_of(task)
        if self.members <= 0 or self.roles.get(task.role, 1) <= 0 or not self._part_can_bear(sub):
            return False
        self.members -= 1
        if task.role in self.roles:
            self.roles[task.role] -= 1
        if sub.sub.policy in self.parts and self._remaining(sub) == sub.minimum:
            self.parts[sub.sub.policy] -= 1  # this one breaks the part; its other members are free from now on
        self.taken[sub.sub.key] = self.taken.get(sub.sub.key, 0) + 1
        return True

    def _remaining(self, sub: SubState) -> int:
        tally = sub.tally
        return tally.ready + tally.waiting_best_effort - self.taken.get(sub.sub.key, 0)

    def _part_can_bear(self, sub: SubState) -> bool:
        if sub.sub.policy == NO_POLICY or self._remaining(sub) != sub.minimum:
            return True  # it has members to spare, or is broken already
        return self.parts[sub.sub.policy] > 0


def in_order(
    bundles: Iterable[Bundle], need: Amounts, compare: Callable[[GangState, GangState], float]
) -> list[Bundle]:
    """Safe ones first, then as `compare` says (negative: left goes first), then those that give most for what they cost."""

    @functools.cache
    def rank(bundle: Bundle) -> tuple[float, str, str, int]:
        return (-bundle.worth(need), bundle.gang.key, bundle.tasks[0].uid, len(bundle.tasks))

    def before(left: Bundle, right: Bundle) -> int:
        if left.whole != right.whole:
            return -1 if right.whole else 1
        order = compare(left.gang, right.gang) if left.gang is not right.gang else 0
        if not order:
            order = -1 if rank(left) < rank(right) else 1
        return -1 if order < 0 else 1

    return sorted(bundles, key=functools.cmp_to_key(before))


def approved_bundles(
    session: Session, kind: EvictionKind, claimant: GangState, bundles: Sequence[Bundle]
) -> list[Bundle]:
    """What the plugins let go: a safe bundle may shrink, a gang goes whole or not at all."""
    candidates = [task for bundle in bundles for task in bundle.victims]
    allowed = {task.uid for task in session.points.evictable.of(kind, claimant, candidates)}
    held_back = {task.gang for task in candidates if task.uid not in allowed}
    found = []
    for bundle in bundles:
        kept = tuple(task for task in bundle.tasks if task.uid in allowed)
        if bundle.whole:
            if bundle.gang.key not in held_back:
                found.append(bundle)
        elif kept:
            found.append(msgspec.structs.replace(bundle, tasks=kept))
    return found


class Candidates:
    """Tasks that a rule allows as victims, by node and by the priority of their gang; and the most room they could make."""

    def __init__(self, session: Session, statuses: frozenset[Status], allows: Callable[[GangState], bool]) -> None:
        self.session = session
        self.by_node: dict[int, list[Task]] = {}
        self.everywhere: dict[str, list[Task]] = {}  # by gang
        self._most: dict[int, Column] = {}
        known = session.room.table.index
        for gang in session.gangs.values():
            if gang.spec.forbids_eviction or not allows(gang):
                continue
            tasks = [task for task in gang.tasks_in(*statuses) if task.preemptable and task.node in known]
            if tasks:
                self.everywhere[gang.key] = tasks
                nodes = [session.node_index(task) for task in tasks]
                for node, task in zip(nodes, tasks, strict=True):
                    self.by_node.setdefault(node, []).append(task)
                column = self._most.setdefault(gang.priority, np.zeros_like(session.room.used))
                np.add.at(column.T, nodes, demands(session, tasks))

    def most(self, below: float) -> Column | None:
        """The room that all victims of gangs below that priority hold together; None where there are none."""
        columns = [column for priority, column in self._most.items() if priority < below]
        return np.sum(columns, axis=0) if columns else None

    def forget(self, evictions: Iterable[Eviction]) -> None:
        """Leave out who has to go already."""
        for each in evictions:
            self.by_node[each.node].remove(each.task)
            self.everywhere[each.gang.key].remove(each.task)
            self._most[each.gang.priority][:, each.node] -= each.shape.demand

    def by_gang(self, nodes: Iterable[int], below: float) -> Mapping[str, list[Task]]:
        gangs = self.session.gangs
        found: dict[str, list[Task]] = {}
        for node in nodes:
            for task in self.by_node.get(node, ()):
                if gangs[task.gang].priority < below:
                    found.setdefault(task.gang, []).append(task)
        return found


def demands(session: Session, tasks: Sequence[Task]) -> Column:
    """What each task asks for, one row each; equal requests are one object."""
    known = {task.request: session.room.table.axis.demand(task.request) for task in tasks}
    return np.array([known[task.request] for task in tasks])
