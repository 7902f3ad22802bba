"""allocate: starts gangs where there is room, whole or not at all.

Queues take turns in their order, gangs within a queue in theirs. A gang that is not yet ready gets as many members placed as it
needs to start, in one turn; one that runs already gets one more member and goes back into the line. What does not make the
gang ready is rolled back, unless it only waits for room that is being released: then it keeps its tentative places until the
cycle ends, so that no other gang takes them. In a queue whose `dequeueStrategy` is `fifo`, a gang that does not start holds up
those behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.placing import members, turns
from pumice.scheduling.placing.heap import Heap
from pumice.scheduling.placing.pending import PendingMembers
from pumice.scheduling.sharing import queue_gate

if TYPE_CHECKING:
    from pumice.cluster.queues import QueueInfo
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session


def run(session: Session) -> None:
    if "enqueue" not in session.policy.actions:
        _admit_all(session)
    pending_of: dict[str, PendingMembers] = {}
    heaps: dict[str, Heap[GangState]] = {}
    claimants: dict[str, GangState] = {}
    for gang in turns.contenders(session):
        has_claim = gang.key in session.reserved_room.held
        with session.turn_of(gang):
            pending = PendingMembers(session, gang, held=has_claim)
        if pending:
            pending_of[gang.key] = pending
            heaps.setdefault(gang.queue, Heap(session.gang_before)).push(gang)
            if has_claim:
                claimants[gang.key] = gang
    queues: Heap[QueueInfo] = Heap(session.queue_before, (session.queues[name] for name in heaps))
    while queues and session.spend(1):
        queue = queues.pop()
        if not heaps[queue.name] or session.points.overused.holds(queue):
            continue
        gang = heaps[queue.name].pop()
        claimants.pop(gang.key, None)
        with session.turn_of(gang):
            comes_back = turns.take(session, gang, pending_of[gang.key])
        if comes_back:
            heaps[queue.name].push(gang)
        if queue.fifo and not session.is_ready(gang):
            _hold_up(heaps[queue.name], behind=gang)
        queues.push(queue)
    # Room that was made for a gang counts against its queue already: it gets its turn even where that is used up by it.
    for gang in claimants.values():
        with session.turn_of(gang):
            turns.take(session, gang, pending_of[gang.key])
    session.ungated += queue_gate.passing(session)


def _hold_up(others: Heap[GangState], *, behind: GangState) -> None:
    """In a queue that is first in, first out, nobody passes a gang that does not fit."""
    facts = Facts(queue=behind.queue, gang=behind.key)
    while others:
        members.refuse(others.pop(), Reason(Code.BEHIND, "queue", facts, cure=Cure.WAITING))


def _admit_all(session: Session) -> None:
    """Without the action that admits gangs there is nothing for them to wait for."""
    for gang in session.gangs.values():
        if gang.is_waiting_for_admission:
            gang.admit()
