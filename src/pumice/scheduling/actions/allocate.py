"""allocate: starts gangs where there is room, whole or not at all.

Queues take turns in their order, gangs within a queue in theirs. A gang that is not yet ready gets as many members placed as it
needs to start, in one turn; one that runs already gets one more member and goes back into the line. What does not make the
gang ready is rolled back, unless it only waits for room that is being released: then it keeps its tentative places until the
cycle ends, so that nobody else takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.gangs import NO_POLICY
from pumice.scheduling.core import arguments
from pumice.scheduling.placing import members
from pumice.scheduling.placing.heap import Heap
from pumice.scheduling.placing.pending import PendingMembers
from pumice.scheduling.placing.topology import allocate_close

if TYPE_CHECKING:
    from pumice.cluster.queues import QueueSpec
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Statement


Arguments = arguments.CachingArgs


def run(session: Session) -> None:
    with_enqueue = "enqueue" in session.policy.actions
    pending_of: dict[str, PendingMembers] = {}
    heaps: dict[str, Heap[GangState]] = {}
    claimants: dict[str, GangState] = {}
    for gang in session.schedulable(with_enqueue=with_enqueue):
        has_claim = gang.key in session.reserved_room.held
        pending = PendingMembers(session, gang, held=has_claim)
        if pending:
            pending_of[gang.key] = pending
            heaps.setdefault(gang.queue, Heap(session.gang_before)).push(gang)
            if has_claim:
                claimants[gang.key] = gang
    queues: Heap[QueueSpec] = Heap(session.queue_before, (session.queues[name] for name in heaps))
    while queues and session.spend(1):
        queue = queues.pop()
        if not heaps[queue.name] or session.is_overused(queue):
            continue
        gang = heaps[queue.name].pop()
        claimants.pop(gang.key, None)
        if visit(session, gang, pending_of[gang.key]):
            heaps[queue.name].push(gang)
        queues.push(queue)
    # Room that was made for a gang counts against its queue already: it gets its turn even where that is used up by it.
    for gang in claimants.values():
        visit(session, gang, pending_of[gang.key])


def visit(session: Session, gang: GangState, pending: PendingMembers) -> bool:
    """One turn of one gang; True where it comes back into the line for more."""
    own_room = session.reserved_room.lift(gang)
    statement = _attempt(session, gang, pending) or _attempt_past_claims(session, gang)
    if statement is None:
        session.reserved_room.put_back(gang, own_room)
        return False
    if session.is_ready(gang):
        statement.commit()
        session.reserved_room.settle(gang, own_room)
        return bool(pending)
    session.kept.append(statement)
    return False


def _attempt(session: Session, gang: GangState, pending: PendingMembers) -> Statement | None:
    if gang.wants_closeness or gang.has_policies:
        return allocate_close(session, gang, pending)
    return allocate_plain(session, gang, pending)


def _attempt_past_claims(session: Session, gang: GangState) -> Statement | None:
    """Try again where gangs of lower priority have claims; they keep what is left of their room."""
    others = session.reserved_room.lift_below(gang)
    if not others:
        return None
    gang.fit_errors.clear()  # what did not fit beside the claims may fit now
    statement = _attempt(session, gang, PendingMembers(session, gang))
    for key, operations in others.items():
        session.reserved_room.put_back(session.gangs[key], operations)
    return statement


def allocate_plain(session: Session, gang: GangState, pending: PendingMembers) -> Statement | None:
    sub = gang.subs[0]
    assert sub.sub.policy == NO_POLICY
    statement = session.statement()
    members.place_tasks(session, statement, sub, pending.waiting[sub.sub.key])
    if session.is_ready(gang) or session.is_pipelined(gang):
        return statement
    statement.rollback(remember=True)
    return None
