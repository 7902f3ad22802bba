"""preempt: a gang that starves may evict lower-ranked pods of its own queue, if that lets it start as a whole.

Between gangs first, then within a gang (a higher-priority member for a lower one). Places are only promised: the pods are bound
in a later cycle, when the victims have left.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import instant
from pumice.cluster.tasks import EVICTABLE, Status
from pumice.scheduling.core.arguments import CachingArgs, read_action
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.evicting import backoff, eviction
from pumice.scheduling.evicting.eviction import Pool
from pumice.scheduling.placing import turns
from pumice.scheduling.placing.heap import Heap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.cluster.columns import Mask
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement

NAME = "preempt"
PREEMPTED_BY_SCHEDULER = "PreemptionByScheduler"


class Arguments(CachingArgs, frozen=True):
    """How far to look for victims, and by which rule."""

    topology_aware: bool = msgspec.field(name="enableTopologyAwarePreemption", default=False)
    workers: int = msgspec.field(name="topologyAwarePreemptWorkerNum", default=16)  # columns need no workers
    candidates_percent: int = msgspec.field(name="minCandidateNodesPercentage", default=10)
    candidates_least: int = msgspec.field(name="minCandidateNodesAbsolute", default=1)
    candidates_most: int = msgspec.field(name="maxCandidateNodesAbsolute", default=100)


def run(session: Session) -> None:
    arguments = read_action(Arguments, session.policy, NAME)
    starving: dict[str, list[GangState]] = {}
    for gang in turns.contenders(session):
        if not gang.wants_closeness and session.points.starving.holds(gang):
            starving.setdefault(gang.queue, []).append(gang)
    queues: Heap[QueueInfo] = Heap(session.queue_before, (session.queues[name] for name in starving))
    while queues:
        queue = queues.pop()
        _Preempting(session, arguments, queue, starving[queue.name]).run()


@dataclasses.dataclass(slots=True)
class _Preempting:
    """Preemption within one queue."""

    session: Session
    arguments: Arguments
    queue: QueueInfo
    gangs: list[GangState]
    free_came_first: bool = False  # in the last plan, for some member: in the order of scores it would look elsewhere

    def run(self) -> None:
        session = self.session
        pool = Pool(session, lambda task, gang: task.preemptable and gang.queue == self.queue.name)
        heap = Heap(session.gang_before, self.gangs)
        while heap and session.spend(1):
            gang = heap.pop()
            if (until := backoff.waits_until(session, NAME, gang)) is None:
                with session.turn_of(gang):
                    if not turns.is_held_back(session, gang):
                        self._between_gangs(gang, pool)
            else:
                session.changes_at.append(until)
        for gang in self.gangs:
            if session.spend(1):
                with session.turn_of(gang):
                    self._within(gang, pool)

    def _between_gangs(self, gang: GangState, pool: Pool) -> None:
        """Free room first costs the fewest victims. Where that fails, in the order of scores: a share rule may refuse the last
        victim after free room has gone to an early member.
        """
        session, budget = self.session, self.session.budget
        statement = session.statement(gang)
        self.free_came_first = False
        done = self._plan(statement, gang, pool, free_first=True)
        if done or (self.free_came_first and self._plan(statement, gang, pool, free_first=False)):
            eviction.spare(session, statement, check_queue=True)
            statement.commit()
        else:
            backoff.record(session, NAME, gang, budget)

    def _plan(self, statement: Statement, gang: GangState, pool: Pool, *, free_first: bool) -> bool:
        """Whether victims were found in the statement that are worth it; if not, nothing is left in it."""
        session = self.session
        needy = eviction.in_need(session, gang)
        pool.hopeless.clear()
        for left, task in zip(range(len(needy), 0, -1), needy, strict=True):
            if not session.points.starving.holds(gang) or eviction.is_lost(session, gang, left):
                break
            self._make_room(statement, gang, task, pool, lambda victim: victim.gang != gang.key, free_first=free_first)
        if statement.operations and eviction.is_worth_it(session, statement, gang):
            return True
        statement.rollback()
        return False

    def _within(self, gang: GangState, pool: Pool) -> None:
        """A member for a lower-ranked member, where the gang has its minimum also afterwards."""
        session, index = self.session, self.session.room.table.index
        own = np.zeros(len(session.room.table), dtype=bool)
        own[[index[mate.node] for mate in gang.tasks if mate.status in EVICTABLE and mate.node in index]] = True
        for task in eviction.in_need(session, gang):
            statement = session.statement(gang)
            pool.hopeless.clear()
            # No member of the gang could go elsewhere: no use to look there.
            where = session.shape(task).fits(session.room.future) | own
            made = self._make_room(statement, gang, task, pool, lambda victim: victim.gang == gang.key, where=where)
            if not made or (statement.evictions and not eviction.is_worth_it(session, statement, gang)):
                statement.rollback(remember=True)
                return
            if statement.evictions:
                statement.commit()
            else:
                session.kept.append(statement)  # it simply fits: a hope, not a decision

    def _make_room(
        self,
        statement: Statement,
        gang: GangState,
        task: Task,
        pool: Pool,
        of: Callable[[Task], bool],
        *,
        where: Mask | None = None,
        free_first: bool = True,
    ) -> bool:
        session = self.session
        shape = session.shape(task)
        if not _may_preempt(session, task, shape) or session.placer.prefilter(shape) is not None:
            return False
        mask = session.placer.evictable(shape) & pool.could_open(shape)
        if session.points.allocatable.of(self.queue, shape, 1) < 1:
            mask &= pool.has_victims  # free room is of no use to a queue without a share: one of its own has to leave
        nodes = np.flatnonzero(mask)
        if not len(nodes):
            return False
        scores = session.placer.scores(shape, task, nodes)
        trial = _Trial(session, statement, gang, task, pool, of)
        if self.arguments.topology_aware:
            return trial.on_gentlest(pool.promising(nodes.tolist(), task), self._candidates(len(nodes)))
        # Free room, which means free of evictions: a node with room that some filter refuses costs victims all the same.
        costs = ~session.placer.feasible(shape, None)[nodes]
        if free_first and costs.any() and not costs.all():
            self.free_came_first = True
        order = np.lexsort((-scores, costs)) if free_first else np.argsort(-scores, kind="stable")
        ordered = pool.promising(nodes[order].tolist(), task)
        return any(session.spend(1) and trial.on(node) for node in ordered if where is None or where[node])

    def _candidates(self, feasible: int) -> int:
        arguments = self.arguments
        wanted = max(feasible * arguments.candidates_percent // 100, arguments.candidates_least)
        return min(wanted, arguments.candidates_most, feasible)


def _may_preempt(session: Session, task: Task, shape: Shape) -> bool:
    """Not while an earlier preemption for this very pod is still under way on the node that it was promised.

    A nomination alone proves nothing: the scheduler that made it may have died before it had evicted all victims.
    """
    if task.pod.spec.preemption_policy == "Never":
        return False
    node = session.room.table.index.get(task.nominated_node)
    if node is None or not session.placer.evictable(shape)[node]:
        return True
    return not any(
        other.status is Status.RELEASING and other.priority < task.priority and _is_preempted(other)
        for other in session.room.table.tasks[node]
    )


def _is_preempted(task: Task) -> bool:
    return any(
        condition.type == "DisruptionTarget"
        and condition.status == "True"
        and condition.reason == PREEMPTED_BY_SCHEDULER
        for condition in task.pod.status.conditions
    )


@dataclasses.dataclass(slots=True)
class _Trial:
    """Tries one node after the other for one pod; what it leaves behind in the statement is one working place, or nothing."""

    session: Session
    statement: Statement
    gang: GangState
    task: Task
    pool: Pool
    of: Callable[[Task], bool]

    def victims(self, node: int) -> list[Task] | None:
        """The pods that the plugins let go on this node, first one first; None where even all of them are not enough."""
        session, task = self.session, self.task
        candidates = [
            each
            for each in self.pool.candidates(node, EVICTABLE, self.gang)
            if self.of(each) and (not task.is_best_effort or each.is_best_effort)
        ]
        # Pods are asked about in the order of eviction: a surplus is spent on those that would be evicted anyway.
        candidates = eviction.victim_order(session, self.gang, candidates)
        victims = session.points.preemptable.of(task, candidates) if candidates else []
        if not eviction.enough(session, session.shape(task), node, victims):
            self.pool.give_up(node, task)
            return None
        return eviction.victim_order(session, self.gang, victims)

    def on(self, node: int) -> bool:
        """Evict until the pod fits here, spare who need not go, and promise the place."""
        victims = self.victims(node)
        if victims is None:
            return False
        mark = self.statement.checkpoint()
        if not self._evict(node, victims):
            self.statement.rollback(mark)
            return False
        self._promise(node, mark)
        return True

    def _fits(self, node: int) -> bool:
        return eviction.fits(self.session, self.gang, self.session.shape(self.task), node)

    def _evict(self, node: int, victims: Sequence[Task]) -> bool:
        mark = self.statement.checkpoint()
        fits = self._fits(node)
        for victim in victims:
            if fits:
                break
            self.statement.evict(victim, NAME, eviction.cost(self.session, victim))
            fits = self._fits(node)
        if fits:
            self._reprieve(node, mark)
        return fits

    def _reprieve(self, node: int, mark: int) -> None:
        for operation in reversed(self.statement.evictions):
            if self.statement.operations.index(operation) < mark:
                break
            self.statement.unevict(operation)
            if not self._fits(node):
                self.statement.replay([operation])

    def _promise(self, node: int, mark: int) -> None:
        evicted = [each for each in self.statement.evictions if self.statement.operations.index(each) >= mark]
        shape = self.session.shape(self.task)
        after_eviction = eviction.has_evicted_requests(evicted)
        self.statement.place(Placement(self.gang, shape, [self.task], [node], Status.PIPELINED, after_eviction))

    def on_gentlest(self, nodes: Sequence[int], enough: int) -> bool:
        """Topology-aware mode: of some nodes that work, the one whose victims matter least."""
        found: list[tuple[tuple[float, ...], int, list[Task]]] = []
        for node in nodes:
            victims = self.victims(node)
            if not victims:
                continue
            mark = self.statement.checkpoint()
            if self._evict(node, victims):
                chosen = [
                    each.task for each in self.statement.evictions if self.statement.operations.index(each) >= mark
                ]
                if chosen:
                    found.append((_pain(self.session, chosen), node, chosen))
            self.statement.rollback(mark)
            if len(found) >= enough:
                break
        if not found:
            return False
        _, node, chosen = min(found, key=lambda each: each[:2])
        mark = self.statement.checkpoint()
        for victim in chosen:
            self.statement.evict(victim, NAME, eviction.cost(self.session, victim))
        self._promise(node, mark)
        return True


def _pain(session: Session, victims: Sequence[Task]) -> tuple[float, ...]:
    """Highest priority among the victims, their sum, their number, and how early the best of them started."""
    priorities = [task.pod.spec.priority or 0 for task in victims]
    highest = max(priorities)
    starts = [_start_time(session, task) for task, own in zip(victims, priorities, strict=True) if own == highest]
    return (highest, sum(own + 2**31 for own in priorities), len(victims), -min(starts))


def _start_time(session: Session, task: Task) -> int:
    start = task.pod.status.start_time
    return session.now if start is None else instant.parse_instant(start)
