"""Finding reservations and keeping them: the book of one session.

A reservation is the earliest moment at which the real placer finds places for a gang, given what ends until then and what is kept for others.
Without other reservations room only grows, and the moment is found by halving. With others the moments are tried in order.

Nodes of a reservation may change from cycle to cycle, its time may only become earlier, unless somebody outlived an estimate, a node went,
or somebody of higher rank came; each such move has its reason.
"""

from __future__ import annotations

import bisect
from collections import Counter
from typing import TYPE_CHECKING

from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.decisions import Reserved
from pumice.scheduling.placing import pending
from pumice.scheduling.time import reservations
from pumice.scheduling.time.later import Later, freed_beside
from pumice.scheduling.time.profile import ReleaseProfile, merged
from pumice.scheduling.time.reservations import Ended
from pumice.scheduling.time.timeline import Timeline
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Freed, Indexes
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.estimates import Estimates
    from pumice.scheduling.time.later import Seat
    from pumice.scheduling.time.reservations import Reservation

NOTHING: Freed = {}
TRIES_MAX = 24  # moments of one search that are tried where others have reservations
TRY_UNITS = 50  # of the cycle's budget for each


class Rules(Value):
    """How many gangs get reservations, and how far ahead."""

    depth: int
    queue_depth: int
    horizon: Duration


