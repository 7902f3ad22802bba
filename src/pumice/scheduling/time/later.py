"""The real placer in the room of a later moment: where would this gang go then?

Inside `at`, the session's columns are those of the later moment and queues count as having given back what ends until then. What frees up
only later is offered as idle, and what is idle today as second choice: so a reservation leaves today's idle room to whoever can use it
today. Filters that look at pods themselves (ports, neighbours, shared cards) see those gone that will be, if the gang's pods are their
business at all.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.placing import topology, turns
from pumice.scheduling.placing.pending import PendingMembers, is_placeable
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.cluster.columns import Column
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement
    from pumice.scheduling.time.profile import ReleaseProfile
    from pumice.scheduling.time.reservations import Reservation

# Pods that filters are told to be gone, of some 20 microseconds each. Beyond it they see them where they are: a gang that is kept from nodes by
# ports or neighbours may get a later time than it could have.
GONE_MAX = 4_000
ROOM_ONLY = frozenset({Code.POD_SLOTS, Code.NODE_RESERVED})  # limits that read nothing but columns


class Seat(Value, eq=False):
    """Equal members in their places at a later moment."""

    shape: Shape
    nodes: Sequence[int]


class Later:
    """Tries gangs out in later rooms; leaves no trace."""

    def __init__(self, session: Session, profile: ReleaseProfile) -> None:
        self.session = session
        self.profile = profile
        self._shapes: dict[str, tuple[int, set[Shape]]] = {}  # of members that wait, as of a version of their gang
        self.is_looking = False  # limits of reservations do not count then: the columns have them already

    def seats(self, gang: GangState, when: Instant, free: Column, active: Sequence[Reservation]) -> list[Seat] | None:
        """Where the gang's minimum would go, given what nodes have free then, beside what is reserved then; None: nowhere."""
        with self._at(gang, when, free, active):
            statement = turns.attempt(self.session, gang, PendingMembers(self.session, gang))
            if statement is None:
                return None
            found = [Seat(each.shape, tuple(each.nodes)) for each in statement.placements]
            # A vote for half a gang (sla's) makes no seats.
            is_whole = self.session.is_ready(gang) or self.session.points.pipelined.is_unopposed(gang)
            statement.rollback()
        return found if found and is_whole else None

    def stands(self, reservation: Reservation, free: Column, active: Sequence[Reservation]) -> bool:
        """Whether every filter, and its queue, would let the gang into its very places at its time."""
        if reservation.lacks(free[:, reservation.nodes]).any():
            return False
        with self._at(reservation.gang, reservation.time, free, active):
            statement = in_places(self.session, reservation.gang, reservation.seats)
            if statement is not None:
                statement.rollback()
        return statement is not None

    @contextlib.contextmanager
    def _at(self, gang: GangState, when: Instant, free: Column, active: Sequence[Reservation]) -> Iterator[None]:
        """The later moment, as far as the gang's places depend on it."""
        told = self.is_looked_at(gang)
        with (
            self._apart(gang),
            self._pods(when, active, told=told),
            self._room(free),
            self._queues(when, active, told=told),
        ):
            yield

    @contextlib.contextmanager
    def _apart(self, gang: GangState) -> Iterator[None]:
        """What the attempt says of the gang, and what it learns of scores, is not about now."""
        session, subs = self.session, gang.subs
        said = dict(gang.fit_errors), dict(gang.last_tries), list(gang.reasons)
        near = gang.hyper_node, [sub.hyper_node for sub in subs]
        gang.fit_errors.clear()
        self.is_looking, was_looking = True, self.is_looking
        try:
            with session.placer.apart():
                yield
        finally:
            self.is_looking = was_looking
            gang.fit_errors, gang.last_tries, gang.reasons = said
            gang.hyper_node = near[0]
            for sub, hyper_node in zip(subs, near[1], strict=True):
                sub.hyper_node = hyper_node

    @contextlib.contextmanager
    def _room(self, free: Column) -> Iterator[None]:
        room = self.session.room
        columns = (room.future, room.idle, room.used, room.viewed)
        before = [column.copy() for column in columns]
        used = room.table.allocatable - free
        np.copyto(room.future, free)
        np.copyto(room.idle, np.maximum(free - np.maximum(before[1], 0), 0))
        np.copyto(room.used, used)
        np.copyto(room.viewed, used)
        self.session.is_ahead = True
        try:
            yield
        finally:
            self.session.is_ahead = False
            for column, former in zip(columns, before, strict=True):
                np.copyto(column, former)

    @contextlib.contextmanager
    def _queues(self, when: Instant, active: Sequence[Reservation], *, told: bool) -> Iterator[None]:
        """`told`: the plugins' own books know who is there then."""
        self.session.points.allocatable.freed = {} if told else freed_beside(self.profile, when, active)
        try:
            yield
        finally:
            self.session.points.allocatable.freed = None

    @contextlib.contextmanager
    def _pods(self, when: Instant, active: Sequence[Reservation], *, told: bool) -> Iterator[None]:
        """Tell filters who will have left by then, and who will have come."""
        statement = self.session.statement()
        if told:
            self._end_work(statement, when)
            for each in active:
                each.place(statement)
        try:
            yield
        finally:
            statement.rollback()

    def is_looked_at(self, gang: GangState) -> bool:
        """Whether anything but room decides where the gang's pods may go."""
        points = self.session.points
        version, shapes = self._shapes.get(gang.key, (-1, set()))
        if version != gang.version:
            shapes = {self.session.shape(task) for task in gang.tasks_in(Status.PENDING)}
            self._shapes[gang.key] = gang.version, shapes
        for shape in shapes:
            if any(hook.call.concerns(shape) for hook in points.live_filter.hooks):
                return True
            limits = (each.call for each in points.limit.hooks if each.call.code not in ROOM_ONLY)
            if any(limit.count(shape) is not None for limit in limits):
                return True
        return False

    def _end_work(self, statement: Statement, when: Instant) -> None:
        session, ended = self.session, self.profile.ended(when)
        tasks = [task for gang in ended for task, _ in session.on_nodes(gang.tasks_in(*OCCUPYING))]
        for task in tasks[:GONE_MAX]:
            statement.evict(task, "")


