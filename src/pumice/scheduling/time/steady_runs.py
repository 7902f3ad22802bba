"""When steady gangs end, and what nodes and queues get back then: columns that are kept from cycle to cycle.

Gangs of which the same is known (a limit, an estimate, or a kind of run in a queue) are one class, and how long they run is found out once for
all of them. Rows of gangs that are gone are used again.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pumice.scheduling.core.decisions import Expected
from pumice.scheduling.time import run_times

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.gangs import Gang
    from pumice.cluster.requests import Request
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.time.estimates import Estimate, Estimates

IDLE_NUMBERS_MAX = 10_000  # of nodes, requests and classes that nobody has any more; with more of them it is made anew
NOBODY = -1  # in a row that is free
UNKNOWN = -1  # a start that nobody has recorded; no pod was started before 1970


class Rows(NamedTuple):
    """One for each member: the gang's number, the node's, and the request's; the node may be gone."""

    gang: Indexes
    node: Indexes
    kind: Indexes


class _Numbers(dict[str, int]):
    """Texts numbered in the order in which they are met."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class SteadyRuns:
    """A sum over steady gangs (core/steady.py): their members by node, their starts, and their classes."""

    def __init__(self) -> None:
        self.requests: dict[Request, int] = {}
        self.nodes = _Numbers()
        self.queues = _Numbers()
        self.expected: dict[str, Expected] = {}  # as of when somebody last asked
        self._number: dict[str, int] = {}  # of a gang, by key
        self._names: list[str] = []
        self._started, self._class, self._queue = array("q"), array("q"), array("q")
        self._told = array("q")  # the end that `expected` has
        self._classes: dict[Hashable, int] = {}
        self._examples: list[Gang] = []  # one of each class
        self._estimates: list[Estimate | None] = []  # of each class, when somebody last asked
        self._lengths = array("q")  # of the same
        self._estimated = 0  # classes that have been asked about
        self._asked_anew: list[
            int
        ] = []  # classes of which nobody has said how long they run; the others stay as they are
        self._positions: tuple[Mapping[str, int], Indexes] = {}, np.zeros(0, dtype=np.intp)
        self._rows: dict[str, Sequence[int]] = {}
        self._member_gang, self._member_node, self._member_kind = array("q"), array("q"), array("q")
        self._free: list[int] = []
        self._free_rows: list[int] = []

    # ------------------------------------------------------------------------------------------------- keeping up

    def add(self, gang: Gang, sign: int) -> None:
        if sign > 0:
            self._put(gang)
        else:
            self._take(gang)

    def _put(self, gang: Gang) -> None:
        key, started = gang.key, gang.started
        number = self._number[key] = self._free.pop() if self._free else self._grow()
        self._names[number] = key
        self._started[number] = UNKNOWN if started is None else started
        self._class[number] = self._class_of(gang)
        self._queue[number] = self.queues[gang.spec.queue]
        members = [task for task in gang.tasks if task.node]
        nodes, requests = [self.nodes[task.node] for task in members], self.requests
        kinds = [requests.setdefault(task.request, len(requests)) for task in members]
        self._rows[key] = self._put_members(number, nodes, kinds)

    def _put_members(self, number: int, nodes: list[int], kinds: list[int]) -> Sequence[int]:
        """In rows that are free, where there are enough of them."""
        if len(self._free_rows) < len(nodes):
            first = len(self._member_gang)
            self._member_gang.extend([number] * len(nodes))
            self._member_node.extend(nodes)
            self._member_kind.extend(kinds)
            return range(first, first + len(nodes))
        rows = [self._free_rows.pop() for _ in nodes]
        for row, node, kind in zip(rows, nodes, kinds, strict=True):
            self._member_gang[row], self._member_node[row], self._member_kind[row] = number, node, kind
        return rows

    def _take(self, gang: Gang) -> None:
        number = self._number.pop(gang.key)
        self._names[number], self._class[number], self._told[number] = "", NOBODY, NOBODY
        self._free.append(number)
        self.expected.pop(gang.key, None)
        for row in (rows := self._rows.pop(gang.key)):
            self._member_gang[row] = NOBODY
        self._free_rows += rows

    def _grow(self) -> int:
        self._names.append("")
        for column in (self._started, self._class, self._queue, self._told):
            column.append(NOBODY)
        return len(self._names) - 1

    def _class_of(self, gang: Gang) -> int:
        spec = gang.spec
        said = spec.time_limit, spec.running_estimate
        kind: Hashable = said if any(said) else (spec.queue, run_times.kind_of(gang))
        number = self._classes.setdefault(kind, len(self._classes))
        if number == len(self._examples):
            self._examples.append(gang)
            self._estimates.append(None)
            self._lengths.append(0)
            if not any(said):
                self._asked_anew.append(number)
        return number

    @property
    def is_worn(self) -> bool:
        return len(self.nodes) + len(self.requests) + len(self._classes) > IDLE_NUMBERS_MAX + 4 * len(self._rows)

    # ------------------------------------------------------------------------------------------------- columns

    def members(self, without: Collection[str]) -> Rows:
        """All of them, less those of some gangs."""
        gang = np.array(self._member_gang, dtype=np.intp)
        alive = gang != NOBODY
        lost = [number for key, number in self._number.items() if key in without] if without else ()
        if lost:
            alive &= ~np.isin(gang, lost)
        node, kind = np.array(self._member_node, dtype=np.intp), np.array(self._member_kind, dtype=np.intp)
        return Rows(gang[alive], node[alive], kind[alive])

    def ends(self, estimates: Estimates) -> Column:
        """When each gang is expected to end, by its number; of a number that is free anything."""
        classes = np.array(self._class, dtype=np.intp)
        if not self._examples:
            return np.zeros(len(classes), dtype=np.int64)
        changed = self._estimate(estimates)
        ends = estimates.ends(np.array(self._started, dtype=np.int64), np.array(self._lengths, dtype=np.int64)[classes])
        self._tell(ends, ((ends != np.array(self._told, dtype=np.int64)) | changed[classes]) & (classes != NOBODY))
        return ends

    def _estimate(self, estimates: Estimates) -> Mask:
        """How long each class runs; the classes of which that has changed."""
        changed = np.zeros(len(self._examples), dtype=bool)
        for number in {*self._asked_anew, *range(self._estimated, len(self._examples))}:
            found = estimates.estimate(self._examples[number])
            changed[number] = found != self._estimates[number]
            self._estimates[number], self._lengths[number] = found, found.length
        self._estimated = len(self._examples)
        return changed

    def _tell(self, ends: Column, changed: Mask) -> None:
        for number in np.flatnonzero(changed).tolist():
            each, end = self._estimates[self._class[number]], int(ends[number])
            assert each is not None
            self.expected[self._names[number]] = Expected(each.length, each.source.value, each.right, end)
            self._told[number] = end

    def queue_of(self, gangs: Indexes) -> Indexes:
        queues: Indexes = np.array(self._queue, dtype=np.intp)[gangs]
        return queues

    def names_of(self, gangs: Indexes) -> list[str]:
        return [self._names[number] for number in gangs.tolist()]

    def positions(self, index: Mapping[str, int]) -> Indexes:
        """Where each of the numbered nodes is in the session; NOBODY for one that is gone."""
        known, positions = self._positions
        if known is not index or len(positions) != len(self.nodes):
            positions = np.array([index.get(name, NOBODY) for name in self.nodes], dtype=np.intp)
            self._positions = index, positions
        return positions
