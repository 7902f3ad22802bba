"""How many nodes a HyperNode holds: its own and those of the HyperNodes below it, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.topology import MemberType
from pumice.cluster.membership import Membership
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.core import Node
    from pumice.api.topology import HyperNode


class _Nodes(Value):
    names: Sequence[str]
    index: Mapping[str, int]
    objects: Sequence[Node]


def node_counts(hyper_nodes: Sequence[HyperNode], nodes: Sequence[Node]) -> dict[str, int]:
    """HyperNode -> number of nodes that exist and that it holds. In a ring of members each counts what all of it holds."""
    names = [node.metadata.name for node in nodes]
    table = _Nodes(names, {name: number for number, name in enumerate(names)}, nodes)
    every = [member for each in hyper_nodes for member in each.spec.members if member.type == MemberType.NODE]
    membership = Membership(table, every)
    own: dict[str, set[int]] = {}
    below: dict[str, list[str]] = {}
    for each in hyper_nodes:
        name, members = each.metadata.name, each.spec.members
        found = (membership.nodes(member) for member in members if member.type == MemberType.NODE)
        own[name] = {index for indexes in found for index in indexes}
        below[name] = [
            member.selector.exact_match.name
            for member in members
            if member.type == MemberType.HYPER_NODE and member.selector.exact_match is not None
        ]
    return {name: len(_nodes_below(name, own, below)) for name in own}


def _nodes_below(start: str, own: Mapping[str, set[int]], below: Mapping[str, list[str]]) -> set[int]:
    held: set[int] = set()
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in own and name not in seen:
            seen.add(name)
            held |= own[name]
            waiting += below[name]
    return held