def in_places(session: Session, gang: GangState, seats: Sequence[Seat]) -> Statement | None:
    """The gang's members in these very places, which have room for them; None where a filter or the queue refuses one, or they lie too far apart."""
    if topology.prepare(session, gang) is not None:
        return None
    statement, queue = session.statement(), session.queue_of(gang)
    waiting = [task for task in gang.tasks_in(Status.PENDING) if is_placeable(task)]
    for seat in seats:
        tasks = [task for task in waiting if session.shape(task) is seat.shape][: len(seat.nodes)]
        waiting = [task for task in waiting if task not in tasks]
        fits = session.placer.prefilter(seat.shape) is None and len(tasks) == len(seat.nodes)
        for task, node in zip(tasks, seat.nodes, strict=False):
            fits = fits and session.placer.passes(seat.shape, node)
            if not fits or session.points.allocatable.of(queue, seat.shape, 1) < 1:
                statement.rollback()
                return None
            statement.place(Placement(gang, seat.shape, [task], [node], Status.ALLOCATED))
    if not topology.is_close_enough(session, gang):  # hyper nodes have changed since
        statement.rollback()
        return None
    return statement


def freed_beside(
    profile: ReleaseProfile, when: Instant, active: Sequence[Reservation]
) -> dict[str, amounts.MutableAmounts]:
    """What queues have given back by then, less what is reserved in them."""
    freed = profile.freed_by_queue(when)
    for each in active:
        amounts.add(freed.setdefault(each.gang.queue, {}), each.wanted(), -1)
    return freed
