"""Hierarchical dominant resource fairness: a tree of queues, with gangs as its leaves, and how much each branch really holds.

A branch that lacks nothing, or cannot get more because the cluster has run out of what it wants, is saturated and steps back. A
branch's own share is not the plain sum of its children: an unsaturated child counts only as much as the poorest of them, so that a
child with a large share does not make its whole branch wait for its sibling's sake.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Column

WEIGHT_LEAST = 1.0
ROOT_WEIGHT = 1.0


def path_of(hierarchy: str) -> tuple[str, ...]:
    """`root/science/dev` below the root: `("science", "dev")`; a queue that says nothing hangs at the root itself."""
    return tuple(hierarchy.split("/")[1:])


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


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A gang: where it hangs, what it holds and what all of its members ask for together."""

    key: str
    path: tuple[str, ...]
    weights: tuple[float, ...]
    held: Amounts
    wanted: Amounts


@dataclasses.dataclass(slots=True, eq=False)
class _Branch:
    weight: float
    children: dict[str, _Branch] = dataclasses.field(default_factory=dict)
    leaves: list[int] = dataclasses.field(default_factory=list)
    held: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros(0))
    share: float = 0.0
    saturated: bool = False


class ShareTree:
    """Compares branches by what they hold now. Only integers are changed; shares are worked out anew when they are asked for."""

    def __init__(self, total: Amounts, leaves: Sequence[Leaf]) -> None:
        self._names = sorted(amounts.names(total))
        self._total = self._column(total).astype(np.float64)
        self._root = _Branch(ROOT_WEIGHT)
        self._branches = [self._root]  # parents before their children
        self._slots = {leaf.key: slot for slot, leaf in enumerate(leaves)}
        none = np.zeros((len(self._names), 0), dtype=np.int64)
        self._held = np.column_stack([none, *[self._column(leaf.held) for leaf in leaves]])
        self._wanted = np.column_stack([none, *[self._column(leaf.wanted) for leaf in leaves]])
        for slot, leaf in enumerate(leaves):
            self._branch(leaf).leaves.append(slot)
        self._is_current = False

    def _column(self, amount: Amounts) -> Column:
        return np.array([amount.get(name, 0) for name in self._names], dtype=np.int64)

    def _branch(self, leaf: Leaf) -> _Branch:
        """The branch that a leaf hangs on, made where it is missing; the first comer decides on its weight."""
        branch = self._root
        for name, weight in zip(leaf.path, leaf.weights, strict=True):
            if name not in branch.children:
                branch.children[name] = _Branch(weight)
                self._branches.append(branch.children[name])
            branch = branch.children[name]
        return branch

    def hold(self, key: str, request: Amounts, times: int) -> None:
        """The gang takes (or with a negative number gives back) so many times what is requested."""
        self._held[:, self._slots[key]] += self._column(request) * times
        self._is_current = False

    def compare(self, left: Sequence[str], right: Sequence[str]) -> float:
        """Negative: the branch at the left path comes first. Unsaturated ones do, then those that hold less for their weight.

        Both paths are walked from the root to the end of the shorter one (Volcano parity).
        """
        self._refresh()
        mine = theirs = self._root
        for name, other in zip(left, right, strict=False):
            mine, theirs = mine.children[name], theirs.children[other]
            if mine.saturated != theirs.saturated:
                return 1 if mine.saturated else -1
            if mine.share / mine.weight != theirs.share / theirs.weight:
                return mine.share / mine.weight - theirs.share / theirs.weight
        return 0

    def _refresh(self) -> None:
        if self._is_current:
            return
        held, wanted = self._held, self._wanted
        exhausted = held.sum(axis=1) >= self._total
        shares = np.max(held / self._total[:, None], axis=0, initial=0.0)
        saturated = ((held > 0) & (wanted > 0) & ((held >= wanted) | exhausted[:, None])).any(axis=0)
        for branch in reversed(self._branches):
            below = list(branch.children.values())
            self._sum_up(
                branch,
                np.column_stack([held[:, branch.leaves], *[child.held for child in below]]),
                np.array([*shares[branch.leaves], *[child.share for child in below]]),
                np.array([*saturated[branch.leaves], *[child.saturated for child in below]], dtype=bool),
            )
        self._is_current = True

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
