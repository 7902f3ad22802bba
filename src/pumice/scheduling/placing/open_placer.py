"""Where pods go in a session that stays open from one instant to the next: the placer of a cycle, with a longer memory of scores.

Nodes come back to loads that they have had: with eight equal slots there are nine. What scores say of a node with such a load, and with one pod more, and two, is
remembered. Scores that change from one instant to the next are put together anew from parts that do not (`Parts`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pumice.scheduling.placing.placement import LOADS_REMEMBERED_MAX, Pairs, Placer, Remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.points.nodes import Parts
    from pumice.scheduling.core.room import Room
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

Past: TypeAlias = "dict[tuple[int, bytes], Scores]"  # by node and load

PAST_MAX = 20_000  # loads of nodes that are remembered for one shape, some 300 bytes each; then all are forgotten
DEPTH_MAX = 16  # pods on one node whose scores are remembered; where nodes take more, only that of the first is


class _RememberedLong(Remembered):
    """Beside the loads that nodes have now, those that they have had."""

    def __init__(self, room: Room, past: Past) -> None:
        super().__init__(len(room.table))
        self._room = room
        self._past = past

    def _find(self, unknown: Indexes, find: Callable[[Indexes], Scores]) -> Scores:
        past, room = self._past, self._room
        if len(past) > PAST_MAX:
            past.clear()
        loads = np.concatenate((room.used[:, unknown], room.viewed[:, unknown])).T
        keys = [(node, load.tobytes()) for node, load in zip(unknown.tolist(), loads, strict=True)]
        new = [position for position, key in enumerate(keys) if key not in past]
        if new:
            past.update(zip([keys[position] for position in new], find(unknown[new]), strict=True))
        return np.array([past[key] for key in keys])


class OpenPlacer(Placer):
    """Decides as a Placer that is made anew for each instant would."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        hooks = self.points.load_score.hooks
        lasting = next((number for number, hook in enumerate(hooks) if hook.call.parts is not None), len(hooks))
        self._lasting, self._others = hooks[:lasting], hooks[lasting:]
        self._depths: dict[Shape, int] = {}
        self._pasts: dict[Hashable, Past] = {}  # of a later moment, too: what scores say of a load is the same then

    def _first_load(self, shape: Shape, nodes: Indexes, *, pipelining: bool) -> Scores:
        return self._loads_of(shape, nodes, 1, pipelining=pipelining)

    def _path(self, shape: Shape, nodes: Indexes, depth: int, *, pipelining: bool) -> Scores:
        if depth > self._depth(shape):
            return super()._path(shape, nodes, depth, pipelining=pipelining)
        return self._loads_of(shape, nodes, depth, pipelining=pipelining)

    def _depth(self, shape: Shape) -> int:
        """How many such pods an empty node takes; one where that is more than is remembered."""
        depth = self._depths.get(shape)
        if depth is None:
            most = int(shape.copies(self.room.table.allocatable).max(initial=1))
            depth = self._depths[shape] = max(most, 1) if most <= DEPTH_MAX else 1
        return depth

    def _loads_of(self, shape: Shape, nodes: Indexes, depth: int, *, pipelining: bool) -> Scores:
        """Scores of the nodes with so many such pods, one after the other. They are added up in their order: sums of fractions depend on it."""
        if not self.points.load_score.hooks:
            return np.zeros(len(nodes) * depth)
        changed = self._follow_loads().changed
        find = partial(self._find_lasting, shape, pipelining)
        lasting = self._remembered((shape, pipelining)).of(nodes, changed, find)
        total = lasting[:, :depth].ravel()
        for hook in self._others:
            parts = hook.call.parts
            if parts is None:
                own = hook.call.score(shape, self._pairs(shape, nodes, depth, pipelining=pipelining))
            else:
                memory = self._remembered((shape, pipelining, hook.plugin, parts.basis()))
                rows = memory.of(nodes, changed, partial(self._find_parts, shape, pipelining, parts))[:, :depth]
                own = parts.together(rows.reshape(len(total), -1))
            if own is not None:
                total = total + own
        return total

    def _new_memory(self, key: Hashable) -> Remembered:
        if len(self._pasts) > LOADS_REMEMBERED_MAX:
            self._pasts.clear()
        return _RememberedLong(self.room, self._pasts.setdefault(key, {}))

    def _pairs(self, shape: Shape, nodes: Indexes, depth: int, *, pipelining: bool) -> Pairs:
        copies = np.tile(np.arange(depth), len(nodes))
        return Pairs(self.room, shape.demand, nodes.repeat(depth), copies, pipelining)

    def _find_lasting(self, shape: Shape, pipelining: bool, nodes: Indexes) -> Scores:  # noqa: FBT001  for `partial`
        depth = self._depth(shape)
        pairs, total = self._pairs(shape, nodes, depth, pipelining=pipelining), np.zeros(len(nodes) * depth)
        for hook in self._lasting:
            if (own := hook.call.score(shape, pairs)) is not None:
                total = total + own
        return total.reshape(len(nodes), depth)

    def _find_parts(self, shape: Shape, pipelining: bool, parts: Parts, nodes: Indexes) -> Scores:  # noqa: FBT001  the same
        depth = self._depth(shape)
        found = parts.parts(shape, self._pairs(shape, nodes, depth, pipelining=pipelining))
        return found.reshape(len(nodes), depth, -1)
