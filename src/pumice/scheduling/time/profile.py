"""What becomes free, and when: running work sorted by its expected end.

As nothing new starts, room only grows along the profile. What this cycle itself places and evicts is added on top (`Moves`): what it starts
ends too, and what it evicts is free now and not once more at its end. Built once a cycle, by the first who asks.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.cluster.columns import Column, NodeTable
    from pumice.cluster.gangs import Gang
    from pumice.cluster.requests import Request
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.estimates import Estimates

STEPS_MAX = 128  # moments that are looked at first; between two of them every end is
COLUMNS_MAX = 128  # that are kept; one is 300 KB for 5,000 nodes


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Members that this cycle placed (sign 1) or evicted (-1), as of the moment at which they would be gone anyway; or several such."""

    end: Instant
    gang: GangState
    shape: Shape
    nodes: Sequence[int]
    sign: int


class ReleaseProfile:
    """Amounts that nodes, and queues, get back by a moment; shape (resources, nodes)."""

    def __init__(self, session: Session, estimates: Estimates) -> None:
        self.session = session
        self.estimates = estimates
        self.now = session.now
        self._net: dict[
            tuple[Instant, GangState, Shape, tuple[int, ...]], int
        ] = {}  # what this cycle moved; undone is gone
        self.log: list[Move] = []  # each move and each undoing, for those who remember how far they have read
        self._built = False
        self._columns: dict[Instant, Column] = {}

    # ------------------------------------------------------------------------------------------------- building

    def _build(self) -> None:
        session, table = self.session, self.session.room.table
        ends: list[Instant] = []  # one for each gang and request
        kinds: list[int] = []
        places: list[Indexes] = []
        kind_of: dict[Request, int] = {}
        holders: list[tuple[Instant, GangState]] = []
        for gang in session.gangs.values():
            if not gang.gang.held:
                continue
            end = self.estimates.end(gang)
            holders.append((end, gang))
            for request, there in _places(gang.gang, table):
                ends.append(end)
                kinds.append(kind_of.setdefault(request, len(kind_of)))
                places.append(there)
        sizes = [len(there) for there in places]
        demands = [table.axis.demand(request) for request in kind_of]
        all_ends = np.repeat(np.asarray(ends, dtype=np.int64), sizes)
        order = np.argsort(all_ends, kind="stable")
        self._ends = all_ends[order]
        self._nodes = np.concatenate(places)[order] if places else np.zeros(0, dtype=np.intp)
        per_kind = np.stack(demands, axis=1) if demands else np.zeros((len(table.axis), 0), dtype=np.int64)
        self._amounts = per_kind[:, np.repeat(np.asarray(kinds, dtype=np.intp), sizes)[order]]
        self._rows = np.flatnonzero(per_kind.any(axis=1)) if demands else np.zeros(0, dtype=np.intp)
        self._moments: list[Instant] = [each for each in np.unique(self._ends).tolist() if each > self.now]
        self._holders = sorted(holders, key=lambda each: each[0])
        self._built = True

    def build(self) -> None:
        if not self._built:
            self._build()

    # ------------------------------------------------------------------------------------------------- moments

    def ends(self) -> list[Instant]:
        """Every moment after now at which something ends, in order."""
        self.build()
        own = {move.end for move in self.moves if move.sign > 0 and move.end > self.now}
        return sorted(own.union(self._moments)) if own else list(self._moments)

    # ------------------------------------------------------------------------------------------------- amounts

    def freed(self, at: Instant) -> Column:
        """What nodes get back from work that was running when the cycle began."""
        self.build()
        column = self._columns.get(at)
        if column is None:
            count = int(np.searchsorted(self._ends, at, side="right"))
            size = len(self.session.room.table)
            column = np.zeros((len(self.session.room.table.axis), size), dtype=np.int64)
            for row in self._rows.tolist():
                # Sums of integers below 2**53 are exact in floats, and this is the fastest way to add up by node.
                column[row] = np.bincount(self._nodes[:count], self._amounts[row, :count], size).astype(np.int64)
            if len(self._columns) >= COLUMNS_MAX:
                del self._columns[next(iter(self._columns))]
            self._columns[at] = column
        return column

    def freed_by(self, moments: Sequence[Instant]) -> Column:
        """The same for several moments in order: (resources, moments, nodes)."""
        self.build()
        size, count = len(self.session.room.table), len(moments)
        found = np.zeros((len(self.session.room.table.axis), count, size), dtype=np.int64)
        step = np.searchsorted(np.asarray(moments, dtype=np.int64), self._ends)  # the first that sees the end
        seen = step < count
        cell = step[seen] * size + self._nodes[seen]
        for row in self._rows.tolist():
            more = np.bincount(cell, self._amounts[row, seen], count * size).astype(np.int64)
            np.cumsum(more.reshape(count, size), axis=0, out=found[row])
        return found

    def free(self, at: Instant) -> Column:
        """What nodes will have free then if nothing new starts: a new column that the caller may change."""
        free: Column = self.session.room.future + self.freed(at)
        for move in self.moves:
            if move.end <= at:
                np.add.at(free.T, np.asarray(move.nodes, dtype=np.intp), move.shape.demand * move.sign)
        return free

    def freed_by_queue(self, at: Instant) -> dict[str, amounts.MutableAmounts]:
        """What gangs give back to their queues by then."""
        self.build()
        found: dict[str, amounts.MutableAmounts] = {}
        for end, gang in self._holders:
            if end > at:
                break
            amounts.add(found.setdefault(gang.queue, {}), gang.gang.occupied)
        for move in self.moves:
            if move.end <= at:
                own = found.setdefault(move.gang.queue, {})
                amounts.add(own, move.shape.request.amounts, len(move.nodes) * move.sign)
        return found

    # ------------------------------------------------------------------------------------------------- this cycle's doing

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del tasks
        move = Move(self.estimates.end(gang), gang, shape, nodes, sign)
        self.log.append(move)
        key = (move.end, gang, shape, tuple(nodes))
        net = self._net.pop(key, 0) + sign
        if net:
            self._net[key] = net

    @property
    def moves(self) -> Iterator[Move]:
        """What this cycle has placed and evicted so far, without what was undone."""
        for (end, gang, shape, nodes), net in self._net.items():
            yield Move(end, gang, shape, nodes, net)


def _places(gang: Gang, table: NodeTable) -> list[tuple[Request, Indexes]]:
    """What a gang holds, and on which nodes; found anew only when the gang changes, or nodes come or go."""
    known: tuple[Sequence[str], list[tuple[Request, Indexes]]] | None = gang.known.get(_places)
    if known is None or known[0] is not table.names:
        index = table.index
        found = [
            (request, np.array([index[name] for name in names if name in index], dtype=np.intp))
            for request, names in gang.held
        ]
        known = gang.known[_places] = (table.names, found)
    return known[1]


def merged(moments: Sequence[Instant], most: int = STEPS_MAX) -> list[int]:
    """Positions of at most so many moments, spread evenly over all of them; the last one always."""
    count = len(moments)
    if count <= most:
        return list(range(count))
    return sorted({(step + 1) * count // most - 1 for step in range(most)})
