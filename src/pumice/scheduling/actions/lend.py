"""lend: room that nobody could use within a share goes to queues that lack something of theirs, a whole gang at a time.

Shares are divided to the fraction and gangs are not. Three queues that share eight cards have 2.67 each, and where their gangs need four,
none would ever start, beside eight idle cards. This action stands after all that place and evict within shares, so what is idle now is of
no use to any of them in this cycle. Queues take turns in their order. Each may exceed its share by less than one gang's minimum, because
one that has its share gets nothing here, and never takes what is guaranteed to others. Nor does one get anything in which others leave for a
gang: that one would find its share lent out when its room is there, and others would have to leave for it again, and so for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.placing import turns
from pumice.scheduling.placing.pending import PendingMembers

if TYPE_CHECKING:
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.placing.line import Line

TRIED_MAX = 8  # gangs of one queue in a cycle: each is a search through the nodes


def run(session: Session) -> None:
    _drop_hopes(session)
    lines: dict[str, Line[GangState]] = {}
    served = [session.gangs[key] for key in session.made_room_for if key in session.gangs]
    expecting = {gang.queue for gang in served if not session.is_ready(gang)}
    for gang in turns.contenders(session):
        if gang.queue not in expecting and _may_have_more(session, gang):
            if gang.queue not in lines:
                lines[gang.queue] = session.gang_line()
            lines[gang.queue].push(gang)
    left = dict.fromkeys(lines, TRIED_MAX)
    queues = session.queue_line(lines)
    while queues and session.spend(1):
        queue = queues.pop()
        if not lines[queue.name] or not left[queue.name]:
            continue
        gang = lines[queue.name].pop()
        if _may_have_more(session, gang):  # what was lent to the queue before may have given it its share
            left[queue.name] -= 1
            _try(session, gang)
        queues.push(queue)


def _drop_hopes(session: Session) -> None:
    """Preempt lets members that simply fit hold their places, also where the gang as a whole does not: of those nothing comes in this cycle."""
    for statement in session.hopes():
        statement.rollback(remember=True)
        session.kept.remove(statement)


def _may_have_more(session: Session, gang: GangState) -> bool:
    """Whether the gang waits for nothing but its queue's share, and its queue lacks something of that."""
    if gang.key in session.made_room_for or session.is_ready(gang):
        return False
    return session.points.allocatable.may_exceed(session.queue_of(gang), gang)


def _try(session: Session, gang: GangState) -> None:
    """A turn in which the share does not count; where it comes to nothing, the share remains the reason."""
    said = list(gang.reasons), dict(gang.fit_errors)
    gang.reasons.clear()
    gang.fit_errors.clear()
    with session.turn_of(gang), session.points.allocatable.exceeding():
        turns.take(session, gang, PendingMembers(session, gang))
    if not session.is_ready(gang):
        gang.reasons, gang.fit_errors = said
