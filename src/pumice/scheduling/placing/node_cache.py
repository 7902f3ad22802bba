"""Answers about single nodes, asked once and kept until the node changes.

Some questions ("which CPUs would it get there?") are too intricate for columns. They are asked node by node, but only once:
a change of a node is written into a log, and the next reader asks again about the nodes that are new in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class NodeLog:
    """Which nodes have changed, in order."""

    def __init__(self) -> None:
        self.changed: list[int] = []

    def note(self, node: int) -> None:
        self.changed.append(node)


class NodeCache:
    """Calls `look(node)` for every node at first, and later for those that changed since it was last up to date."""

    def __init__(self, log: NodeLog, nodes: Iterable[int], look: Callable[[int], None]) -> None:
        self._log = log
        self._nodes = frozenset(nodes)
        self._look = look
        self._read = len(log.changed)
        for node in self._nodes:
            look(node)

    def refresh(self) -> None:
        new = self._log.changed[self._read :]
        self._read = len(self._log.changed)
        for node in dict.fromkeys(new):
            if node in self._nodes:
                self._look(node)
