"""enqueue: lets waiting gangs into their queues, one per queue and turn, so that controllers make pods only for those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.core.points import Vote
from pumice.scheduling.core.verdict import Reason
from pumice.scheduling.evicting import deadlocks

if TYPE_CHECKING:
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.placing.line import Line


def run(session: Session) -> None:
    waiting: dict[str, Line[GangState]] = {}
    for gang in session.restless:
        if gang.is_waiting_for_admission and gang.key not in session.aside.gangs:
            if gang.queue not in waiting:
                waiting[gang.queue] = session.gang_line()
            with session.turn_of(gang):
                session.gang_key(gang)  # the line needs it: an error in it is this gang's
                waiting[gang.queue].push(gang)
    queues = session.queue_line(waiting)
    while queues:
        queue = queues.pop()
        line = waiting[queue.name]
        if not line:
            continue
        gang = line.pop()
        with session.turn_of(gang):
            admit(session, gang)
        queues.push(queue)


def admit(session: Session, gang: GangState) -> None:
    """Admit the gang if no plugin objects. A gang that names no minimum is not asked for (Volcano parity)."""
    if gang.spec.minimum is not None:
        if (pause := deadlocks.pause_of(session, gang)) is not None:
            gang.reasons.append(pause)
            return
        outcome = session.points.enqueueable.outcome(gang)
        if outcome is not Vote.PERMIT:
            if isinstance(outcome, Reason):
                gang.reasons.append(outcome)
            return
    session.points.enqueued.tell(gang)
    gang.admit()
    session.moved_gangs.append(gang)
