"""Which gangs an action works on, and one gang's turn to be placed: as a whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.cluster.gangs import NO_POLICY
from pumice.cluster.tasks import Status
from pumice.scheduling.core.gangstate import Ranking
from pumice.scheduling.placing import members
from pumice.scheduling.placing.pending import PendingMembers, shape_of_all
from pumice.scheduling.placing.topology import allocate_close
from pumice.scheduling.sharing.asked_to_go import AskedToGo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Statement


def contenders(session: Session) -> Sequence[GangState]:
    """Gangs that take part and that nothing keeps from being placed; of the others it is noted what does. Not looked at again while no gang moves."""
    return session.shared(_Contenders).now()


class _Contenders:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._as_of: object = None
        self._found: Sequence[GangState] = ()

    def now(self) -> Sequence[GangState]:
        session = self._session
        as_of = sum([gang.version for gang in session.restless]), list(session.reserved_room.held)
        if as_of != self._as_of:
            self._found = _look_for_contenders(session)
            self._as_of = as_of
        return self._found


def _look_for_contenders(session: Session) -> list[GangState]:
    found = []
    for gang in session.restless:
        if session.takes_part(gang):
            with session.turn_of(gang):
                obstacle = session.obstacle(gang)
                if obstacle is None:
                    session.gang_key(gang)  # every line needs it: an error in it is this gang's
            if obstacle is None:
                found.append(gang)
            else:
                members.refuse(gang, obstacle)
    return found


def rank(session: Session, gangs: Sequence[GangState]) -> None:
    """Give gangs that are about to stand in a line their places: until something moves, comparing them is comparing numbers."""
    moves = len(session.moved_gangs)
    rankings = {gang.ranking for gang in gangs}
    if len(rankings) == 1 and rankings.pop().moves == moves:
        return  # they were, all together
    ranking = Ranking(moves)
    ordered = sorted(gangs, key=lambda gang: (session.gang_key(gang), gang.spec.created, gang.key))
    for number, gang in enumerate(ordered):
        gang.ranking, gang.rank = ranking, number


def is_held_back(session: Session, gang: GangState) -> bool:
    """Whether a plugin gives the gang no turn after what this cycle has placed; why is noted."""
    reason = session.points.turn.of(gang)
    if reason is not None:
        members.refuse(gang, reason)
    return reason is not None


def take(session: Session, gang: GangState, pending: PendingMembers) -> bool:
    """One turn of one gang; True where it comes back into the line for more."""
    if is_held_back(session, gang):
        return False
    own_room = session.reserved_room.lift(gang)
    statement = _find_places(session, gang, pending)
    if statement is None:
        session.reserved_room.refuse(gang, own_room)
        session.points.unplaced.tell(gang)
        return False
    if session.is_ready(gang):
        statement.commit()
        session.reserved_room.settle(gang, own_room)
        return bool(pending)
    session.kept.append(statement)
    return False


def _find_places(session: Session, gang: GangState, pending: PendingMembers) -> Statement | None:
    """Places that the gang may start in, or wait for, in a statement that no plugin takes back."""
    statement, is_own = attempt(session, gang, pending), True
    if statement is None and not session.points.allocatable.is_exceeding:  # what is lent was made for nobody
        statement, is_own = _attempt_past_claims(session, gang), False
    if statement is not None:
        statement = _put_off(session, gang, statement)
    if statement is not None and (objection := session.points.veto.of(gang, statement)) is not None:
        statement.rollback(remember=True)
        members.refuse(gang, objection)
        statement = None
    if statement is None:
        statement, is_own = session.points.detour.of(gang), False
        if statement is not None:
            statement = _put_off(session, gang, statement)
    if not is_own:
        pending.count_anew()  # it was not asked which members were placed
    return statement


def _put_off(session: Session, gang: GangState, statement: Statement) -> Statement | None:
    """The same places, promised, where the queue's limit has no room for the gang until others, which were asked to go, are known to go."""
    starts = any(each.status is Status.ALLOCATED for each in statement.placements) and session.is_ready(gang)
    if not starts or not session.shared(AskedToGo).keep_out(gang):
        return statement
    places = statement.placements
    statement.rollback()
    if session.points.allocatable.is_exceeding:
        return None  # what is lent is promised to nobody
    for each in places:
        statement.place(msgspec.structs.replace(each, status=Status.PIPELINED))
    return statement


def attempt(session: Session, gang: GangState, pending: PendingMembers) -> Statement | None:
    """The gang in its places, close together where it must be, or None and the reasons with the gang.

    Members that can go anywhere may have taken the nodes of others that cannot: then these have their turn first.
    """
    reasons = list(gang.reasons)
    statement = _attempt(session, gang, pending)
    if statement is not None or shape_of_all(session, gang) is not None:
        return statement
    tied_first = PendingMembers(session, gang)
    if not tied_first.put_tied_first():
        return None
    said = dict(gang.fit_errors), dict(gang.last_tries), gang.reasons
    gang.fit_errors.clear()
    gang.reasons = reasons
    statement = _attempt(session, gang, tied_first)
    if statement is None:
        gang.fit_errors, gang.last_tries, gang.reasons = said
    else:
        pending.count_anew()
    return statement


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
    statement = attempt(session, gang, PendingMembers(session, gang))
    for key, operations in others.items():
        session.reserved_room.put_back(session.gangs[key], operations)
    return statement


def allocate_plain(session: Session, gang: GangState, pending: PendingMembers) -> Statement | None:
    sub = gang.subs[0]
    assert sub.sub.policy == NO_POLICY
    statement = session.statement()
    if members.is_beyond_share(session, gang) or members.is_refused_by_numbers(session, gang):
        pending.waiting = {}
    else:
        members.place_tasks(session, statement, sub, pending.waiting[sub.sub.key])
    if session.is_ready(gang) or session.is_pipelined(gang):
        return statement
    statement.rollback(remember=True)
    return None
