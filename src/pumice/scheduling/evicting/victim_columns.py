"""Everybody who could ever be evicted, as columns sorted by node: what plugins vote on for all nodes at once.

Taken from columns that are kept between cycles (`running_pods`), when the first action looks for victims, and brought up to date from the
session's journal of moves: only pods of gangs that have moved since are looked at again.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from pumice.scheduling.evicting import running_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session


class VictimColumns:
    """One row for each pod that runs or is bound and belongs to a gang; `edges[n]` to `edges[n + 1]` are those of node n."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.pods = pods = running_pods.of(session.snapshot)
        self.position = pods.position  # the number of a gang, by key
        self.gangs = pods.gangs
        known = pods.in_queues(session.queues)[pods.gang]
        # The rows of `pods` that are rows here, where some are not.
        self._own = None if known.all() else np.flatnonzero(known)
        rows = slice(None) if self._own is None else self._own
        self.tasks: Sequence[Task] = pods.tasks if self._own is None else [pods.tasks[row] for row in self._own]
        self.gang: Indexes = pods.gang[rows]
        self.preemptable: Mask = pods.preemptable[rows]
        self.status: NDArray[np.int8] = pods.status[rows].copy()  # the session's
        self.edges: Indexes = pods.edges if self._own is None else np.searchsorted(self._own, pods.edges)
        self.node: Indexes = np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))
        self._find_kinds(pods.queue[self.gang], pods.request[rows])
        self.gang_priority: Column = pods.gang_priority
        self.surplus: Column = pods.surplus.copy()  # members beyond the gang's minimum
        self.served: Mask = np.zeros(len(self.gangs), dtype=bool)  # others leave for this gang
        self.stale: list[int] = []  # nodes in the order in which something about their pods or their room changed
        self._columns: dict[Callable[[Task], int], Column] = {}
        self._moves = self._touched = self._served = 0
        self.catch_up()
        self.stale.clear()  # nobody has looked yet

    def _find_kinds(self, queue: Indexes, request: Indexes) -> None:
        """Distinct pairs of queue and request: few, whatever the number of pods."""
        queues, requests = list(self.pods.queues), list(self.pods.requests)
        codes = queue * len(requests) + request
        present = np.flatnonzero(np.bincount(codes)) if len(codes) else codes
        self.kinds = [(queues[code // len(requests)], requests[code % len(requests)]) for code in present.tolist()]
        self.kind: Indexes = np.searchsorted(present, codes)
        axis = self.session.room.table.axis
        demands = [axis.demand(request) for _, request in self.kinds]
        per_kind = np.array(demands, dtype=np.int64).reshape(-1, len(self.session.room.future)).T
        self.demand: Column = per_kind[:, self.kind]
        self.best_effort: Mask = np.array([request.is_best_effort for _, request in self.kinds], dtype=bool)[self.kind]

    @functools.cached_property
    def _of_gangs(self) -> tuple[Indexes, Indexes]:
        """Rows sorted by gang, and where each gang's begin; asked for once somebody has moved."""
        edges = np.concatenate(([0], np.cumsum(np.bincount(self.gang, minlength=len(self.gangs)))))
        return np.argsort(self.gang, kind="stable"), edges

    def number(self, gang: str) -> int:
        """Of a gang that has rows; -1 for another."""
        at = self.position.get(gang, -1)
        return at if at >= 0 and self._has_rows[at] else -1

    @functools.cached_property
    def _has_rows(self) -> Mask:
        has_rows = np.zeros(len(self.gangs), dtype=bool)
        has_rows[self.gang] = True
        return has_rows

    # ------------------------------------------------------------------------------------------------- keeping up

    @property
    def moves(self) -> int:
        """While this number stays the same, so does the session."""
        return len(self.session.moved_gangs) + len(self.session.room.touched) + len(self.session.made_room_for)

    def catch_up(self) -> None:
        """Look again at what has moved since the last time."""
        session = self.session
        if self.moves == self._moves + self._touched + self._served:
            return
        moved = {gang.key for gang in session.moved_gangs[self._moves :]}
        self._moves = len(session.moved_gangs)
        if len(session.made_room_for) != self._served:
            moved |= session.made_room_for
            self._served = len(session.made_room_for)
        self.stale += session.room.touched[self._touched :]
        self._touched = len(session.room.touched)
        for key in moved:
            if (at := self.number(key)) >= 0:
                self._refresh(key, at)

    def _refresh(self, key: str, at: int) -> None:
        by_gang, edges = self._of_gangs
        gang, rows = self.session.gangs[key], by_gang[edges[at] : edges[at + 1]]
        self.stale += self.node[rows].tolist()
        self.surplus[at] = gang.tally.ready - gang.spec.min_member
        self.served[at] = key in self.session.made_room_for
        self.status[rows] = [gang.status(self.tasks[row]) for row in rows]

    # ------------------------------------------------------------------------------------------------- views

    def everywhere(self) -> View:
        return View(self, np.arange(len(self.edges) - 1), slice(None), self.edges)

    def on(self, nodes: Indexes) -> View:
        counts = self.edges[nodes + 1] - self.edges[nodes]
        edges = np.concatenate(([0], np.cumsum(counts)))
        rows = np.arange(edges[-1]) + np.repeat(self.edges[nodes] - edges[:-1], counts)
        return View(self, nodes, rows, edges)

    def of_tasks(self, ask: Callable[[Task], int]) -> Column:
        """What a plugin says of each single pod, whatever happens in the session; asked once a session."""
        column = self._columns.get(ask)
        if column is None:
            column = self._columns[ask] = np.array([ask(task) for task in self.tasks], dtype=np.int64)
        return column

    def of_pods(self, ask: Callable[[Task], int]) -> Column:
        """The same where the answer follows from the pod alone, and not from the session: asked once for each pod."""
        column = self.pods.of_pods(ask)
        return column if self._own is None else column[self._own]


class View:
    """The rows of some nodes; `asked` are those that votes are about."""

    def __init__(self, columns: VictimColumns, nodes: Indexes, rows: Indexes | slice, edges: Indexes) -> None:
        self.columns = columns
        self.nodes = nodes
        self.rows = rows  # of the columns: what is taken from these is for reading only
        self._edges = edges
        self.gang: Indexes = columns.gang[rows]
        self.kind: Indexes = columns.kind[rows]
        self.asked: Mask = np.ones(len(self), dtype=bool)

    def __len__(self) -> int:
        """How many rows."""
        return len(self.gang)

    @property
    def gang_priority(self) -> Column:
        return self.columns.gang_priority[self.gang]

    @property
    def surplus(self) -> Column:
        return self.columns.surplus[self.gang]

    def of_tasks(self, ask: Callable[[Task], int]) -> Column:
        """What `ask` says of each pod; it must be the same function each time, and its answer must not change in a session."""
        return self.columns.of_tasks(ask)[self.rows]

    def of_pods(self, ask: Callable[[Task], int]) -> Column:
        """The same where `ask` looks at nothing but the pod: a function of a module, so that it is the same one in later cycles."""
        return self.columns.of_pods(ask)[self.rows]

    def any(self, mask: Mask) -> Mask:
        """On which of the nodes any row is in the mask."""
        return self.sums(mask) > 0

    def sums(self, amounts: Column | Mask) -> Column:
        """Sums by node: differences of prefix sums, exact in integers."""
        prefix = np.zeros(len(amounts) + 1, dtype=np.int64)
        np.cumsum(amounts, out=prefix[1:])
        sums: Column = prefix[self._edges[1:]] - prefix[self._edges[:-1]]
        return sums

    def spread(self, nodes: Mask) -> Mask:
        """What holds for a node, for each of its rows."""
        return np.repeat(nodes, np.diff(self._edges))
