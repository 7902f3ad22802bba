"""The nodes inside a session: what is idle, used, being released and spoken for, in columns that change and change back.

idle      allocatable - used; negative where a node shrank
future    idle + releasing - pipelined: what a task may be promised
viewed    what kube-scheduler's scores look at: pipelined pods are there already, evicted ones are gone
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.columns import SCORED_CPU_ROW, SCORED_MEMORY_ROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.columns import Column, NodeTable


class Room:
    """Mutable columns over an immutable table. Every change has an exact inverse: integers, and no division."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.idle: Column = table.allocatable - table.used
        self.used: Column = table.used.copy()
        self.releasing: Column = table.releasing.copy()
        self.pipelined: Column = np.zeros_like(table.used)
        self.future: Column = self.idle + self.releasing
        self.viewed: Column = table.used.copy()
        self.touched: list[int] = []  # nodes in the order in which they changed: a memory of one is stale after that

    def allocate(self, demand: Column, nodes: Sequence[int], sign: int = 1) -> None:
        where, amount = by_node(demand, nodes, sign)
        self.idle[:, where] -= amount
        self.used[:, where] += amount
        self.future[:, where] -= amount
        self.viewed[:, where] += amount
        self.touched += nodes

    def pipeline(self, demand: Column, nodes: Sequence[int], sign: int = 1) -> None:
        where, amount = by_node(demand, nodes, sign)
        self.pipelined[:, where] += amount
        self.future[:, where] -= amount
        self.viewed[:, where] += amount
        self.touched += nodes

    def evict(self, demand: Column, nodes: Sequence[int], sign: int = 1) -> None:
        where, amount = by_node(demand, nodes, sign)
        self.releasing[:, where] += amount
        self.future[:, where] += amount
        self.viewed[:, where] -= amount
        self.touched += nodes

    def check(self) -> None:
        """The four columns tell one story."""
        table = self.table
        assert (self.idle + self.used == table.allocatable).all(), "idle and used do not make up allocatable"
        assert (self.future == self.idle + self.releasing - self.pipelined).all(), "future is not what becomes free"
        real = np.ones(len(self.idle), dtype=bool)
        real[[SCORED_CPU_ROW, SCORED_MEMORY_ROW]] = False
        assert (self.releasing[real] <= self.used[real]).all(), "more is released than is used"


def by_node(demand: Column, nodes: Sequence[int], sign: int = 1) -> tuple[Column | int, Column]:
    """The distinct nodes, and the demand times the number of pods on each."""
    if len(nodes) == 1:
        return nodes[0], demand * sign  # a third of what a list of one node costs
    counts = Counter(nodes)
    where = np.fromiter(counts, dtype=np.intp, count=len(counts))
    return where, demand[:, None] * (np.fromiter(counts.values(), dtype=np.int64, count=len(counts)) * sign)
