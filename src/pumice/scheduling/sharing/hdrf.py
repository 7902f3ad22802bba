"""Hierarchical dominant resource fairness: a tree of queues, with gangs as its leaves, and how much each branch really holds.

A branch that lacks nothing, or cannot get more because the cluster has run out of what it wants, is saturated and steps back. A
branch's own share is not the plain sum of its children: an unsaturated child counts only as much as the poorest of them, so that a
child with a large share does not make its whole branch wait for its sibling's sake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.cluster import amounts
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Column

WEIGHT_LEAST = 1.0
ROOT_WEIGHT = 1.0
DEPTH_MAX = 64  # of a path; whatever lies deeper counts as the queue at that depth


def path_of(hierarchy: str) -> tuple[str, ...]:
    """`root/science/dev` below the root: `("science", "dev")`; a queue that says nothing hangs at the root itself."""
    return tuple(hierarchy.split("/")[1 : DEPTH_MAX + 1])


def weights_of(hierarchy_weights: str, length: int) -> tuple[float, ...]:
    """The weights below the root, one for each part of a path; what is missing, below one or no number counts as one."""
    written = hierarchy_weights.split("/")[1:]
    return tuple(_weight(written[number]) if number < len(written) else WEIGHT_LEAST for number in range(length))


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return WEIGHT_LEAST
    return weight if weight >= WEIGHT_LEAST and weight != float("inf") else WEIGHT_LEAST


class Leaf(Value):
    """A gang: where it hangs, what it holds and what all of its members ask for together."""

    key: str
    path: tuple[str, ...]
    weights: tuple[float, ...]
    held: Amounts
    wanted: Amounts


class _Branch(Mutable, eq=False):
    weight: float
    path: tuple[int, ...]  # numbers of itself and of the branches above it
    children: dict[str, _Branch] = msgspec.field(default_factory=dict)
    leaves: list[int] = msgspec.field(default_factory=list)
    held: NDArray[np.float64] = msgspec.field(default_factory=lambda: np.zeros(0))
    share: float = 0.0
    saturated: bool = False


class ShareTree:
    """Compares branches by what they hold now. Only integers are changed; shares are worked out from them when they are asked for,
    and only along the paths of gangs that have changed.
    """

    def __init__(self, total: Amounts, leaves: Sequence[Leaf]) -> None:
        self._names = sorted(amounts.names(total))
        self._total = self._column(total).astype(np.float64)
        self._branches = [_Branch(ROOT_WEIGHT, (0,))]  # parents before their children
        self._slots = {leaf.key: slot for slot, leaf in enumerate(leaves)}
        none = np.zeros((len(self._names), 0), dtype=np.int64)
        self._held = np.column_stack([none, *[self._column(leaf.held) for leaf in leaves]])
        self._wanted = np.column_stack([none, *[self._column(leaf.wanted) for leaf in leaves]])
        self._sum: Column = self._held.sum(axis=1)
        self._exhausted = self._sum >= self._total
        self._shares = np.zeros(len(leaves))
        self._saturated = np.zeros(len(leaves), dtype=bool)
        self._paths: list[tuple[int, ...]] = []
        for slot, leaf in enumerate(leaves):
            branch = self._branch(leaf)
            branch.leaves.append(slot)
            self._paths.append(branch.path)
        self._changed = set(range(len(leaves)))

    def _column(self, amount: Amounts) -> Column:
        return np.array([amount.get(name, 0) for name in self._names], dtype=np.int64)

    def _branch(self, leaf: Leaf) -> _Branch:
        """The branch that a leaf hangs on, made where it is missing; the first comer decides on its weight."""
        branch = self._branches[0]
        for name, weight in zip(leaf.path, leaf.weights, strict=True):
            if name not in branch.children:
                branch.children[name] = _Branch(weight, (*branch.path, len(self._branches)))
                self._branches.append(branch.children[name])
            branch = branch.children[name]
        return branch

    def hold(self, key: str, request: Amounts, times: int) -> None:
        """The gang takes (or with a negative number gives back) so many times what is requested."""
        slot, amount = self._slots[key], self._column(request) * times
        self._held[:, slot] += amount
        self._sum += amount
        self._changed.add(slot)

    def compare(self, left: Sequence[str], right: Sequence[str]) -> float:
        """Negative: the branch at the left path comes first. Unsaturated ones do, then those that hold less for their weight.

        Both paths are walked from the root to the end of the shorter one (Volcano parity).
        """
        self._refresh()
        mine = theirs = self._branches[0]
        for name, other in zip(left, right, strict=False):
            mine, theirs = mine.children[name], theirs.children[other]
            if mine.saturated != theirs.saturated:
                return 1 if mine.saturated else -1
            if mine.share / mine.weight != theirs.share / theirs.weight:
                return mine.share / mine.weight - theirs.share / theirs.weight
        return 0

    def _refresh(self) -> None:
        if not self._changed:
            return
        exhausted = self._sum >= self._total
        if (exhausted != self._exhausted).any():  # then all queues that want it are concerned
            self._exhausted = exhausted
            self._changed = set(range(len(self._paths)))
        slots = sorted(self._changed)
        held, wanted = self._held[:, slots], self._wanted[:, slots]
        enough = (held >= wanted) | exhausted[:, None]
        self._shares[slots] = np.max(held / self._total[:, None], axis=0, initial=0.0)
        self._saturated[slots] = ((held > 0) & (wanted > 0) & enough).any(axis=0)
        for number in sorted({number for slot in slots for number in self._paths[slot]}, reverse=True):
            branch = self._branches[number]
            below = list(branch.children.values())
            self._sum_up(
                branch,
                np.column_stack([self._held[:, branch.leaves], *[child.held for child in below]]),
                np.array([*self._shares[branch.leaves], *[child.share for child in below]]),
                np.array([*self._saturated[branch.leaves], *[child.saturated for child in below]], dtype=bool),
            )
        self._changed.clear()

    def _sum_up(
        self, branch: _Branch, held: NDArray[np.float64], shares: NDArray[np.float64], saturated: NDArray[np.bool_]
    ) -> None:
        growing = (shares > 0) & ~saturated
        poorest = np.min(shares[growing], initial=1.0)
        scale = np.ones(len(shares))
        scale[growing] = poorest / shares[growing]
        branch.held = held @ scale
        branch.share = float(np.max(branch.held / self._total, initial=0.0))
        branch.saturated = bool(saturated.all())
