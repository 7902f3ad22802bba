"""What nodes have free at each moment that counts, beside the reservations that somebody has to respect.

One row for each moment, made when it is first asked for, and kept up to date by what has changed since: what the cycle places, and the
reservations that are in the asker's way, which are mostly those of the asker before. Between two rows room grows: it becomes less
only where a reservation begins, and there is always a row. So a question about a span of time is one about the rows in it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.cluster.columns import Column, Mask
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.profile import ReleaseProfile
    from pumice.scheduling.time.reservations import Reservation

AMOUNTS_MAX = 8_000_000  # in rows for moments at which a gang may start, of 8 bytes each; beyond it moments are merged
ROWS_LEAST = 16
PIECES_MAX = 32  # changes that are worked in one by one; beyond it counting anew is faster
MANY = np.iinfo(np.int64).max


class _Copies(Mutable, eq=False):
    """How many pods of a shape each node takes at each moment, as of so many rows and changes."""

    allowed: Mask
    table: Column  # (moments, nodes)
    totals: Column  # over allowed nodes
    rows: int = 0
    read: int = 0


class _Limit(Mutable, eq=False):
    """What was last asked for, and the nodes that it depends on; looked at again when something has changed there."""

    about: tuple[object, ...]
    nodes: frozenset[int]
    column: Column
    touched: int  # how much of the journals is accounted for
    log: int


class Timeline:
    """Rows over the nodes of one session."""

    def __init__(self, profile: ReleaseProfile) -> None:
        self.profile = profile
        self.room = profile.session.room
        resources, nodes = self.room.future.shape
        self._row: dict[Instant, int] = {}  # moments in the order in which they were asked for
        self._moments = np.zeros(0, dtype=np.int64)
        self._order: Indexes = np.zeros(0, dtype=np.intp)  # rows by their moments
        self._free = np.zeros((resources, 0, nodes), dtype=np.int64)
        self._begins = np.zeros((0, nodes), dtype=np.int64)  # reservations that begin then and there
        self._starts = np.zeros(0, dtype=np.int64)  # the same of all nodes together
        self._held: dict[int, Reservation] = {}  # that are taken off
        self._future = self.room.future.copy()
        self._touched, self._log = len(self.room.touched), len(profile.log)
        self._changes: list[tuple[Indexes, Indexes]] = []  # rows and nodes
        self._copies: dict[Shape, _Copies] = {}
        self._limit: _Limit | None = None

    @property
    def rows_max(self) -> int:
        """For so many moments there is room."""
        return max(AMOUNTS_MAX // max(self._future.size, 1), 128)

    # ------------------------------------------------------------------------------------------------- keeping up

    def beside(self, others: Sequence[Reservation]) -> None:
        """From now on everything is said of the room beside these."""
        self._follow()
        wanted = {id(each): each for each in others}
        if wanted.keys() == self._held.keys():
            return
        fresh = [each for key, each in wanted.items() if key not in self._held]
        gone = [each for key, each in self._held.items() if key not in wanted]
        self._have(each.time for each in fresh)
        for each in gone:
            self._take_off(each, -1)
        for each in fresh:
            self._take_off(each, 1)
        self._held = wanted

    def _take_off(self, reservation: Reservation, sign: int) -> None:
        known, nodes = self._moments[: len(self._row)], reservation.nodes
        rows = np.flatnonzero((known >= reservation.time) & (known < reservation.end))
        self._free[:, rows[:, None], nodes] -= sign * reservation.taken[:, None, :]
        self._begins[self._row[reservation.time], nodes] += sign
        self._starts[self._row[reservation.time]] += sign * len(nodes)
        self._changes.append((rows, nodes))

    def _follow(self) -> None:
        """What the cycle has placed, evicted and undone since."""
        touched, log, count = self.room.touched, self.profile.log, len(self._row)
        if len(touched) > self._touched:
            nodes = np.array(list(set(touched[self._touched :])), dtype=np.intp)
            more = self.room.future[:, nodes] - self._future[:, nodes]
            if (is_new := more.any(axis=0)).any():
                nodes, more = nodes[is_new], more[:, is_new]
                self._free[:, :count, nodes] += more[:, None, :]
                self._future[:, nodes] += more
                self._changes.append((np.arange(count), nodes))
            self._touched = len(touched)
        if len(log) > self._log:
            moved: Counter[tuple[Instant, Shape, tuple[int, ...]]] = Counter()
            for move in log[self._log :]:
                moved[move.end, move.shape, tuple(move.nodes)] += move.sign
            self._log = len(log)
            for (end, shape, places), sign in moved.items():
                if sign:
                    self._give_back(end, shape, places, sign, np.arange(count))

    def _give_back(self, end: Instant, shape: Shape, places: Sequence[int], sign: int, among: Indexes) -> None:
        rows = among[self._moments[among] >= end]
        if len(rows):
            nodes, counts = np.unique(np.asarray(places, dtype=np.intp), return_counts=True)
            self._free[:, rows[:, None], nodes] += (shape.demand[:, None] * (counts * sign))[:, None, :]
            self._changes.append((rows, nodes))

    def _have(self, moments: Iterable[Instant]) -> None:
        """Rows for these moments."""
        fresh = sorted({each for each in moments if each not in self._row})
        if not fresh:
            return
        begin, end = len(self._row), len(self._row) + len(fresh)
        if end > len(self._moments):
            self._grow(max(2 * end, ROWS_LEAST))  # they come one by one
        self._row.update(zip(fresh, range(begin, end), strict=True))
        self._moments[begin:end] = fresh
        self._free[:, begin:end] = self._future[:, None, :] + self.profile.freed_by(fresh)
        rows = np.arange(begin, end)
        for move in self.profile.moves:
            self._give_back(move.end, move.shape, move.nodes, move.sign, rows)
        for each in self._held.values():
            own = rows[(self._moments[rows] >= each.time) & (self._moments[rows] < each.end)]
            self._free[:, own[:, None], each.nodes] -= each.taken[:, None, :]

    def _grow(self, size: int) -> None:
        more = size - len(self._moments)
        self._moments = np.pad(self._moments, (0, more))
        self._free = np.pad(self._free, ((0, 0), (0, more), (0, 0)))
        self._begins, self._starts = np.pad(self._begins, ((0, more), (0, 0))), np.pad(self._starts, (0, more))

    # ------------------------------------------------------------------------------------------------- questions

    def at(self, moment: Instant, nodes: Indexes) -> Column:
        """What some nodes have free then."""
        self._have([moment])
        free: Column = self._free[:, self._row[moment], nodes]
        return free

    def through(self, begin: Instant, length: Duration, nodes: Indexes | slice = slice(None)) -> Column:
        """What nodes have free from then on for so long."""
        self._have([begin])
        known = self._moments[: len(self._row)]
        rows = np.flatnonzero((known >= begin) & (known < begin + length))
        if isinstance(nodes, slice):
            least: Column = self._free[:, rows].min(axis=1)
        else:
            least = self._free[:, rows[:, None], nodes].min(axis=1)
        return least

    def suffices(
        self,
        shapes: Iterable[tuple[Shape, int]],
        needed: int,
        moments: Sequence[Instant],
        length: Duration,
        without: Reservation | None = None,
    ) -> list[Instant]:
        """The moments from which on so many of these members may fit for so long, if reservations could lie on any nodes: a bound.

        `without`: a reservation that was taken off, and is not to count.
        """
        self._have(moments)
        total = np.zeros(len(self._row), dtype=np.int64)
        for shape, count in shapes:
            fitting = self._counted(shape).totals[: len(total)]
            if without is not None:
                known = self._moments[: len(total)]
                fitting = fitting + without.members[shape] * ((known >= without.time) & (known < without.end))
            total += np.minimum(fitting, count)
        if len(self._order) != len(total):
            self._order = np.argsort(self._moments[: len(total)])
        order, ordered = self._order, self._moments[self._order]
        short = np.concatenate([[0], np.cumsum(total[order] < needed)])
        begins = np.asarray(moments, dtype=np.int64)
        first, last = np.searchsorted(ordered, begins), np.searchsorted(ordered, begins + length)
        found: list[Instant] = begins[short[first] == short[last]].tolist()
        return found

    def lacks(self, resources: Iterable[int]) -> bool:
        """Whether any node has less than nothing of these at any known moment."""
        free = self._free[:, : len(self._row)]
        return any(bool((free[row] < 0).any()) for row in resources)

    def limit(self, shape: Shape, end: Instant, others: Sequence[Reservation]) -> Column:
        """How many such pods that stay until `end` each node takes where one of these begins before that; elsewhere as many as fit."""
        self.beside(others)
        known, count = self._limit, len(self._row)
        rows = np.flatnonzero((self._moments[:count] < end) & (self._starts[:count] > 0))
        about = (
            shape,
            tuple(self._moments[rows].tolist()),
            *others,
        )  # of those who outlive the same ones it is the same
        if known is None or known.about != about or self._has_changed(known):
            begins = self._begins[rows]
            nodes = np.flatnonzero(begins.any(axis=0))
            copies = shape.copies(self._free[:, rows[:, None], nodes])
            column = np.full(len(self._begins[0]), MANY)
            column[nodes] = np.where(begins[:, nodes] > 0, copies, MANY).min(axis=0)
            journals = len(self.room.touched), len(self.profile.log)
            known = self._limit = _Limit(about, frozenset(nodes.tolist()), column, *journals)
        return known.column

    def _has_changed(self, known: _Limit) -> bool:
        """Whether anything has been placed or evicted on the nodes that it is about."""
        touched, log = self.room.touched[known.touched :], self.profile.log[known.log :]
        known.touched, known.log = len(self.room.touched), len(self.profile.log)
        return not known.nodes.isdisjoint(touched) or not all(known.nodes.isdisjoint(move.nodes) for move in log)

    def _counted(self, shape: Shape) -> _Copies:
        own, count = self._copies.get(shape), len(self._row)
        if own is None:
            allowed, empty = self.profile.session.placer.allowed(shape), np.zeros_like(self._begins[:0])
            own = self._copies[shape] = _Copies(allowed, empty, empty[:, 0], read=len(self._changes))
        if len(own.totals) < count:
            more = len(self._moments) - len(own.totals)
            own.table, own.totals = np.pad(own.table, ((0, more), (0, 0))), np.pad(own.totals, (0, more))
        pieces = self._changes[own.read :]
        if len(pieces) > PIECES_MAX:
            own.rows, pieces = 0, []
        for changed, nodes in pieces:
            rows = changed[changed < own.rows]
            before = own.table[rows[:, None], nodes]
            after = shape.copies(self._free[:, rows[:, None], nodes])
            own.table[rows[:, None], nodes] = after
            own.totals[rows] += (after - before)[:, own.allowed[nodes]].sum(axis=1)
        if own.rows < count:
            own.table[own.rows : count] = shape.copies(self._free[:, own.rows : count])
            own.totals[own.rows : count] = own.table[own.rows : count][:, own.allowed].sum(axis=1)
        own.rows, own.read = count, len(self._changes)
        return own
