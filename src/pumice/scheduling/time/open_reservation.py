"""The one reservation of a session that stays open (EASY backfill): kept, found anew and passed as by cycles at the same instants.

Where gangs wait, most instants change nothing that matters: the reservation stands, there is none earlier, and nobody else finds room beside it. Here
numbers say so that are kept up (`OpenProfile.mark`). To find a time, and places at it, is left to the book that cycles use. Why a
reservation became later is not looked for, as nobody is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.scheduling.core.plugin import Books
from pumice.scheduling.placing import feasibility
from pumice.scheduling.time import keeping, reservations
from pumice.scheduling.time.passing import DETOURS_MAX
from pumice.scheduling.time.timeline import MANY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.cluster.columns import Column
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.backlog import Ask
    from pumice.scheduling.time.open_profile import Mark, OpenProfile, Run
    from pumice.scheduling.time.planning import Book
    from pumice.scheduling.time.reservations import Reservation


class OpenReservation(Books):
    """`book` has an open profile, and room for one."""

    def __init__(self, session: Session, book: Book, profile: OpenProfile) -> None:
        self._session = session
        self._room = session.room
        self._book = book
        self._profile = profile
        self._own: Reservation | None = None
        self._holder: Ask  # of it
        self._then: Mark  # what is free at its time
        self._before: Mark  # ... and at the last moment before
        self._is_limiting = False  # in the turn of a gang that has to leave it alone
        self._detours = 0  # at this instant that came to nothing
        self._version = 0  # rises with every change
        self._as_of: tuple[object, ...] = ()
        self._limits: dict[Shape, Column] = {}  # as of that
        self._places: dict[Shape, tuple[int, int]] = {}  # the same: now, and at its time

    # ------------------------------------------------------------------------------------------------- from instant to instant

    def begin(self, now: Instant) -> None:
        """What has ended by now is known."""
        self._book.now = self._book.estimates.now = self._session.now = now
        self._profile.advance(now)
        self._detours = 0
        own = self._own
        if own is None:
            return
        if own.time < now:
            own.time = now
            self._look(own)
        if own.lacks(self._left(own)).any():
            self._find_anew(own)

    def started(self, gang: str, run: Run) -> None:
        self._profile.start(gang, run)
        if self._own is not None and self._holder.gang == gang:
            self._drop(self._own)

    def gone(self, gang: str) -> None:
        self._profile.end(gang)

    def next_change(self) -> Instant | None:
        """When the reserved time comes, or work that it waits for is expected to end."""
        if self._own is None:
            return None
        times = (self._own.time, self._profile.next_end())
        return min((each for each in times if each is not None and each > self._book.now), default=None)

    def learned(self, now: Instant) -> reservations.Reservations:
        del now
        return reservations.remembered(self._session, [] if self._own is None else [self._own], {})

    def _enter(self, found: Reservation) -> None:
        self._book.enter(found)
        self._own = found
        self._look(found)

    def _drop(self, own: Reservation) -> None:
        self._book.drop(own.gang.key)
        self._own = None
        self._profile.mark()

    def _look(self, own: Reservation) -> None:
        self._version += 1
        self._then, self._before = self._profile.mark(own.time, own.time - 1)

    def _left(self, own: Reservation) -> Column:
        """What its nodes have at its time."""
        left: Column = self._room.future[:, own.nodes] + self._then.freed[:, own.nodes]
        return left

    def _find_anew(self, own: Reservation) -> None:
        self._drop(own)
        found = self._book.find(own.gang)
        if found is not None:
            keeping.inherit(found, own)
            self._enter(found)

    # ------------------------------------------------------------------------------------------------- turns

    def binds(self, ask: Ask, end: Instant) -> bool:
        """Whether a gang that would end then has to leave it alone: not its own, nor those whose turn is before in the same queue."""
        return self._own is not None and self._own.time < end and not self._comes_first(ask)

    def _comes_first(self, ask: Ask) -> bool:
        return ask.queue == self._holder.queue and ask.place <= self._holder.place

    def places_beside(self, shape: Shape) -> tuple[int, int]:
        """For how many such pods of a gang that has to respect it there is room: where it lies, and wherever it could lie."""
        self._keep_up()
        known = self._places.get(shape)
        if known is None:
            own = self._own
            assert own is not None
            then = self._room.future + self._then.freed
            then[:, own.nodes] -= own.taken
            could = int(shape.copies(then)[self._session.placer.allowed(shape)].sum())
            self._is_limiting = True
            now, _ = self._session.placer.limited_places(shape)
            self._is_limiting = False
            known = self._places[shape] = now, could
        return known

    def limit(self, shape: Shape) -> Column | None:
        """How many such pods each node takes beside it; None: as many as fit."""
        own = self._own
        if not self._is_limiting or own is None:
            return None
        self._keep_up()
        column = self._limits.get(shape)
        if column is None:
            column = self._limits[shape] = np.full(len(self._room.table), MANY)
            column[own.nodes] = shape.copies(self._left(own) - own.taken)
        return column

    def beside(self, place: Callable[[], list[int] | None]) -> list[int] | None:
        """Places for a gang that has to respect it, for which there are some."""
        self._is_limiting = True
        nodes = place()
        self._is_limiting = False
        return nodes

    def detour(self, shape: Shape, place: Callable[[], list[int] | None]) -> list[int] | None:
        """Places wherever there are any, if the reservation finds others at its time."""
        if self._detours >= DETOURS_MAX:
            return None
        nodes = place()
        if nodes is not None and self._makes_way():
            return nodes
        if nodes is not None:
            self._room.allocate(shape.demand, nodes, -1)
        self._detours += 1
        return None

    def _makes_way(self) -> bool:
        own, book = self._own, self._book
        assert own is not None
        if own.lacks(self._left(own)).any():
            free = self._room.future + self._then.freed
            seats = book.seats(own.gang, own.time, free, ()) if book.is_enough(own.gang, free) else None
            if seats is None:
                return False
            self._own = own.elsewhere(seats)
            book.replace([self._own])
            self._version += 1
        return True

    def refused(self, ask: Ask, shape: Shape, state: Callable[[], GangState]) -> None:
        """A gang that finds no room: it may get the reservation, or have it earlier."""
        own, book = self._own, self._book
        if own is not None and self._holder.gang == ask.gang:
            if own.time <= book.now:
                self._find_anew(own)
            elif book.is_enough(own.gang, self._room.future + self._before.freed):
                found = book.find(own.gang, before=own.time)
                if found is not None:
                    keeping.inherit(found, own)
                    self._enter(found)
        elif own is None or self._comes_first(ask):
            if feasibility.capacity_when_empty(self._session, shape) < ask.pods:
                return  # never
            found = book.find(state())
            if found is not None:
                self._holder = ask
                self._enter(found)

    def _keep_up(self) -> None:
        as_of = self._version, self._session.placer, len(self._room.touched)
        if as_of != self._as_of:
            self._as_of, self._limits, self._places = as_of, {}, {}
