"""An instant of a session that stays open while gangs wait: who is admitted, who starts, for whom room is reserved, as a cycle at that instant would decide.

All gangs are equals that start whole, so that most of what actions do comes to nothing, and need not be done: nobody is evicted, half a gang holds no
place, and a turn of a gang for which there are too few free places only says so to the reservation. What is left is asked of columns.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from pumice.scheduling.actions import lend
from pumice.scheduling.evicting import deadlocks
from pumice.scheduling.placing.open_placer import OpenPlacer
from pumice.scheduling.time import crowd as crowds
from pumice.scheduling.time import reservations
from pumice.scheduling.time.crowd import CREATED, IS_ADMITTED, LINE, NOBODY, PODS, SORT
from pumice.scheduling.time.open_profile import run_on
from pumice.scheduling.time.open_share import Share
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from pumice.cluster.columns import Column, Mask
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.memory import Memory, Slot
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.crowd import Crowd, Waiting
    from pumice.scheduling.time.open_admission import Admission
    from pumice.scheduling.time.open_keepers import Keepers
    from pumice.scheduling.time.open_precedence import Precedence

TOUCHED_MAX = 1_000_000  # nodes in the journal of a session; then its placer begins anew


class Rules(Value):
    """What of a policy has a say."""

    shares: bool  # queues may hold what they deserve, which is all there is for the one that is in use
    preempts: bool  # whoever could start after all is promised places, which a cycle has to say
    lends: bool  # who lacks a share has a second turn


class Turns:
    """The turns of one instant after another, over a crowd."""

    def __init__(
        self, crowd: Crowd, rules: Rules, admission: Admission, precedence: Precedence | None, keepers: Keepers | None
    ) -> None:
        self.crowd = crowd
        self.reservation = None if precedence is None else precedence.reservation
        self.keepers = keepers
        self._admission = admission
        self._precedence = precedence
        self._session = session = crowd.session
        self._rules = rules
        self._share = Share(session)
        self._states: dict[str, GangState] = {}  # of those that have had the reservation
        self._now: Instant = session.now
        self._started: dict[int, list[int]] = {}  # nodes, by row
        self._passed: Mask  # rows that are not to have a turn any more
        self._lacks_share: Mask

    # ------------------------------------------------------------------------------------------------- opening and closing

    def take_in(self, waiting: Waiting, *, is_admitted: bool) -> None:
        """One that waits as the session opens."""
        self.crowd.add(waiting)
        self.crowd[IS_ADMITTED][self.crowd.row_of(waiting.turn)] = is_admitted
        if self.keepers is not None and not is_admitted:
            self.keepers.comes(waiting)

    def recall(self, memory: Memory) -> None:
        """What cycles have left behind about those that were taken in."""
        if self.keepers is not None:
            self.keepers.recall(memory)
        kept = memory.of(reservations.SLOT).kept
        if self.reservation is not None and kept:
            holder = next((each for each in self.crowd.gangs if each.ask.gang == kept[0].gang), None)
            if holder is not None and self.crowd[IS_ADMITTED][self.crowd.row_of(holder.turn)]:
                self.reservation.recall(kept[0], holder, self._state(holder))

    def waiting(self) -> list[tuple[Waiting, bool]]:
        """All that do, and whether they are admitted."""
        return list(zip(self.crowd.gangs, (self.crowd[IS_ADMITTED] > 0).tolist(), strict=True))

    def learned(self) -> list[tuple[Slot[Any], msgspec.Struct]]:
        """What is no plugin's."""
        return [] if self.keepers is None else [(deadlocks.SLOT, self.keepers.learned())]

    # ------------------------------------------------------------------------------------------------- an instant

    def take(self, coming: Sequence[Waiting], now: Instant) -> list[tuple[Waiting, list[int]]] | None:
        """Those that start, with their nodes, in the order of their turns; None where a cycle has to say, and nothing of this has been."""
        crowd, reservation = self.crowd, self.reservation
        self._now = now
        for waiting in coming:
            crowd.add(waiting)
            if self.keepers is not None:
                self.keepers.comes(waiting)
        crowd.lines.begin(now)
        spared = NOBODY if self._precedence is None else self._precedence.holder
        if reservation is not None:
            reservation.begin(now)
        was_admitted = crowd[IS_ADMITTED].copy()
        fresh = self._admit(now, spared)
        self._allocate()
        if self._rules.preempts and self._is_promised():
            self._give_up(coming, was_admitted)
            return None
        if self._rules.lends and reservation is not None:
            self._lend()
        if self.keepers is not None:
            self.keepers.look(self._in_vain(fresh), now)
        return self._leave()

    def _admit(self, now: Instant, spared: int) -> Sequence[int]:
        rows = self._admission.let_in(now, spared=spared)
        if self.keepers is not None:
            for row in rows:
                self.keepers.is_admitted(self.crowd.gangs[row])
        return rows

    def next_change(self) -> Instant | None:
        """When the clock alone may change something."""
        times = [] if self.keepers is None else self.keepers.next_changes()
        if self.reservation is not None and len(self.crowd):
            patient = self.crowd[CREATED] + self.reservation.patience
            later = patient[patient > self._now]
            times = [*times, *(() if not len(later) else (int(later.min()),))]
            if (change := self.reservation.next_change()) is not None:
                times.append(change)
        return min(times, default=None)

    def gone(self, gang: str) -> None:
        """One that ran has ended."""
        if self.reservation is not None:
            self.reservation.gone(gang)

    def started(self, waiting: Waiting, nodes: Sequence[int], now: Instant) -> None:
        """One has, also where it had not to wait for its turn."""
        if self.reservation is not None:
            run = run_on(now, now + waiting.ask.estimate, waiting.kind.shape, nodes)
            self.reservation.started(waiting, run)

    def _leave(self) -> list[tuple[Waiting, list[int]]]:
        found = [(self.crowd.gangs[row], nodes) for row, nodes in self._started.items()]
        for row in sorted(self._started, reverse=True):
            self._states.pop(self.crowd.gangs[row].ask.gang, None)
            self.crowd.remove(row)
        return found

    def _give_up(self, coming: Sequence[Waiting], was_admitted: Column) -> None:
        crowd = self.crowd
        crowd[IS_ADMITTED][:] = was_admitted
        for waiting in coming:
            crowd.remove(crowd.row_of(waiting.turn))
        if self.reservation is not None:
            self.reservation.give_up()

    # ------------------------------------------------------------------------------------------------- turns

    def _allocate(self) -> None:
        crowd = self.crowd
        self._started = {}
        self._passed = crowd[IS_ADMITTED] == 0
        self._lacks_share = np.zeros(len(crowd), dtype=bool)
        while (row := self._next()) != NOBODY:
            if self._rules.shares and self._share.is_used_up(crowd.gangs[row]):
                return
            self._passed |= crowd.before(row)
            self._passed[row] = True
            nodes = self._places(row)
            if nodes is not None:
                self._start(row, nodes)
            else:
                self._refuse(row)

    def _next(self) -> int:
        """Whose turn is next, of those for whom anything may come of it."""
        crowd, precedence = self.crowd, self._precedence
        waiting = ~self._passed
        if not self._rules.shares and waiting.any():
            fitting = waiting & (crowd[PODS] <= self._free()[crowd[SORT]])
            if precedence is not None:
                fitting = precedence.let_pass(fitting, self._now) | (waiting & precedence.may_reserve(self._now))
                if (holder := precedence.holder) != NOBODY:
                    fitting[holder] = waiting[holder]
            waiting = fitting
        return crowd.first(waiting)

    def _free(self) -> Column:
        """For how many pods of each sort there is room."""
        placer = self._session.placer
        found = [placer.free_places(kind.shape) if kind.is_known else 0 for kind in self.crowd.sorts]
        return np.array(found, dtype=np.int64)

    def _places(self, row: int) -> list[int] | None:
        waiting, reservation = self.crowd.gangs[row], self.reservation
        shape, pods = waiting.kind.shape, waiting.ask.pods
        if not waiting.kind.is_known or pods > self._session.placer.free_places(shape):
            return None
        place = functools.partial(places, self._session, shape, pods)
        if reservation is None or not self._binds(row):
            return place()
        there, anywhere = reservation.places_beside(shape)
        if pods > there:
            return reservation.detour(shape, place) if pods <= anywhere else None
        nodes = reservation.beside(place)
        if nodes is not None and self._rules.shares and reservation.lacks_share(waiting.holder.amounts):
            self._session.room.allocate(shape.demand, nodes, -1)
            reservation.detour_fails()
            return None
        return nodes

    def _start(self, row: int, nodes: list[int]) -> None:
        crowd = self.crowd
        self._started[row] = nodes
        crowd.lines.started(int(crowd[LINE][row]), crowd.gangs[row].holder.amounts)
        self.started(crowd.gangs[row], nodes, self._now)

    def _refuse(self, row: int) -> None:
        if self._rules.shares:
            self._lacks_share[row] = self._is_beyond_share(row)
        self._ask_for_reservation(row)

    # ------------------------------------------------------------------------------------------------- shares

    def _is_beyond_share(self, row: int) -> bool:
        """Whether the share is what refuses the gang: for fewer of its pods than it has, and nodes have places for as many as that."""
        waiting = self.crowd.gangs[row]
        allowed = self._share.allows(waiting)
        return allowed < waiting.ask.pods and (allowed <= 0 or self._limited_places(row) >= allowed)

    def _limited_places(self, row: int) -> int:
        """For how many of its pods there are places as plugins limit them for the gang."""
        shape = self.crowd.gangs[row].kind.shape
        if self.reservation is not None and self._binds(row):
            return self.reservation.places_beside(shape)[0]
        return self._session.placer.limited_places(shape)[0]

    def _lend(self) -> None:
        """Those that lack a share, where the queue lacks something of its own, have a second turn. They start no more than in the first, but may be reserved a time."""
        crowd, standing = self.crowd, self.crowd.standing
        lacking: list[int] = np.flatnonzero(self._lacks_share).tolist()
        rows = [row for row in lacking if self._share.lacks_something(crowd.gangs[row])]
        for row in sorted(rows, key=lambda row: (standing[row], row))[: lend.TRIED_MAX]:
            self._ask_for_reservation(row)

    # ------------------------------------------------------------------------------------------------- afterwards

    def _waiting_on(self) -> Mask:
        """Those that are admitted and have not started."""
        found: Mask = self.crowd[IS_ADMITTED] > 0
        found[list(self._started)] = False
        return found

    def _is_promised(self) -> bool:
        """Whether a gang finds room that it did not find in its turn: the reservation has moved meanwhile, or its holder's place in the line has."""
        crowd, reservation = self.crowd, self.reservation
        if reservation is None:
            return False  # room only becomes less
        fitting = self._waiting_on() & (crowd[PODS] <= self._free()[crowd[SORT]])
        return any(self._is_let_pass(row) for row in np.flatnonzero(fitting).tolist())

    def _is_let_pass(self, row: int) -> bool:
        waiting, reservation = self.crowd.gangs[row], self.reservation
        if waiting.ask.pods > self._limited_places(row):
            return False
        if reservation is None or not self._rules.shares or not self._binds(row):
            return True
        return not reservation.lacks_share(waiting.holder.amounts, is_placed=False)

    def _in_vain(self, fresh: Sequence[int]) -> list[int]:
        """Those that were admitted before, or lack a share, have got nothing, and are promised nothing."""
        rows = self._waiting_on()
        is_fresh = np.zeros(len(rows), dtype=bool)
        is_fresh[list(fresh)] = True
        rows &= ~is_fresh | self._lacks_share
        if self._precedence is not None and (holder := self._precedence.holder) != NOBODY:
            rows[holder] = False
        found: list[int] = np.flatnonzero(rows).tolist()
        return found

    # ------------------------------------------------------------------------------------------------- the reservation

    def _binds(self, row: int) -> bool:
        return self._precedence is not None and self._precedence.binds(row, self._now)

    def _ask_for_reservation(self, row: int) -> None:
        """For a gang that has found no room: it may get the reservation, or have it earlier."""
        reservation, waiting = self.reservation, self.crowd.gangs[row]
        if reservation is None or self._precedence is None:
            return
        if waiting is reservation.holder:
            reservation.improve()
        elif self._precedence.may_reserve(self._now)[row]:
            reservation.reserve(waiting, self._state(waiting))

    def _state(self, waiting: Waiting) -> GangState:
        state = self._states.get(waiting.ask.gang)
        if state is None:
            state = self._states[waiting.ask.gang] = crowds.state_of(waiting)
        return state


def places(session: Session, shape: Shape, pods: int) -> list[int] | None:
    """Nodes for all of them, whose room is taken; None where one finds none."""
    room = session.room
    if len(room.touched) > TOUCHED_MAX:
        room.touched.clear()
        session.placer = OpenPlacer(session)
    if session.placer.free_places(shape) < pods:
        return None
    nodes: list[int] = []
    while len(nodes) < pods:
        found = session.placer.fill(shape, pods - len(nodes), task=shape.example)
        if not found.nodes or found.pipelined:
            room.allocate(shape.demand, nodes, -1)
            return None
        room.allocate(shape.demand, list(found.nodes))
        nodes += found.nodes
    return nodes
