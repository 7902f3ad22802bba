"""The tree of hyper nodes: which nodes are close to one another, level by level.

Tier 1 is closest (one leaf switch, say); a virtual root above the highest tier covers every node. A hyper node has one parent;
where the objects say otherwise the tree is not ready, and only gangs that ask for closeness wait.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pumice.api.topology import HyperNode, MemberType
from pumice.cluster.membership import Membership

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.cluster.columns import Column, Mask, NodeTable

ROOT = "<cluster-top-hypernode>"
Indexes = NDArray[np.intp]


class HyperTree:
    """Immutable once made. `fault` says why the tree cannot be used; then it consists of the root alone."""

    def __init__(
        self,
        tier: Mapping[str, int],
        parent: Mapping[str, str],
        own_nodes: Mapping[str, Iterable[int]],
        *,
        node_count: int,
        tier_by_name: Mapping[str, int],
        fault: str = "",
    ) -> None:
        self.node_count = node_count
        self.fault = fault
        self.tier_by_name = tier_by_name
        self.tier: dict[str, int] = {**tier, ROOT: max(tier.values(), default=0) + 1}
        self.parent = {name: parent.get(name, ROOT) for name in tier}
        self.children: dict[str, list[str]] = {}
        for child in sorted(tier):
            self.children.setdefault(self.parent[child], []).append(child)
        self.names: tuple[str, ...] = tuple(self.breadth_first(ROOT))
        self.position = {name: position for position, name in enumerate(self.names)}
        self.nodes = self._nodes_below(own_nodes)
        self.above = self._hyper_nodes_above()
        self.tiers = sorted(set(self.tier.values()))  # a user's numbers: those in between need not exist
        self.lowest_tier = self.tiers[0]
        self.leaves, self.leaf_of = self.of_tier(self.lowest_tier)

    def _nodes_below(self, own_nodes: Mapping[str, Iterable[int]]) -> dict[str, Indexes]:
        """Each hyper node's own nodes and all those of its children, lowest first; the root has every node."""
        found: dict[str, Indexes] = {}
        for name in reversed(self.names[1:]):
            parts = [np.fromiter(own_nodes.get(name, ()), dtype=np.intp)]
            parts += [found[child] for child in self.children.get(name, ())]
            found[name] = np.unique(np.concatenate(parts))
        found[ROOT] = np.arange(self.node_count)
        return found

    def _hyper_nodes_above(self) -> list[Indexes]:
        """For each node the positions of all hyper nodes that hold it."""
        sizes = [len(self.nodes[name]) for name in self.names]
        holders = np.repeat(np.arange(len(self.names)), sizes)
        held = np.concatenate([self.nodes[name] for name in self.names])
        order = np.argsort(held, kind="stable")
        ends = np.cumsum(np.bincount(held, minlength=self.node_count))
        return np.split(holders[order], ends[:-1]) if self.node_count else []

    # ------------------------------------------------------------------------------------------------- relations

    @property
    def root_tier(self) -> int:
        return self.tier[ROOT]

    @property
    def is_flat(self) -> bool:
        """True where there are no hyper nodes, and every node is as close as any other."""
        return len(self.names) == 1

    def ancestors(self, name: str) -> list[str]:
        """The hyper node itself and those above it, the root last."""
        path = [name]
        while path[-1] != ROOT:
            path.append(self.parent[path[-1]])
        return path

    def common(self, left: str, right: str) -> str:
        """The lowest hyper node that covers both; an empty side leaves the other."""
        if not left or not right or left == right:
            return left or right
        above = set(self.ancestors(left))
        return next(name for name in self.ancestors(right) if name in above)

    def covers(self, upper: str, lower: str) -> bool:
        return upper in self.ancestors(lower)

    def breadth_first(self, start: str) -> list[str]:
        found = [start]
        for name in found:
            found.extend(self.children.get(name, ()))
        return found

    # ------------------------------------------------------------------------------------------------- nodes

    def of_tier(self, tier: int) -> tuple[tuple[str, ...], Indexes]:
        """The hyper nodes of one tier, and for each node the number of the first of them that holds it (-1: none)."""
        names = tuple(sorted(name for name, own in self.tier.items() if own == tier))
        where = np.full(self.node_count, -1, dtype=np.intp)
        for number in range(len(names) - 1, -1, -1):
            where[self.nodes[names[number]]] = number
        return names, where

    @cached_property
    def holders(self) -> Indexes:
        """Per tier, from the lowest to the root's, the position of the hyper node that holds each node; one past the last: none."""
        rows = []
        for tier in self.tiers:
            names, where = self.of_tier(tier)
            positions = np.array([*(self.position[name] for name in names), len(self.names)], dtype=np.intp)
            rows.append(positions[where])
        return np.stack(rows)

    @cached_property
    def chains(self) -> Indexes:
        """Nodes with equal numbers are held by the same hyper nodes on every tier."""
        numbers: dict[bytes, int] = {}
        keys = [column.tobytes() for column in np.ascontiguousarray(self.holders.T)]
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)

    @cached_property
    def leaves_below(self) -> dict[str, Indexes]:
        """The hyper nodes of the lowest tier under each hyper node, itself included, by their number in `leaves`."""
        found: dict[str, list[int]] = {name: [] for name in self.names}
        for number, leaf in enumerate(self.leaves):
            for name in self.ancestors(leaf):
                found[name].append(number)
        return {name: np.array(numbers, dtype=np.intp) for name, numbers in found.items()}

    def home(self, node: int) -> str:
        """The lowest hyper node that holds the node; the root where no other does."""
        holding = [self.names[int(each)] for each in self.above[node]]
        return min(holding, key=lambda name: (self.tier[name], name))

    def lowest_holding(self, nodes: Iterable[int]) -> str:
        """The lowest hyper node that holds all of the nodes; empty for no nodes."""
        found = ""
        for name in sorted({self.home(node) for node in set(nodes)}):
            found = self.common(found, name)
        return found

    def mask(self, name: str) -> Mask:
        mask = np.zeros(self.node_count, dtype=bool)
        mask[self.nodes[name]] = True
        return mask

    def sums(self, columns: Column) -> Column:
        """Columns over nodes, shape (rows, nodes), summed up per hyper node in the order of `names`: (rows, hyper nodes)."""
        members, starts, filled = self._slices
        total: Column = np.zeros((columns.shape[0], len(self.names)), dtype=columns.dtype)
        if len(filled):
            total[:, filled] = np.add.reduceat(columns[:, members], starts, axis=1)
        return total

    @cached_property
    def _slices(self) -> tuple[Indexes, Indexes, Indexes]:
        """The nodes of all hyper nodes in a row, where each begins, and which have any: numpy has no sum for an empty slice."""
        sizes = np.array([len(self.nodes[name]) for name in self.names])
        starts = np.cumsum(sizes) - sizes
        filled = np.flatnonzero(sizes)
        return np.concatenate([self.nodes[name] for name in self.names]), starts[filled], filled


