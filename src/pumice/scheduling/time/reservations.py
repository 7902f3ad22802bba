"""What is kept for whom: reservations as they stand in memory, and as columns inside a session.

A reservation is a time, nodes, and what of each is kept from then on for as long as the gang is expected to run. In memory it names nodes and
resources as people do, so that it survives a restart, and nodes that come and go.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.memory import Slot
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.placing import pending
from pumice.scheduling.time.later import Seat
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.columns import Column, Mask
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement

NODES_MAX = (
    8_000  # that memory names, over all reservations, of about 50 bytes each; beyond it they are found anew every cycle
)

ENDED_MAX = 200  # reservations that are no more, and whose gangs wait on


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Equal members: one of them, and on which nodes how many have their place."""

    pod: str  # uid
    nodes: dict[str, int]


class Kept(msgspec.Struct, frozen=True):
    """One reservation as it is remembered."""

    gang: str
    uid: str
    time: int
    length: int
    since: int  # when the gang got its first one
    short: int  # so many members were missing
    parts: tuple[Part, ...]
    said: int = 0  # the time that it was first told
    moved: Code | None = None  # the last reason for which it became later
    culprit: str = ""  # the gang or node of that reason
    former: int = 0  # the time before that


class Ended(msgspec.Struct, frozen=True):
    """A reservation that could not be kept, of a gang that still waits: why, for whom or what, and the time that it was for."""

    code: Code
    culprit: str
    time: int


class Reservations(msgspec.Struct, frozen=True):
    """In the order of rank; `ended` by gang."""

    kept: tuple[Kept, ...] = ()
    ended: dict[str, Ended] = {}


SLOT = Slot("reservations", Reservations, persistent=True)


def mark_gangs(session: Session) -> None:
    """Before plugins open their books: who waits for a reserved time does not keep others from being admitted meanwhile.

    Else one large gang, admitted although the cluster is full, would keep out all that could run beside it until its time.
    """
    for kept in session.memory.of(SLOT).kept:
        gang = session.gangs.get(kept.gang)
        if gang is not None and not gang.gang.is_steady:
            gang.has_reservation = gang.uid == kept.uid


class Reservation(Mutable, eq=False):
    """One reservation inside a session: columns over its own nodes. `short`: so many members of the gang lacked a place when it was made."""

    gang: GangState
    time: Instant
    length: Duration
    seats: Sequence[Seat]
    since: Instant
    nodes: Indexes
    taken: Column  # (resources, own nodes)
    members: Counter[Shape]
    short: int
    moved: Code | None = None
    culprit: str = ""
    former: Instant = 0
    said: Instant = 0
    parts: tuple[Part, ...] = ()  # as it was remembered, if it was

    @property
    def end(self) -> Instant:
        return self.time + self.length

    def is_active(self, at: Instant) -> bool:
        return self.time <= at < self.end

    def meets(self, other: Reservation) -> bool:
        """Whether both want some node at some time."""
        return self.time < other.end and other.time < self.end and bool(np.isin(self.nodes, other.nodes).any())

    def lacks(self, left: Column) -> Mask:
        """Own nodes that have less left than is reserved on them."""
        rows = [row for shape in self.members for row in shape.rows]
        lacking: Mask = np.any(left[rows] < self.taken[rows], axis=0)
        return lacking

    def elsewhere(self, seats: Sequence[Seat]) -> Reservation:
        """The same reservation on other nodes."""
        moved = made(self.gang, self.time, self.length, seats, self.since, self.short)
        return msgspec.structs.replace(
            self, seats=moved.seats, nodes=moved.nodes, taken=moved.taken, members=moved.members, parts=()
        )

    def place(self, statement: Statement) -> None:
        """Put the gang's members where they will be."""
        waiting = self.gang.tasks_in(Status.PENDING)
        for seat in self.seats:
            alike = [task for task in waiting if statement.session.shape(task) is seat.shape][: len(seat.nodes)]
            if alike:
                nodes = list(seat.nodes)[: len(alike)]
                statement.place(Placement(self.gang, seat.shape, alike, nodes, Status.PIPELINED))
                waiting = self.gang.tasks_in(Status.PENDING)

    def wanted(self) -> amounts.MutableAmounts:
        """What it takes of its queue's quota."""
        total: amounts.MutableAmounts = {}
        for shape, count in self.members.items():
            amounts.add(total, shape.request.amounts, count)
        return total

    def kept(self, session: Session) -> Kept:
        """As it is remembered: whoever was promised room in this cycle, after it was made, may not get it, and keeps its time."""
        waits = pending.shape_of_all(session, self.gang) is not None
        is_known = waits and len(self.parts) == 1 and self.parts[0].pod == self.gang.tasks[0].uid
        return Kept(
            gang=self.gang.key,
            uid=self.gang.uid,
            time=self.time,
            length=self.length,
            since=self.since,
            short=self.short,
            parts=self.parts if is_known else self._parts(session),
            said=self.said,
            moved=self.moved,
            culprit=self.culprit,
            former=self.former,
        )

    def _parts(self, session: Session) -> tuple[Part, ...]:
        names = session.room.table.names
        members = [*self.gang.tasks_in(Status.PENDING), *self.gang.tasks_in(Status.PIPELINED)]
        waiting = {session.shape(task): task.uid for task in reversed(members)}
        parts: dict[str, Counter[str]] = {}
        for seat in self.seats:
            if seat.shape in waiting:
                parts.setdefault(waiting[seat.shape], Counter()).update(names[node] for node in seat.nodes)
        return tuple(Part(pod, dict(sorted(nodes.items()))) for pod, nodes in sorted(parts.items()))


