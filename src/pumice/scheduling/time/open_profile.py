"""What becomes free, and when, in a session that stays open: gangs that start and end are worked in, in place of building it anew.

Most questions are about one moment, that of the reservation: what is free then is kept up (`Mark`). Only to find another moment all ends are looked at.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pumice.scheduling.core.room import by_node
from pumice.scheduling.time.estimates import OVERDUE_LEAST, OVERDUE_PART
from pumice.scheduling.time.profile import ReleaseProfile
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster import amounts
    from pumice.cluster.columns import Column, NodeTable
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.estimates import Estimates


Dated: TypeAlias = "tuple[Instant, str, Run]"  # a gang, in the order of some time


class Run(Value, eq=False):
    """A gang that runs: since when, until when it was expected to, and what it holds of which nodes."""

    started: Instant
    end: Instant
    nodes: Indexes  # each once
    held: Column  # (own nodes, resources)

    def end_at(self, now: Instant) -> Instant:
        """As it is expected now (`Estimates.end`)."""
        if self.end > now:
            return self.end
        return now + max((now - self.started) // OVERDUE_PART, OVERDUE_LEAST)


def run_of(gang: GangState, estimates: Estimates, table: NodeTable) -> Run:
    """Of a gang that ran when the session was opened."""
    started, nodes = gang.gang.started, list[int]()
    assert started is not None, f"{gang.key} holds something, and has not started"
    held = np.zeros((len(table), len(table.axis)), dtype=np.int64)
    for request, names in gang.gang.held:
        own = [table.index[name] for name in names if name in table.index]
        np.add.at(held, own, table.axis.demand(request))
        nodes += own
    where = np.unique(np.asarray(nodes, dtype=np.intp))
    return Run(started, started + estimates.of(gang).length, where, held[where])


def run_on(started: Instant, end: Instant, shape: Shape, nodes: Sequence[int]) -> Run:
    """Of equal pods, and the node of each."""
    where, held = by_node(shape.demand, nodes)
    if isinstance(where, int):
        return Run(started, end, np.array([where]), held[None, :])
    return Run(started, end, where, np.ascontiguousarray(held.T))


class Mark(Value, eq=False):
    """What nodes get back by a moment; kept up. `late`: gangs that should have ended, and are expected to have by then; the oldest first."""

    at: Instant
    freed: Column
    late: list[Dated]

    def count(self, run: Run, sign: int) -> None:
        self.freed[:, run.nodes] += sign * run.held.T


class OpenProfile(ReleaseProfile):
    """Of gangs that start whole and end."""

    def __init__(self, session: Session, estimates: Estimates) -> None:
        super().__init__(session, estimates)
        self._running: dict[str, Run] = {}
        self._in_time: list[Dated] = []  # those that have not outlived their estimate, by their ends
        self._late: list[Dated] = []  # the others, by their starts: who started later is expected to end sooner
        self._marks: list[Mark] = []

    # ------------------------------------------------------------------------------------------------- keeping up

    def advance(self, now: Instant) -> None:
        """Time has come to this moment: who should have ended by now, and has not, is expected to end later, and later again."""
        self.now = now
        self._built = False
        while self._in_time and self._in_time[0][0] <= now:
            end, gang, run = self._in_time.pop(0)
            since = run.started, gang, run
            bisect.insort(self._late, since)
            for mark in self._marks:
                if end <= mark.at:
                    bisect.insort(mark.late, since)
        for mark in self._marks:
            while mark.late and (oldest := mark.late[0][2]).end_at(now) > mark.at:
                mark.count(oldest, -1)
                del mark.late[0]

    def start(self, gang: str, run: Run) -> None:
        self._built = False
        self._running[gang] = run
        is_late = run.end <= self.now
        bisect.insort(*((self._late, (run.started, gang, run)) if is_late else (self._in_time, (run.end, gang, run))))
        for mark in self._marks:
            if run.end_at(self.now) <= mark.at:
                mark.count(run, 1)
                if is_late:
                    bisect.insort(mark.late, (run.started, gang, run))

    def end(self, gang: str) -> None:
        self._built = False
        run = self._running.pop(gang)
        is_late = not _remove(self._in_time, run.end, gang)
        if is_late:
            _remove(self._late, run.started, gang)
        for mark in self._marks:
            if _remove(mark.late, run.started, gang) if is_late else run.end <= mark.at:
                mark.count(run, -1)

    def mark(self, *moments: Instant) -> Sequence[Mark]:
        """These are kept up from now on, and no others."""
        self._marks = [Mark(at, self._freed_by(at), self._late_by(at)) for at in moments]
        return self._marks

    def _freed_by(self, at: Instant) -> Column:
        column: Column = self.freed(at).copy()
        return column

    def _late_by(self, at: Instant) -> list[Dated]:
        return [each for each in self._late if each[2].end_at(self.now) <= at]

    def next_end(self) -> Instant | None:
        """The first moment after now at which something is expected to end."""
        first = (*self._in_time[:1], *self._late[-1:])
        return min((run.end_at(self.now) for *_, run in first), default=None)

    # ------------------------------------------------------------------------------------------------- all ends

    def _build(self) -> None:
        late = ((run.end_at(self.now), gang, run) for _, gang, run in reversed(self._late))
        ordered = sorted([*self._in_time, *late])
        ends = [end for end, *_ in ordered]
        nodes = [run.nodes for *_, run in ordered]
        self._columns.clear()
        self._ends = np.array(ends, dtype=np.int64).repeat(list(map(len, nodes)))
        self._nodes = np.concatenate([np.zeros(0, dtype=np.intp), *nodes])
        nothing = np.zeros((0, len(self.session.room.table.axis)), dtype=np.int64)
        self._amounts = np.concatenate([nothing, *[run.held for *_, run in ordered]]).T.copy()
        self._rows = np.flatnonzero(self._amounts.any(axis=1))
        self._moments = list(dict.fromkeys(ends))
        self._built = True

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        """Attempts at later moments come here, and are undone; what really starts is told by `start`."""

    def freed_by_queue(self, at: Instant) -> dict[str, amounts.MutableAmounts]:
        """Nobody asks: no plugin limits what queues hold."""
        del at
        return {}


def _remove(among: list[Dated], at: Instant, gang: str) -> bool:
    """Whether the gang was in that list at its time."""
    place = bisect.bisect_left(among, (at, gang), key=lambda each: each[:2])
    found = place < len(among) and among[place][:2] == (at, gang)
    if found:
        del among[place]
    return found
