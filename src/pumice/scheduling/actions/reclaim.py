"""reclaim: a queue that has less than its due takes back from queues that have more, if that lets a gang start as a whole."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.tasks import Status
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.evicting import backoff, claimants, eviction
from pumice.scheduling.evicting.pool import Pool, Shut
from pumice.scheduling.placing import pending
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Statement
    from pumice.scheduling.evicting.pool import Screen

NAME = "reclaim"
_RUNNING = frozenset({Status.RUNNING})


def run(session: Session) -> None:
    for queue, gangs in claimants.by_queue(session):
        if not session.points.overused.holds(queue):
            pool = functools.cache(functools.partial(_pool, session, _lenders(session, queue)))
            claimants.take_turns(session, NAME, gangs, functools.partial(_reclaim, session, queue, pool))


def _lenders(session: Session, queue: QueueInfo) -> frozenset[str]:
    """Other queues that have gangs and let others reclaim from them."""
    others = (name for name in session.queues_in_use if name != queue.name)
    return frozenset(name for name in others if name in session.queues and session.queues[name].reclaimable)


def _pool(session: Session, lenders: frozenset[str]) -> Pool | None:
    """Their preemptable tasks; made when the first gang has a right to them, because to put all pods in columns takes its time."""
    return Pool(session, session.points.reclaimable, lenders, _RUNNING, is_preempting=False) if lenders else None


def _reclaim(session: Session, queue: QueueInfo, pool_of: Callable[[], Pool | None], gang: GangState) -> None:
    statement, budget = session.statement(gang), session.budget
    pool = None if _has_no_right(session, queue, gang) else pool_of()
    if pool is None or not pool.members.any():
        backoff.record(session, NAME, gang, budget)
        return
    needy = eviction.in_need(session, gang)
    pool.start_plan()
    for left, task in zip(range(len(needy), 0, -1), needy, strict=True):
        if not session.points.starving.holds(gang) or eviction.is_lost(session, gang, left):
            break
        if task.pod.spec.preemption_policy != "Never" and session.points.preemptive.holds(queue, [task]):
            _reclaim_for(session, statement, gang, task, pool)
    if statement.operations and eviction.is_worth_it(session, statement, gang):
        eviction.spare(session, statement, check_queue=False)
        if eviction.carry_out(session, statement, gang):
            return
    statement.rollback()
    backoff.record(session, NAME, gang, budget)


def _has_no_right(session: Session, queue: QueueInfo, gang: GangState) -> bool:
    """What the queue has no right to for one of equal members it has for none."""
    return pending.shape_of_all(session, gang) is not None and not session.points.preemptive.holds(
        queue, gang.tasks[:1]
    )


def _reclaim_for(session: Session, statement: Statement, gang: GangState, task: Task, pool: Pool) -> bool:
    shape = session.shape(task)
    if session.placer.prefilter(shape) is not None:
        return False
    if not session.spend(1):
        return False
    screen = pool.screen(gang, task)
    if (shut := pool.shut(screen, gang)) is None:
        nodes = pool.promising(np.flatnonzero(session.placer.evictable(shape) & pool.could_open(shape)), task)
        is_open = pool.is_open(screen, nodes)
        if is_open.any():
            trial = _Trial(session, statement, gang, task, pool, screen)
            return pool.first_that_works(nodes, is_open, task, trial.on)
        shut = screen.shut = Shut(pool.columns.moves, nodes, mixed=False)
    pool.give_up(shut.nodes, task)
    return False


class _Trial(Value):
    """Tries one node after the other for one pod; what it leaves behind in the statement is one working place, or nothing."""

    session: Session
    statement: Statement
    gang: GangState
    task: Task
    pool: Pool
    screen: Screen

    def on(self, node: int) -> bool:
        session, statement, shape = self.session, self.statement, self.session.shape(self.task)
        candidates = eviction.victim_order(session, self.gang, self.pool.candidates(node, self.gang))
        victims = session.points.reclaimable.of(self.task, candidates) if candidates else []
        if not candidates or not eviction.enough(session, shape, node, victims):
            self.pool.give_up(node, self.task)
            self.pool.refuse(self.screen, node, self.gang)
            return False
        mark = statement.checkpoint()
        for victim in eviction.victim_order(session, self.gang, victims):
            if eviction.enough(session, shape, node, ()):
                break
            statement.evict(victim, NAME, eviction.cost(session, victim))
        if not session.placer.passes(shape, node):  # the victims were what drew the pod here, or others keep it away
            statement.rollback(mark)
            return False
        after_eviction = statement.checkpoint() > mark
        statement.place(Placement(self.gang, shape, [self.task], [node], Status.PIPELINED, after_eviction))
        return True
