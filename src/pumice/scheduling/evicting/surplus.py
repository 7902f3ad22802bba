"""Members that gangs run beyond their minimums, and who would start with their room: a gang of the same queue, of no lower priority.

Growth is for room that nobody else needs. Preempt takes it for gangs of higher priority, reclaim for other queues; a gang of equal priority
would wait until the work of the others is over, which may be never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import EVICTABLE
from pumice.scheduling.evicting import bundles, eviction, gang_eviction, lost_work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.cluster.gangs import Gang
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Statement


def plan_for(session: Session, gang: GangState, rule: str) -> Statement | None:
    """The plan by which the gang starts, with as few victims as it can do with, those first that lose the least work."""
    spared = session.points.shuffled.allowed(list(_spared(session, gang)))
    # Of equals the last members still go first.
    spared.sort(key=lambda task: lost_work.card_seconds([task], session.now))
    if not spared:
        return None
    statement = session.statement(gang)
    for task in spared[: eviction.SPARED_BY_REPLAY_MAX]:
        statement.evict(task, rule, eviction.cost(session, task))
    with session.turn_of(gang):
        works = gang_eviction.promise_places(session, statement, gang)
        if works and eviction.is_worth_it(session, statement, gang):
            eviction.spare(session, statement, check_queue=True)
            if statement.evictions:
                return statement
    statement.rollback()
    return None


class _Grown:
    """Steady gangs with members beyond their minimums: few, whatever the number of those that run."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def add(self, gang: Gang, sign: int) -> None:
        if len(gang.tasks) > gang.spec.min_member:
            (self.keys.add if sign > 0 else self.keys.discard)(gang.key)


def _may_have_grown(session: Session) -> list[GangState]:
    """All but those that are whole and have nobody to spare, in the snapshot's order."""
    keys = session.steady.sum(_Grown).keys | {gang.key for gang in session.restless}
    return [session.gangs[key] for key in session.snapshot.gangs if key in keys and key in session.gangs]


def _spared(session: Session, claimant: GangState) -> Iterator[Task]:
    """Who could go without breaking a gang, and will be made anew by somebody."""
    for gang in session.shared(_may_have_grown):
        is_ahead = gang.queue == claimant.queue and gang.priority <= claimant.priority and gang is not claimant
        if not is_ahead or gang.tally.ready <= gang.minimum or gang.key in session.made_room_for:
            continue
        if gang.spec.forbids_eviction or not session.is_ready(gang):
            continue
        on_nodes = (task for task, _ in session.on_nodes(gang.tasks_in(*EVICTABLE)))
        tasks = [task for task in on_nodes if task.preemptable and task.pod.metadata.controller is not None]
        for bundle in bundles.bundles_of(gang, tasks, ()):
            if not bundle.whole:
                yield from bundle.tasks
