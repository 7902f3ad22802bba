"""Who may pass a reservation: whoever leaves it standing.

A gang that is expected to end before the reserved time may go anywhere. Any other may have what nodes will have beyond what is reserved, which
is one more limit for each shape. Where that refuses it, the reservations are tried on other nodes at their own times: they are promises of a
time, not of nodes. And a queue's quota that a reservation will need is not given away either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.placing import pending, turns
from pumice.scheduling.placing.pending import PendingMembers
from pumice.scheduling.time.keeping import NAME
from pumice.scheduling.time.later import in_places
from pumice.scheduling.time.timeline import MANY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.columns import Column
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Freed
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement
    from pumice.scheduling.time.planning import Book
    from pumice.scheduling.time.reservations import Reservation

_PLACED = frozenset({Status.ALLOCATED, Status.PIPELINED})
DETOURS_MAX = 64  # in one cycle that come to nothing


class Passing:
    """What is left for gangs beside the reservations of a book."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.session = book.session
        self._detours = 0
        self._too_many: dict[object, int] = {}  # numbers of members for which there was no room

    def outlived(self, gang: GangState | None) -> list[Reservation]:
        """Reservations that begin before the gang ends, and that it has to respect."""
        others = self.book.binding(gang)
        if gang is None:
            return others
        end = self.book.estimates.end(gang)
        return [each for each in others if each.time < end]

    # ------------------------------------------------------------------------------------------------- nodes

    def limit(self, shape: Shape) -> Column | None:
        """How many such pods of the gang whose turn it is each node takes beside the reservations; None: as many as fit."""
        if not self.book.standing or self.book.later.is_looking:
            return None
        gang = self.session.turn
        respected = self.outlived(gang)
        if not respected:
            return None
        end = MANY if gang is None else self.book.estimates.end(gang)
        return self.book.timeline.limit(shape, end, self.book.binding(gang))

    # ------------------------------------------------------------------------------------------------- other nodes for reservations

    def detour(self, gang: GangState) -> Statement | None:
        """The gang in the very places that were reserved for it, or where it found room, if every reservation finds some elsewhere."""
        own = self._in_own_places(gang)
        if own is not None:
            return own
        if self._detours >= DETOURS_MAX or not was_refused(gang):
            return None
        book, session = self.book, self.session
        respected, others = self.outlived(gang), book.binding(gang)
        if not respected or self._lacks_room(gang) or not self._counts_suffice(gang, respected, others):
            return None
        said = dict(gang.fit_errors), dict(gang.last_tries)
        statement = self._attempt(gang)
        if statement is not None and self.objection(gang) is None:
            moved = book.resettled([], others)
            if moved is not None:
                book.replace(moved)
                return statement
        if statement is not None:
            statement.rollback()
        self._detours += 1
        gang.fit_errors, gang.last_tries = said
        session.spend(1)
        return None

    def _lacks_room(self, gang: GangState) -> bool:
        """Whether there is too little room now, wherever reservations lie."""
        shape = pending.shape_of_all(self.session, gang)
        return shape is not None and self.session.placer.free_places(shape) < self.session.shortfall(gang)

    def _counts_suffice(self, gang: GangState, respected: Sequence[Reservation], others: Sequence[Reservation]) -> bool:
        """Whether there is room enough if reservations could lie anywhere; after one no, not asked again for as many such pods or more."""
        book, needed = self.book, self.session.shortfall(gang)
        shapes = {self.session.shape(task) for task in gang.tasks_in(Status.PENDING)}
        about = (book.version, frozenset(map(id, shapes)), tuple(map(id, respected)), len(others))
        if needed >= self._too_many.get(about, needed + 1):
            return False
        suffices = bool(book.sufficient(gang, [book.now], book.estimates.end(gang) - book.now, others))
        if not suffices:
            self._too_many[about] = needed
        return suffices

    def _in_own_places(self, gang: GangState) -> Statement | None:
        """What was reserved is free: the placer's own order of nodes may have led it elsewhere, and into a corner."""
        own = self.book.standing.get(gang.key)
        if own is None or own.lacks(self.session.room.idle[:, own.nodes]).any():
            return None
        statement = in_places(self.session, gang, own.seats)
        if statement is None:
            return None
        if self.session.is_ready(gang) and self.objection(gang) is None:
            gang.fit_errors.clear()
            return statement
        statement.rollback()
        return None

    def _attempt(self, gang: GangState) -> Statement | None:
        session, later = self.session, self.book.later
        gang.fit_errors.clear()
        later.is_looking = True
        try:
            statement = turns.attempt(session, gang, PendingMembers(session, gang))
        finally:
            later.is_looking = False
        if statement is not None and not is_whole(self.book, gang):
            statement.rollback()
            return None
        return statement

    # ------------------------------------------------------------------------------------------------- queues

    def objection(self, gang: GangState) -> Reason | None:
        """With the gang where it was placed: which reservation would no longer stand, for its queue's share or for what filters say."""
        book = self.book
        for each in self.outlived(gang):
            others = [other for other in book.standing.values() if other is not each and other.gang is not gang]
            if not book.has_share(each, others) and book.has_share(each, others, self._taken_by(gang)):
                return would_delay(each)
            if book.later.is_looked_at(each.gang) and not book.stands(each, others):
                seats = book.seats(each.gang, each.time, book.window(each.time, each.length, others), others)
                if seats is None:
                    return would_delay(each)
                book.replace([each.elsewhere(seats)])
        return None

    def _taken_by(self, gang: GangState) -> Freed:
        """What the gang's queue would have more if the gang had not been placed."""
        places = gang.places.items()
        return {gang.queue: amounts.sum_of(task.request.amounts for task, (status, _) in places if status in _PLACED)}


def was_refused(gang: GangState) -> bool:
    """Whether a reservation is among the reasons for which the gang found no place."""
    for reason in gang.reasons:  # asked of every gang that finds no place: a generator takes twice as long
        if reason.code is Code.WOULD_DELAY:
            return True
    errors = gang.fit_errors.values()
    return bool(errors) and any(reason.code is Code.NODE_RESERVED for error in errors for reason in error.reasons)


def is_whole(book: Book, gang: GangState) -> bool:
    """Whether all that must start together has places; a vote for a part of it (sla's) does not count."""
    return book.session.is_ready(gang) or book.session.points.pipelined.is_unopposed(gang)


def would_delay(reservation: Reservation) -> Reason:
    until = instant.format_instant(reservation.time)
    return Reason(Code.WOULD_DELAY, NAME, Facts(gang=reservation.gang.key, until=until), cure=Cure.WAITING)
