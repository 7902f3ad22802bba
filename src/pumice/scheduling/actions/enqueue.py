"""enqueue: lets waiting gangs into their queues, one per queue and turn, so that controllers make pods only for those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.core.points import Vote
from pumice.scheduling.core.verdict import Reason
from pumice.scheduling.placing.heap import Heap

if TYPE_CHECKING:
    from pumice.cluster.queues import QueueInfo
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session


def run(session: Session) -> None:
    waiting: dict[str, Heap[GangState]] = {}
    for gang in session.gangs.values():
        heap = waiting.setdefault(gang.queue, Heap(session.gang_before))
        if gang.is_waiting_for_admission and gang.key not in session.aside.gangs:
            with session.turn_of(gang):
                heap.push(gang)
    queues: Heap[QueueInfo] = Heap(session.queue_before, (session.queues[name] for name in waiting))
    while queues:
        queue = queues.pop()
        heap = waiting[queue.name]
        if not heap:
            continue
        gang = heap.pop()
        with session.turn_of(gang):
            admit(session, gang)
        queues.push(queue)


def admit(session: Session, gang: GangState) -> None:
    """Admit the gang if no plugin objects. A gang that names no minimum is not asked for (Volcano parity)."""
    if gang.spec.minimum is not None:
        outcome = session.points.enqueueable.outcome(gang)
        if outcome is not Vote.PERMIT:
            if isinstance(outcome, Reason):
                gang.reasons.append(outcome)
            return
    session.points.enqueued.tell(gang)
    gang.admit()
