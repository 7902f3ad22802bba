"""What becomes free, and when: running work sorted by its expected end.

As nothing new starts, room only grows along the profile. What this cycle itself places and evicts is added on top (`Moves`): what it starts
ends too, and what it evicts is free now and not once more at its end. Built once a cycle, by the first who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts
from pumice.scheduling.time.steady_runs import SteadyRuns
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Expected
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.estimates import Estimates

STEPS_MAX = 128  # moments that are looked at first; between two of them every end is
COLUMNS_MAX = 128  # that are kept; one is 300 KB for 5,000 nodes


class Move(Value, eq=False):
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
        self.expected: Mapping[str, Expected] = {}  # of steady gangs, once it is built
        self._built = False
        self._columns: dict[Instant, Column] = {}

    # ------------------------------------------------------------------------------------------------- building

    def _build(self) -> None:
        session, index, axis = self.session, self.session.room.table.index, self.session.room.table.axis
        steady = session.steady.sum(SteadyRuns)
        if steady.is_worn:
            session.steady.forget(SteadyRuns)
            steady = session.steady.sum(SteadyRuns)
        self._steady, rows, of_gang = steady, steady.members(without=session.stranded), steady.ends(self.estimates)
        self.expected = steady.expected
        self._requests = dict(steady.requests)
        ends: list[Instant] = []
        nodes: list[int] = []
        kinds: list[int] = []
        self._holders: list[tuple[Instant, GangState]] = []
        for gang in session.restless:
            if gang.gang.held:
                end = self.estimates.end(gang)
                self._holders.append((end, gang))
            for request, names in gang.gang.held:
                kind = self._requests.setdefault(request, len(self._requests))
                there = [index[name] for name in names if name in index]
                ends += [end] * len(there)
                nodes += there
                kinds += [kind] * len(there)
        where = steady.positions(index)[rows.node]
        present = where >= 0
        all_ends = np.concatenate((of_gang[rows.gang[present]], np.asarray(ends, dtype=np.int64)))
        order = np.argsort(all_ends, kind="stable")
        self._ends = all_ends[order]
        self._nodes = np.concatenate((where[present], np.asarray(nodes, dtype=np.intp)))[order]
        demands = [axis.demand(request) for request in self._requests]
        per_kind = np.stack(demands, axis=1) if demands else np.zeros((len(axis), 0), dtype=np.int64)
        self._amounts = per_kind[:, np.concatenate((rows.kind[present], np.asarray(kinds, dtype=np.intp)))[order]]
        self._rows = np.flatnonzero(per_kind.any(axis=1)) if demands else np.zeros(0, dtype=np.intp)
        self._moments: list[Instant] = [each for each in np.unique(self._ends).tolist() if each > self.now]
        self._holders.sort(key=lambda each: each[0])
        self._steady_ends, self._steady_rows = of_gang, rows
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
        found = self._freed_by_steady(at)
        for end, gang in self._holders:
            if end > at:
                break
            amounts.add(found.setdefault(gang.queue, {}), gang.gang.occupied)
        for move in self.moves:
            if move.end <= at:
                own = found.setdefault(move.gang.queue, {})
                amounts.add(own, move.shape.request.amounts, len(move.nodes) * move.sign)
        return found

    def _freed_by_steady(self, at: Instant) -> dict[str, amounts.MutableAmounts]:
        """Members are counted by queue and request: those are few."""
        rows, steady, count = self._steady_rows, self._steady, max(len(self._requests), 1)
        gone = self._steady_ends[rows.gang] <= at
        cells = np.bincount(steady.queue_of(rows.gang[gone]) * count + rows.kind[gone])
        queues, requests = list(steady.queues), list(self._requests)
        found: dict[str, amounts.MutableAmounts] = {}
        for cell in np.flatnonzero(cells).tolist():
            own = found.setdefault(queues[cell // count], {})
            amounts.add(own, requests[cell % count].amounts, int(cells[cell]))
        return found

    def ended(self, at: Instant) -> list[GangState]:
        """Gangs that hold something, or have got it in this cycle, and are expected to have ended by then; in the order of their keys."""
        self.build()
        rows, gangs = self._steady_rows, self.session.gangs
        gone = np.unique(rows.gang[self._steady_ends[rows.gang] <= at])
        others = (gang for gang in self.session.restless if gang.gang.held or gang.places)
        restless = [gang.key for gang in others if self.estimates.end(gang) <= at]
        return [gangs[key] for key in sorted([*self._steady.names_of(gone), *restless])]

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


def merged(moments: Sequence[Instant], most: int = STEPS_MAX) -> list[int]:
    """Positions of at most so many moments, spread evenly over all of them; the last one always."""
    count = len(moments)
    if count <= most:
        return list(range(count))
    return sorted({(step + 1) * count // most - 1 for step in range(most)})
