"""allocate: starts gangs where there is room, whole or not at all.

Queues take turns in their order, gangs within a queue in theirs. A gang that is not yet ready gets as many members placed as it
needs to start, in one turn; one that runs already gets one more member and goes back into the line. What does not make the
gang ready is rolled back, unless it only waits for room that is being released: then it keeps its tentative places until the
cycle ends, so that no other gang takes them. In a queue of strict order (`pumice.dev/strict-order`), a gang that does not start holds up
those behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.placing import members, turns
from pumice.scheduling.placing.pending import PendingMembers
from pumice.scheduling.sharing import queue_gate

if TYPE_CHECKING:
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.placing.line import Line


def run(session: Session) -> None:
    if "enqueue" not in session.policy.actions:
        _admit_all(session)
    pending_of = _pending(session)
    lines: dict[str, Line[GangState]] = {}
    turns.rank(session, [session.gangs[key] for key in pending_of])
    for key in pending_of:
        gang = session.gangs[key]
        if gang.queue not in lines:
            lines[gang.queue] = session.gang_line()
        lines[gang.queue].push(gang)
    claimants = {key: session.gangs[key] for key in pending_of if key in session.reserved_room.held}
    queues = session.queue_line(lines)
    while queues and session.spend(1):
        queue = queues.pop()
        if not lines[queue.name] or session.points.overused.holds(queue):
            continue
        gang = lines[queue.name].pop()
        claimants.pop(gang.key, None)
        with session.turn_of(gang):
            comes_back = turns.take(session, gang, pending_of[gang.key])
        if comes_back:
            lines[queue.name].push(gang)
        if queue.is_strict:
            _hold_up(session, lines[queue.name], behind=gang)
        queues.push(queue)
    # Room that was made for a gang counts against its queue already: it gets its turn even where that is used up by it.
    for gang in claimants.values():
        with session.turn_of(gang):
            turns.take(session, gang, pending_of[gang.key])
    session.ungated += queue_gate.passing(session)


def _pending(session: Session) -> dict[str, PendingMembers]:
    """Gangs that have members to place, with those."""
    found = {}
    for gang in turns.contenders(session):
        pending = PendingMembers(session, gang, held=gang.key in session.reserved_room.held)
        if pending:
            found[gang.key] = pending
    return found


def _hold_up(session: Session, others: Line[GangState], *, behind: GangState) -> None:
    """In a queue of strict order nobody passes a gang that does not fit; thousands may stand behind it."""
    if not others or session.is_ready(behind):
        return
    if not session.explain:
        others.clear()
        return
    reason = Reason(Code.BEHIND, "queue", Facts(queue=behind.queue, gang=behind.key), cure=Cure.WAITING)
    while others:
        members.refuse(others.pop(), reason)


def _admit_all(session: Session) -> None:
    """Without the action that admits gangs there is nothing for them to wait for."""
    for gang in session.restless:
        if gang.is_waiting_for_admission:
            gang.admit()