class Book:
    """The reservations of one session, in the order of rank."""

    def __init__(
        self, session: Session, estimates: Estimates, rules: Rules, profile: ReleaseProfile | None = None
    ) -> None:
        self.session = session
        self.now = session.now
        self.estimates = estimates
        self.rules = rules
        self.profile = profile or ReleaseProfile(session, estimates)
        self.timeline = Timeline(self.profile)
        self.later = Later(session, self.profile)
        self._wanted: dict[str, tuple[list[tuple[Shape, int]], int]] = {}
        self.standing: dict[str, Reservation] = {}
        self.ended: dict[str, Ended] = {}  # by gang: reservations that could not be kept
        self._asked = ""  # the gang of which was last asked what it has to leave alone
        self._outranked: set[str] = set()  # by it
        self.overlaid: dict[str, str] = {}  # gangs in whose reserved room one that outranks them has got its own
        self.version = 0  # rises with every change

    # ------------------------------------------------------------------------------------------------- ranks

    def outranks(self, gang: GangState, other: GangState) -> bool:
        """Within a queue the order of turns decides; between queues their shares do from cycle to cycle, so only their priority does."""
        if gang.queue == other.queue:
            return self.session.gang_before(gang, other)
        return self.session.queue_of(gang).priority > self.session.queue_of(other).priority

    def binding(self, gang: GangState | None) -> list[Reservation]:
        """What the gang has to leave alone: everything but its own, and what it outranks where it has none itself.

        In the middle of its turn it is as it was before: what it is being given must not make others outrank it.
        """
        others = [each for each in self.standing.values() if each.gang is not gang]
        if gang is None or gang.key in self.standing:
            return others
        if not gang.places or self._asked != gang.key:
            self._asked = gang.key
            self._outranked = {each.gang.key for each in others if self.outranks(gang, each.gang)}
        return [each for each in others if each.gang.key not in self._outranked]

    def has_room(self, gang: GangState) -> bool:
        """Whether the gang may have a reservation, if need be instead of one that it outranks."""
        return not self._is_full(gang) or self._weakest(gang) is not None

    def _is_full(self, gang: GangState) -> bool:
        of_queue = sum(each.gang.queue == gang.queue for each in self.standing.values())
        return len(self.standing) >= self.rules.depth or of_queue >= self.rules.queue_depth

    def _weakest(self, gang: GangState) -> Reservation | None:
        """The last one that the gang outranks, and whose place would be its own."""
        of_queue = sum(each.gang.queue == gang.queue for each in self.standing.values())
        own_queue_only = of_queue >= self.rules.queue_depth
        lower = [each for each in self.standing.values() if self.outranks(gang, each.gang)]
        lower = [each for each in lower if not own_queue_only or each.gang.queue == gang.queue]
        return lower[-1] if lower else None

    # ------------------------------------------------------------------------------------------------- changes

    def enter(self, reservation: Reservation) -> None:
        """Into the book, in the order of rank; who is outranked and finds the book full is out of it."""
        gang = reservation.gang
        if gang.key not in self.standing and self._is_full(gang):
            weakest = self._weakest(gang)
            assert weakest is not None, f"the book is full, and {gang.key} outranks nobody in it"
            self.drop(weakest.gang.key, Code.RESERVATION_OUTRANKED, gang.key)
        self.ended.pop(gang.key, None)
        self.version += 1
        # Who is promised a time gives no admission back (evicting/deadlocks.py), which is looked at before the cycle closes.
        told = Reserved(reservation.time, len(reservation.nodes), reservation.since)
        self.session.reservations[gang.key] = told
        if gang.key in self.standing:
            self.standing[gang.key] = reservation
            return
        ranked = list(self.standing.values())
        place = len(ranked)
        while place > 0 and self.outranks(gang, ranked[place - 1].gang):
            place -= 1
        self.standing[gang.key] = reservation
        for each in ranked[place:]:
            self.standing[each.gang.key] = self.standing.pop(each.gang.key)
            if each.meets(reservation) and self.outranks(gang, each.gang):
                self.overlaid[each.gang.key] = gang.key

    def drop(self, key: str, code: Code | None = None, culprit: str = "") -> None:
        gone = self.standing.pop(key, None)
        if gone is not None:
            self.version += 1
            self.session.reservations.pop(key, None)
            if code is not None:
                self.ended[key] = Ended(code, culprit, gone.time)

    # ------------------------------------------------------------------------------------------------- room

    def left(self, at: Instant, nodes: Indexes, others: Sequence[Reservation]) -> Column:
        """What some nodes have free at a moment beside the other reservations."""
        self.timeline.beside(others)
        return self.timeline.at(at, nodes)

    def window(self, when: Instant, length: Duration, others: Sequence[Reservation]) -> Column:
        """What each node has free from then on for so long, beside the other reservations."""
        self.timeline.beside(others)
        return self.timeline.through(when, length)

    def shortage(self, reservation: Reservation, others: Sequence[Reservation]) -> Mask | None:
        """On which of its nodes the reservation has too little room beside the others; None: on none."""
        self.timeline.beside(others)
        short = reservation.lacks(self.timeline.through(reservation.time, reservation.length, reservation.nodes))
        return short if short.any() else None

    def fit_together(self, reservations: Sequence[Reservation]) -> bool:
        """Whether all of them have room beside one another, so that none need be looked at by itself; not known where any node lacks anything."""
        if not reservations:
            return False
        self.timeline.beside(reservations)
        shapes = {shape for each in reservations for shape in each.members}
        return not self.timeline.lacks({row for shape in shapes for row in shape.rows})

    def has_share(self, reservation: Reservation, others: Iterable[Reservation], given: Freed = NOTHING) -> bool:
        """Whether its queue may hold the reservation at its time, beside others; `given`: if queues had so much more."""
        point, queue = self.session.points.allocatable, self.session.queue_of(reservation.gang)
        if not point.hooks:
            return True
        active = [each for each in others if each.is_active(reservation.time)]
        point.freed = freed = freed_beside(self.profile, reservation.time, active)
        for name, own in given.items():
            amounts.add(freed.setdefault(name, {}), own)
        try:
            for shape, count in reservation.members.items():
                if point.of(queue, shape, count) < count:
                    return False
                amounts.add(freed.setdefault(queue.name, {}), shape.request.amounts, -count)
        finally:
            point.freed = None
        return True

    def wanted(self, gang: GangState) -> tuple[list[tuple[Shape, int]], int]:
        """How many members of each shape wait, and how many of them it needs to start."""
        known = self._wanted.get(gang.key)
        if known is None:
            known = self._wanted[gang.key] = (self._waiting(gang), self.session.shortfall(gang))
        return known

    def _waiting(self, gang: GangState) -> list[tuple[Shape, int]]:
        shape = pending.shape_of_all(self.session, gang)
        if shape is not None:
            return [(shape, len(gang.tasks))]
        waiting = (task for task in gang.tasks_in(Status.PENDING) if pending.is_placeable(task))
        return list(Counter(self.session.shape(task) for task in waiting).items())

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        self._wanted.pop(gang.key, None)
        self.profile.moved(gang, shape, tasks, nodes, sign)

    def is_enough(self, gang: GangState, free: Column) -> bool:
        """Whether the gang's minimum may fit, by columns alone: a bound, exact where all members are equal and may go anywhere."""
        shapes, needed = self.wanted(gang)
        found = 0
        for shape, count in shapes:
            allowed = self.session.placer.allowed(shape)
            found += min(int(shape.copies(free)[allowed].sum()), count)
            if found >= needed:
                return True
        return False

    def sufficient(
        self, gang: GangState, moments: Sequence[Instant], length: Duration, others: Sequence[Reservation]
    ) -> list[Instant]:
        """Moments from which on the gang may fit for so long, if reservations could lie on any nodes."""
        self.timeline.beside(others)
        shapes, needed = self.wanted(gang)
        return self.timeline.suffices(shapes, needed, moments, length)

    def resettled(self, fixed: Sequence[Reservation], others: Sequence[Reservation]) -> list[Reservation] | None:
        """The other reservations at their times, on whatever nodes there is room for them beside the fixed ones; None: not all.

        Those that are in nobody's way stay where they are; only where that does not do, all are placed anew.
        """
        return self._settled(fixed, others, anew=False) or self._settled(fixed, others, anew=True)

    def _settled(
        self, fixed: Sequence[Reservation], others: Sequence[Reservation], *, anew: bool
    ) -> list[Reservation] | None:
        """One after the other by their times, so that only what began before is in the way of any of them."""
        placed = list(fixed)
        for each in sorted(others, key=lambda other: other.time):
            if anew or not self._stays(each, placed):
                free = self.window(each.time, each.length, placed)
                seats = self.seats(each.gang, each.time, free, placed) if self.is_enough(each.gang, free) else None
                if seats is None:
                    return None
                placed.append(each.elsewhere(seats))
            else:
                placed.append(each)
        return placed[len(fixed) :]

    def _stays(self, reservation: Reservation, others: Sequence[Reservation]) -> bool:
        """Whether it is as good as before beside the others."""
        if self.later.is_looked_at(reservation.gang):
            return self.stands(reservation, others)
        return self.shortage(reservation, others) is None and self.has_share(reservation, others)

    def stands(self, reservation: Reservation, others: Sequence[Reservation]) -> bool:
        """The same where filters decide as well."""
        free = self.window(reservation.time, reservation.length, others)
        return self.later.stands(reservation, free, [each for each in others if each.is_active(reservation.time)])

    def passes(self, reservation: Reservation, others: Sequence[Reservation]) -> bool:
        """Whether filters let it have its places, and the others theirs that begin before it ends, where they have a say about them at all."""
        if self.later.is_looked_at(reservation.gang) and not self.stands(reservation, others):
            return False
        late = (each for each in others if reservation.time <= each.time < reservation.end)
        return all(self.leaves(each, reservation, others) for each in late if self.later.is_looked_at(each.gang))

    def leaves(self, other: Reservation, found: Reservation, others: Sequence[Reservation]) -> bool:
        """Whether the other one stands beside what was found, in its queue's share and for filters; on its nodes it does."""
        rest = [each for each in others if each is not other]
        if not self.has_share(other, [*rest, found]) and self.has_share(other, rest):
            return False
        return not self.later.is_looked_at(other.gang) or self.stands(other, [*rest, found])

    def replace(self, moved: Sequence[Reservation]) -> None:
        """The same reservations on other nodes."""
        for each in moved:
            self.standing[each.gang.key] = each
        self.version += 1

    # ------------------------------------------------------------------------------------------------- searching

    def find(self, gang: GangState, before: Instant | None = None) -> Reservation | None:
        """The earliest reservation that the gang can have beside those it has to respect; only one before that time, if given."""
        others = self.binding(gang)
        length = self.estimates.of(gang).length
        moments = self._moments(others, before)
        if not moments or (others and self._is_first(gang, moments, length)):
            return None
        search = _Search(self, gang, length, others)
        if others:
            return search.in_order(moments)
        first = self._first_enough(gang, moments)
        return None if first is None else search.by_halves(moments, first)

    def _moments(self, others: Sequence[Reservation], before: Instant | None) -> list[Instant]:
        """When room may become enough: where work ends, and where reservations do."""
        moments = self.profile.ends()
        if others:
            moments = sorted({*moments, *(each.end for each in others if each.end > self.now)})
        last = self.now + self.rules.horizon
        return moments[: bisect.bisect_right(moments, last if before is None else min(last, before - 1))]

    def _is_first(self, gang: GangState, moments: Sequence[Instant], length: Duration) -> bool:
        """Whether the gang has a reservation, and the columns alone say that it can have none at these moments before it.

        That is asked beside all reservations, also its own, which is given back in numbers: most keep their times, and to take each out of
        the timeline and put it back in would cost most of a cycle in which many wait.
        """
        own, (shapes, needed) = self.standing.get(gang.key), self.wanted(gang)
        if own is None or own.members.keys() != {shape for shape, _ in shapes} or len(shapes) > 1:
            return False
        self.timeline.beside(list(self.standing.values()))
        looked_at = [moments[place] for place in merged(moments, self.timeline.rows_max)]
        return not self.timeline.suffices(shapes, needed, looked_at, length, without=own)

    def _first_enough(self, gang: GangState, moments: Sequence[Instant]) -> int | None:
        """The first moment at which the columns alone would do, by halving: nothing earlier need be tried."""
        low, high = 0, len(moments) - 1
        if not self.is_enough(gang, self.profile.free(moments[high])):
            return None
        while low < high:
            middle = (low + high) // 2
            if self.is_enough(gang, self.profile.free(moments[middle])):
                high = middle
            else:
                low = middle + 1
        return low

    def seats(self, gang: GangState, when: Instant, free: Column, others: Sequence[Reservation]) -> list[Seat] | None:
        return self.later.seats(gang, when, free, [each for each in others if each.is_active(when)])


