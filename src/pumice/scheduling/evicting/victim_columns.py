"""Everybody who could ever be evicted, as columns sorted by node: what plugins vote on for all nodes at once.

Built once a session, when the first action looks for victims, and brought up to date from the session's journal of moves: only pods of gangs
that have moved since are looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.tasks import EVICTABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.requests import Request
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session


class VictimColumns:
    """One row for each pod that runs or is bound and belongs to a gang; `edges[n]` to `edges[n + 1]` are those of node n."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tasks: list[Task] = []
        self.gangs: list[GangState] = []
        self.kinds: list[
            tuple[str, Request]
        ] = []  # distinct pairs of queue and request: few, whatever the number of pods
        self._gather(session)
        demand = session.room.table.axis.demand
        demands = [demand(request) for _, request in self.kinds]
        self.demand: Column = (
            np.array(demands)[self.kind].T if self.tasks else np.zeros((len(session.room.future), 0), dtype=np.int64)
        )
        self.preemptable: Mask = np.array([task.preemptable for task in self.tasks], dtype=bool)
        self.best_effort: Mask = np.array([request.is_best_effort for _, request in self.kinds], dtype=bool)[self.kind]
        self.gang_priority: Column = np.array([gang.priority for gang in self.gangs], dtype=np.int64)
        self.status: NDArray[np.int8] = np.array([task.status for task in self.tasks], dtype=np.int8)  # the session's
        surplus = [gang.tally.ready - gang.spec.min_member for gang in self.gangs]
        self.surplus: Column = np.array(surplus, dtype=np.int64)  # members beyond the gang's minimum
        self.served: Mask = np.zeros(len(self.gangs), dtype=bool)  # others leave for this gang
        self.stale: list[int] = []  # nodes in the order in which something about their pods or their room changed
        self._columns: dict[Callable[[Task], int], Column] = {}
        self._moves = self._touched = self._served = 0
        self.catch_up()
        self.stale.clear()  # nobody has looked yet

    def _gather(self, session: Session) -> None:
        positions: dict[str, int] = {}
        kinds: dict[tuple[str, Request], int] = {}
        of_gang, of_kind, edges = [], [], [0]
        for residents in session.room.table.tasks:
            for task in residents:
                gang = session.gangs.get(task.gang)
                if gang is None or task.status not in EVICTABLE:
                    continue
                at = positions.get(gang.key)
                if at is None:
                    at = positions[gang.key] = len(self.gangs)
                    self.gangs.append(gang)
                self.tasks.append(task)
                of_gang.append(at)
                of_kind.append(kinds.setdefault((gang.queue, task.request), len(kinds)))
            edges.append(len(self.tasks))
        self.position = positions
        self.kinds = list(kinds)
        self.gang: Indexes = np.array(of_gang, dtype=np.intp)
        self.kind: Indexes = np.array(of_kind, dtype=np.intp)
        self.edges: Indexes = np.array(edges, dtype=np.intp)
        self.node: Indexes = np.repeat(np.arange(len(edges) - 1), np.diff(self.edges))
        self._by_gang = np.argsort(self.gang, kind="stable")
        self._gang_edges = np.concatenate(([0], np.cumsum(np.bincount(self.gang, minlength=len(self.gangs)))))

    # ------------------------------------------------------------------------------------------------- keeping up

    @property
    def moves(self) -> int:
        """While this number stays the same, so does the session."""
        return len(self.session.moved_gangs) + len(self.session.room.touched) + len(self.session.made_room_for)

    def catch_up(self) -> None:
        """Look again at what has moved since the last time."""
        session = self.session
        moved = {gang.key for gang in session.moved_gangs[self._moves :]}
        self._moves = len(session.moved_gangs)
        if len(session.made_room_for) != self._served:
            moved |= session.made_room_for
            self._served = len(session.made_room_for)
        self.stale += session.room.touched[self._touched :]
        self._touched = len(session.room.touched)
        for key in moved:
            at = self.position.get(key)
            if at is not None:
                self._refresh(at)

    def _refresh(self, at: int) -> None:
        gang, rows = self.gangs[at], self._by_gang[self._gang_edges[at] : self._gang_edges[at + 1]]
        self.stale += self.node[rows].tolist()
        self.surplus[at] = gang.tally.ready - gang.spec.min_member
        self.served[at] = gang.key in self.session.made_room_for
        self.status[rows] = [gang.status(self.tasks[row]) for row in rows]

    # ------------------------------------------------------------------------------------------------- views

    def everywhere(self) -> View:
        return View(self, np.arange(len(self.edges) - 1), np.arange(len(self.tasks)), self.edges)

    def on(self, nodes: Indexes) -> View:
        counts = self.edges[nodes + 1] - self.edges[nodes]
        edges = np.concatenate(([0], np.cumsum(counts)))
        rows = np.arange(edges[-1]) + np.repeat(self.edges[nodes] - edges[:-1], counts)
        return View(self, nodes, rows, edges)

    def of_tasks(self, ask: Callable[[Task], int]) -> Column:
        """What a plugin says of each single pod, whatever happens in the session; asked once."""
        column = self._columns.get(ask)
        if column is None:
            column = self._columns[ask] = np.array([ask(task) for task in self.tasks], dtype=np.int64)
        return column


class View:
    """The rows of some nodes; `asked` are those that votes are about."""

    def __init__(self, columns: VictimColumns, nodes: Indexes, rows: Indexes, edges: Indexes) -> None:
        self.columns = columns
        self.nodes = nodes
        self.rows = rows
        self._edges = edges
        self.gang: Indexes = columns.gang[rows]
        self.kind: Indexes = columns.kind[rows]
        self.asked: Mask = np.ones(len(rows), dtype=bool)

    @property
    def gang_priority(self) -> Column:
        return self.columns.gang_priority[self.gang]

    @property
    def surplus(self) -> Column:
        return self.columns.surplus[self.gang]

    def of_tasks(self, ask: Callable[[Task], int]) -> Column:
        """What `ask` says of each pod; it must be the same function each time, and its answer must not change in a session."""
        return self.columns.of_tasks(ask)[self.rows]

    def any(self, mask: Mask) -> Mask:
        """On which of the nodes any row is in the mask."""
        return self.sums(mask) > 0

    def sums(self, amounts: Column | Mask) -> Column:
        """Sums by node: differences of prefix sums, exact in integers."""
        prefix = np.concatenate(([0], np.cumsum(amounts, dtype=np.int64)))
        sums: Column = prefix[self._edges[1:]] - prefix[self._edges[:-1]]
        return sums

    def spread(self, nodes: Mask) -> Mask:
        """What holds for a node, for each of its rows."""
        return np.repeat(nodes, np.diff(self._edges))
