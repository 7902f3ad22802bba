"""The one reservation of a session that stays open (EASY backfill): kept, found anew and passed as by cycles at the same instants.

Where gangs wait, most instants change nothing that matters: the reservation stands, there is none earlier, and nobody else finds room beside it. Here
numbers say so that are kept up (`OpenProfile.mark`). To find a time, and places at it, is left to the book that cycles use. Why a
reservation became later is not looked for, as nobody is told.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts
from pumice.scheduling.core.plugin import Books
from pumice.scheduling.time import keeping, reservations
from pumice.scheduling.time.later import Seat
from pumice.scheduling.time.passing import DETOURS_MAX
from pumice.scheduling.time.timeline import MANY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Column
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.crowd import Waiting
    from pumice.scheduling.time.open_profile import Mark, OpenProfile, Run
    from pumice.scheduling.time.planning import Book
    from pumice.scheduling.time.reservations import Kept, Reservation


class OpenReservation(Books):
    """`book` has an open profile, and room for one; `patience` is how long a gang waits before it gets one."""

    while_waiting = True

    def __init__(self, session: Session, book: Book, profile: OpenProfile, patience: Duration) -> None:
        self.patience = patience
        self.holder: Waiting | None = None
        self.held_before: Waiting | None = None  # by whom, as the last instant was over
        self._session = session
        self._room = session.room
        self._book = book
        self._profile = profile
        self._own: Reservation | None = None  # as is the holder
        self._former: Reservation | None = None  # as the last instant was over
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
        self.held_before, self._former = self.holder, copy.copy(self._own)
        own = self._own
        if own is None:
            return
        if own.time < now:
            own.time = now
            self._look(own)
        if self._is_broken(own):
            self._find_anew(own)

    def recall(self, kept: Kept, holder: Waiting, gang: GangState) -> None:
        """What cycles have reserved, as the session opens."""
        table, seats = self._room.table, []
        waiting = {task.uid: task for task in gang.tasks}
        for part in kept.parts:
            nodes = [table.index[name] for name, count in part.nodes.items() for _ in range(count)]
            seats.append(Seat(self._session.shape(waiting[part.pod]), nodes))
        own = reservations.made(gang, kept.time, kept.length, seats, kept.since, kept.short)
        own.said, own.moved, own.culprit, own.former = kept.said, kept.moved, kept.culprit, kept.former
        self._enter(own, holder)

    def started(self, waiting: Waiting, run: Run) -> None:
        self._profile.start(waiting.ask.gang, run)
        if waiting is self.holder:
            self._drop()
            self._profile.mark()

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

    def give_up(self) -> None:
        """A cycle is to decide this instant: as it was before."""
        self._own, self.holder = self._former, self.held_before

    def _enter(self, found: Reservation, holder: Waiting) -> None:
        self._book.enter(found)
        self._own, self.holder = found, holder
        self._look(found)

    def _drop(self) -> Reservation:
        own = self._own
        assert own is not None, "nothing is reserved"
        self._book.drop(own.gang.key)
        self._own = self.holder = None
        return own

    def _look(self, own: Reservation) -> None:
        self._version += 1
        self._then, self._before = self._profile.mark(own.time, own.time - 1)

    def _left(self, own: Reservation) -> Column:
        """What its nodes have at its time."""
        left: Column = self._room.future[:, own.nodes] + self._then.freed[:, own.nodes]
        return left

    def _is_broken(self, own: Reservation) -> bool:
        """Whether it lacks something on a node: somebody has outlived an estimate, or started there whose turn is before."""
        return bool(own.lacks(self._left(own)).any())

    def _find_anew(self, own: Reservation) -> None:
        holder = self.holder
        assert holder is not None
        self._drop()
        found = self._book.find(own.gang)
        if found is None:
            self._profile.mark()
        else:
            keeping.inherit(found, own)
            self._enter(found, holder)

    # ------------------------------------------------------------------------------------------------- who passes

    @property
    def time(self) -> Instant:
        assert self._own is not None, "nothing is reserved"
        return self._own.time

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
        if self._is_broken(own):
            free = self._room.future + self._then.freed
            seats = book.seats(own.gang, own.time, free, ()) if book.is_enough(own.gang, free) else None
            if seats is None:
                return False
            self._own = own.elsewhere(seats)
            book.replace([self._own])
            self._version += 1
        return True

    def detour_fails(self) -> None:
        if self._detours < DETOURS_MAX:
            self._detours += 1

    def lacks_share(self, more: Amounts, *, is_placed: bool = True) -> bool:
        """Whether its queue could not hold it at its time with a gang that asks for so much and stays, and without it could. Where nodes have room for
        both, so has the queue: it is so only where it is broken.
        """
        own, rows = self._own, self._room.table.axis.rows
        assert own is not None
        if not self._is_broken(own):
            return False
        has_lacked = lacks = False
        for name, wanted in own.wanted().items():
            if name != amounts.PODS and wanted > 0:
                left = int(self._room.idle[rows[name]].sum() + self._then.freed[rows[name]].sum())
                without = left + more.get(name, 0) if is_placed else left
                has_lacked |= without < wanted
                lacks |= without - more.get(name, 0) < wanted
        return lacks and not has_lacked

    # ------------------------------------------------------------------------------------------------- who has it

    def improve(self) -> None:
        """Its holder found no room: it may have it earlier, and later where its time has come."""
        own, book, holder = self._own, self._book, self.holder
        assert own is not None
        assert holder is not None
        if own.time <= book.now:
            self._find_anew(own)
        elif book.is_enough(own.gang, self._room.future + self._before.freed):
            found = book.find(own.gang, before=own.time)
            if found is not None:
                keeping.inherit(found, own)
                self._enter(found, holder)

    def reserve(self, holder: Waiting, gang: GangState) -> None:
        """For one that found no room, has been patient, and has its turn before that of any other holder."""
        former, own = self.holder, self._own
        if own is not None:
            self._drop()
        found = self._book.find(gang)
        if found is not None:
            self._enter(found, holder)
        elif own is not None and former is not None:
            self._enter(own, former)

    def _keep_up(self) -> None:
        as_of = self._version, self._session.placer, len(self._room.touched)
        if as_of != self._as_of:
            self._as_of, self._limits, self._places = as_of, {}, {}
