"""Nodes as columns: one contiguous int64 row per resource, one column per node, in a fixed order.

`used` counts every pod that holds room (also one that is being deleted), `releasing` the part of it that is about to go.
Two rows beyond the real resources carry what scores count for cpu and memory (requests.py says why).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.core import Node
    from pumice.cluster.amounts import Amounts
    from pumice.cluster.requests import Request
    from pumice.cluster.residents import Residents

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

SCORED_CPU = "scored/cpu"
SCORED_MEMORY = "scored/memory"
FIRST_ROWS = ("cpu", "memory", "pods", SCORED_CPU, SCORED_MEMORY)
DEMANDS_MAX = 4096  # requests whose columns are kept
CPU_ROW, MEMORY_ROW, PODS_ROW, SCORED_CPU_ROW, SCORED_MEMORY_ROW = range(len(FIRST_ROWS))


class Axis:
    """The rows: resource names in order of first appearance. It only grows, so a row number never changes its meaning."""

    def __init__(self, names: Sequence[str] = FIRST_ROWS) -> None:
        self.names = list(names)
        self.rows = {name: row for row, name in enumerate(self.names)}
        self._demands: dict[Request, Column] = {}  # with a row for each name of the request, known or learnt

    def __len__(self) -> int:
        return len(self.names)

    def learn(self, amounts: Amounts) -> None:
        for name in amounts:
            if name not in self.rows:
                self.rows[name] = len(self.names)
                self.names.append(name)
                self._demands.clear()

    def vector(self, amounts: Amounts) -> Column:
        """Amounts as one column; names without a row are left out, so learn them first."""
        column = np.zeros(len(self.names), dtype=np.int64)
        for name, value in amounts.items():
            row = self.rows.get(name)
            if row is not None:
                column[row] = value
        return column

    def demand(self, request: Request) -> Column:
        """A request as one column, the scored rows included; it is found once, and not to be written to."""
        column = self._demands.get(request)
        if column is None:
            column = self.vector(request.amounts)
            column[SCORED_CPU_ROW] = request.scored_cpu_milli
            column[SCORED_MEMORY_ROW] = request.scored_memory_bytes
            column.flags.writeable = False
            if len(self._demands) >= DEMANDS_MAX:
                self._demands.clear()
            self._demands[request] = column
        return column


class NodeTable(Value, eq=False):
    """All nodes at one moment, ordered by creation and name; arrays have shape (resources, nodes)."""

    axis: Axis
    names: Sequence[str]
    index: Mapping[str, int]
    objects: Sequence[Node]
    tasks: Sequence[Residents]
    allocatable: Column
    used: Column
    releasing: Column

    def __len__(self) -> int:
        return len(self.names)

    def total(self) -> dict[str, float]:
        """What all nodes together may hand out, by name; exact, because Python integers do not overflow."""
        rows = enumerate(self.axis.names)
        return {
            name: sum(self.allocatable[row].tolist())
            for row, name in rows
            if row not in {SCORED_CPU_ROW, SCORED_MEMORY_ROW} and self.allocatable[row].any()
        }