class _Search(Mutable):
    """One gang's search for the earliest moment."""

    book: Book
    gang: GangState
    length: Duration
    others: Sequence[Reservation]

    def by_halves(self, moments: Sequence[Instant], first: int) -> Reservation | None:
        """Nothing but time passes: what works at one moment works at all later ones."""
        found = self._at(moments[first])
        if found is not None:
            return found
        places = [place for place in merged(moments) if place > first]
        low, high = -1, len(places) - 1
        found = self._at(moments[places[high]]) if places else None
        if found is None:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            better = self._at(moments[places[middle]])
            if better is not None:
                found, high = better, middle
            else:
                low = middle
        return self._between(moments, places[low] if low >= 0 else first, places[high], found)

    def _between(self, moments: Sequence[Instant], low: int, high: int, found: Reservation) -> Reservation:
        """Where moments were merged: the very first of them that works."""
        while high - low > 1:
            middle = (low + high) // 2
            better = self._at(moments[middle])
            if better is not None:
                found, high = better, middle
            else:
                low = middle
        return found

    def in_order(self, moments: Sequence[Instant]) -> Reservation | None:
        looked_at = [moments[place] for place in merged(moments, self.book.timeline.rows_max)]
        for when in self.book.sufficient(self.gang, looked_at, self.length, self.others)[:TRIES_MAX]:
            if not self.book.session.spend(TRY_UNITS):
                return None
            found = self._between_others(when) or self._beside_others(when)
            if found is not None:
                return found
        return None

    def _between_others(self, when: Instant) -> Reservation | None:
        """Where other reservations leave room, each on its nodes."""
        book = self.book
        late = [each for each in self.others if when <= each.time < when + self.length]
        free = book.window(when, self.length, self.others)
        found = self._seated(when, free) if book.is_enough(self.gang, free) else None
        if found is None or not all(book.leaves(each, found, self.others) for each in late):
            return None
        return found

    def _beside_others(self, when: Instant) -> Reservation | None:
        """There is room enough, but other reservations lie in the way: those that begin later can make way, at their own times."""
        early = [each for each in self.others if each.time <= when]
        late = [each for each in self.others if each.time > when]
        if not late:
            return None
        found = self._seated(when, self.book.window(when, self.length, early))
        moved = self.book.resettled([*early, found], late) if found is not None else None
        if moved is None:
            return None
        self.book.replace(moved)
        return found

    def _at(self, when: Instant) -> Reservation | None:
        return self._seated(when, self.book.profile.free(when))

    def _seated(self, when: Instant, free: Column) -> Reservation | None:
        seats = self.book.seats(self.gang, when, free, self.others)
        if seats is None:
            return None
        short = self.book.wanted(self.gang)[1]
        return reservations.made(self.gang, when, self.length, seats, self.book.now, short)
