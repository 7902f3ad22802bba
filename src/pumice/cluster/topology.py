"""The tree of hyper nodes: which nodes are close to one another, level by level.

Tier 1 is closest (one leaf switch, say); a virtual root above the highest tier covers every node. A hyper node has one parent;
where the objects say otherwise the tree is not ready, and only gangs that ask for closeness wait.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import re2
from numpy.typing import NDArray

from pumice.api.topology import HyperNode, MemberType
from pumice.cluster.matching import compiled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.topology import Member
    from pumice.cluster.columns import NodeTable

ROOT = "<cluster-top-hypernode>"
PATTERN_CHARS_MAX = 1024  # of a member's regular expression; the engine is linear, its compilation need not be
Indexes = NDArray[np.intp]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HyperTree:
    """Parents, children, tiers and the node indexes below each hyper node; `fault` says why the tree cannot be used."""

    tier: Mapping[str, int]
    parent: Mapping[str, str]
    children: Mapping[str, Sequence[str]]
    nodes: Mapping[str, Indexes]
    tier_by_name: Mapping[str, int]
    fault: str

    @property
    def root_tier(self) -> int:
        return self.tier[ROOT]

    @property
    def lowest_tier(self) -> int:
        return min(self.tier.values())

    def ancestors(self, name: str) -> list[str]:
        """The hyper node itself and those above it, the root last."""
        path = [name]
        while path[-1] in self.parent:
            path.append(self.parent[path[-1]])
        return path

    def common(self, left: str, right: str) -> str:
        """The lowest hyper node that covers both; an empty side leaves the other."""
        if not left or not right:
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

    def of_tier(self, tier: int, node_count: int) -> tuple[list[str], Indexes]:
        """The hyper nodes of one tier, and for each node the position of its own among them (-1: in none)."""
        names = sorted(name for name, own in self.tier.items() if own == tier)
        where = np.full(node_count, -1, dtype=np.intp)
        for position, name in enumerate(names):
            where[self.nodes[name]] = position
        return names, where


def hyper_tree(others: Mapping[type, Mapping[str, Any]], table: NodeTable) -> HyperTree:
    """The tree of all HyperNode objects over the nodes of the table; members that do not exist are ignored."""
    objects: Mapping[str, HyperNode] = others.get(HyperNode, {})
    tier = {name: each.spec.tier for name, each in sorted(objects.items())}
    parent: dict[str, str] = {}
    own_nodes: dict[str, set[int]] = {name: set() for name in tier}
    fault = ""
    for name, each in sorted(objects.items()):
        for member in each.spec.members:
            if member.type == MemberType.NODE.value:
                own_nodes[name].update(_members(member, table))
                continue
            child = member.selector.exact_match.name if member.selector.exact_match else ""
            if child not in tier:
                continue
            if parent.setdefault(child, name) != name:
                fault = (
                    fault
                    or f"hyper node {child} has two parents, {parent[child]} and {name}: remove it from one of them"
                )
    fault = fault or _cycle(parent)
    if fault:
        return HyperTree({ROOT: 1}, {}, {}, {ROOT: np.arange(len(table))}, {}, fault)
    return _grown(tier, parent, own_nodes, objects, len(table))


def _grown(
    tier: dict[str, int],
    parent: dict[str, str],
    own_nodes: dict[str, set[int]],
    objects: Mapping[str, HyperNode],
    node_count: int,
) -> HyperTree:
    for name in tier:
        parent.setdefault(name, ROOT)
    children: dict[str, list[str]] = {}
    for child in tier:
        children.setdefault(parent[child], []).append(child)
    nodes: dict[str, Indexes] = {}

    def below(name: str) -> set[int]:
        found = set(own_nodes[name])
        for child in children.get(name, ()):
            found |= below(child)
        nodes[name] = np.array(sorted(found), dtype=np.intp)
        return found

    for top in children.get(ROOT, ()):
        below(top)
    nodes[ROOT] = np.arange(node_count)
    tiers = {**tier, ROOT: max(tier.values(), default=0) + 1}
    by_name = {each.spec.tier_name: each.spec.tier for each in objects.values() if each.spec.tier_name}
    return HyperTree(tiers, parent, children, nodes, by_name, "")


def _cycle(parent: Mapping[str, str]) -> str:
    for start in parent:
        seen = {start}
        name = start
        while name in parent:
            name = parent[name]
            if name in seen:
                return f"hyper node {start} is its own ancestor: break the ring of members"
            seen.add(name)
    return ""


def _members(member: Member, table: NodeTable) -> list[int]:
    selector = member.selector
    if selector.exact_match is not None:
        index = table.index.get(selector.exact_match.name)
        return [] if index is None else [index]
    if selector.regex_match is not None:
        pattern = _compiled(selector.regex_match.pattern)
        return [] if pattern is None else [index for index, name in enumerate(table.names) if pattern.search(name)]
    if selector.label_match is not None:
        wanted = compiled(selector.label_match)
        return [index for index, node in enumerate(table.objects) if wanted.matches(node.metadata.labels)]
    return []


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    """A linear-time pattern, or None for one that no webhook should have let through."""
    if len(pattern) > PATTERN_CHARS_MAX:
        return None
    try:
        return re2.compile(pattern)
    except re2.error:
        return None