def made(
    gang: GangState, time: Instant, length: Duration, seats: Sequence[Seat], since: Instant, short: int
) -> Reservation:
    """A reservation of these seats."""
    members: Counter[Shape] = Counter()
    for seat in seats:
        members[seat.shape] += len(seat.nodes)
    places = np.concatenate([np.asarray(seat.nodes, dtype=np.intp) for seat in seats])
    nodes, where = np.unique(places, return_inverse=True)
    taken = np.zeros((len(seats[0].shape.demand), len(nodes)), dtype=np.int64)
    first = 0
    for seat in seats:
        own = np.bincount(where[first : first + len(seat.nodes)], minlength=len(nodes))
        taken += seat.shape.demand[:, None] * own
        first += len(seat.nodes)
    return Reservation(gang, time, length, tuple(seats), since, nodes, taken, members, short, said=time)


def recalled(session: Session, kept: Kept) -> Reservation | str | None:
    """What was remembered, as columns; None where the gang no longer waits as it did, the name of a node that has gone."""
    gang = session.gangs.get(kept.gang)
    if gang is None or gang.uid != kept.uid or not gang.tally[Status.PENDING] or session.is_ready(gang):
        return None
    waiting = {task.uid: task for task in gang.tasks_in(Status.PENDING)}
    index, seats = session.room.table.index, []
    for part in kept.parts:
        task = waiting.get(part.pod)
        if task is None:
            return None
        gone = next((name for name in part.nodes if name not in index), None)
        if gone is not None:
            return gone
        seats.append(
            Seat(session.shape(task), [index[name] for name, count in part.nodes.items() for _ in range(count)])
        )
    if not seats or kept.short != session.shortfall(gang):
        return None
    found = made(gang, kept.time, kept.length, seats, kept.since, kept.short)
    found.said, found.moved, found.culprit, found.former = kept.said, kept.moved, kept.culprit, kept.former
    found.parts = kept.parts
    return found


def remembered(session: Session, standing: Sequence[Reservation], ended: Mapping[str, Ended]) -> Reservations:
    """What the next cycle takes up, as far as there is room for it."""
    kept, nodes = [], 0
    for each in standing:
        nodes += len(each.nodes)
        if nodes > NODES_MAX:
            break
        found = each.kept(session)
        if found.parts:
            kept.append(found)
    known = {each.gang for each in kept}
    waiting = [key for key in sorted(ended) if key not in known and session.gangs[key].tally[Status.PENDING]]
    return Reservations(tuple(kept), {key: ended[key] for key in waiting[:ENDED_MAX]})