def hyper_tree(others: Mapping[type, Mapping[str, Any]], table: NodeTable) -> HyperTree:
    """The tree of all HyperNode objects over the nodes of the table; members that do not exist are ignored."""
    objects: dict[str, HyperNode] = dict(sorted(others.get(HyperNode, {}).items()))
    tier = {name: each.spec.tier for name, each in objects.items()}
    parent: dict[str, str] = {}
    fault = ""
    for name, each in objects.items():
        for child in _child_names(each):
            if child in tier and parent.setdefault(child, name) != name:
                other = parent[child]
                fault = fault or f"hyper node {child} has two parents, {other} and {name}: remove it from one of them"
    fault = fault or _cycle(parent)
    if fault:
        return HyperTree({}, {}, {}, node_count=len(table), tier_by_name={}, fault=fault)
    tier_by_name = {each.spec.tier_name: each.spec.tier for each in objects.values() if each.spec.tier_name}
    own_nodes = _own_nodes(objects, table)
    return HyperTree(tier, parent, own_nodes, node_count=len(table), tier_by_name=tier_by_name)


def _child_names(hyper_node: HyperNode) -> list[str]:
    return [
        member.selector.exact_match.name
        for member in hyper_node.spec.members
        if member.type == MemberType.HYPER_NODE.value and member.selector.exact_match is not None
    ]


def _own_nodes(objects: Mapping[str, HyperNode], table: NodeTable) -> dict[str, set[int]]:
    wanted = {
        name: [member for member in each.spec.members if member.type == MemberType.NODE.value]
        for name, each in objects.items()
    }
    membership = Membership(table, [member for members in wanted.values() for member in members])
    return {
        name: {index for member in members for index in membership.nodes(member)} for name, members in wanted.items()
    }


def _cycle(parent: Mapping[str, str]) -> str:
    """Says which hyper node is its own ancestor; each is looked at once."""
    sound: set[str] = set()
    for start in parent:
        path: list[str] = []
        on_path: set[str] = set()
        name = start
        while name in parent and name not in sound:
            if name in on_path:
                return f"hyper node {name} is its own ancestor: break the ring of members"
            path.append(name)
            on_path.add(name)
            name = parent[name]
        sound.update(path)
    return ""
