"""HyperNodes from the labels of nodes: nodes with one value of a tier's label are close to one another on that tier."""

from __future__ import annotations

import base64
import collections
import hashlib
import re
from typing import TYPE_CHECKING, TypeAlias

from pumice.api import names
from pumice.api.topology import MemberType
from pumice.controllers.hypernode.configuration import LABEL_SOURCE
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.core import Node
    from pumice.api.topology import HyperNode

DIGEST_CHARS = 8  # 40 bits: two of a type's thousands of values do not meet
_UNFIT = re.compile(r"[^a-z0-9]+")

Held: TypeAlias = dict[tuple[str, str], list[str]]
"""Label and value -> names of the discovered HyperNodes that carry it."""


class Group(Value):
    """A HyperNode that should exist: nodes, or groups of the tier below, that share the value of a label."""

    name: str
    tier: int
    label: str
    value: str
    members: tuple[str, ...]  # sorted names


def discover(
    types: Mapping[str, tuple[str, ...]], nodes: Iterable[Node], existing: Iterable[HyperNode]
) -> dict[str, Group]:
    """All groups of all types by name; a group that exists keeps its name, also one that we did not give."""
    held: Held = {}
    for each in sorted(existing, key=lambda each: each.metadata.name):
        for label in each.metadata.labels.items():
            held.setdefault(label, []).append(each.metadata.name)
    found: dict[str, Group] = {}
    labels_of = {node.metadata.name: node.metadata.labels for node in nodes}
    for topology, labels in types.items():
        found |= _of_type(topology, labels, labels_of, held)
    return found


def _of_type(
    topology: str,
    labels: tuple[str, ...],
    labels_of: Mapping[str, Mapping[str, str]],
    held: Held,
) -> dict[str, Group]:
    """Tier by tier from below; a node that lacks a label climbs no further."""
    found: dict[str, Group] = {}
    climbing: dict[str, str] = {node: node for node in labels_of}  # node -> its group one tier below, at first itself
    for tier, label in enumerate(labels, start=1):
        votes: dict[str, collections.Counter[str]] = {}
        for node, below in climbing.items():
            if value := labels_of[node].get(label):
                votes.setdefault(below, collections.Counter())[value] += 1
        # A group has one parent. Where its nodes disagree most of them decide, because two would spoil the whole tree.
        parent = {below: min(counted, key=lambda value: (-counted[value], value)) for below, counted in votes.items()}
        members: dict[str, list[str]] = {}
        for below, value in parent.items():
            members.setdefault(value, []).append(below)
        names_of = {value: _name(topology, tier, label, value, held) for value in members}
        for value, below_it in members.items():
            name = names_of[value]
            found[name] = Group(name, tier, label, value, tuple(sorted(below_it)))
        climbing = {
            node: names_of[parent[below]]
            for node, below in climbing.items()
            if below in parent and labels_of[node].get(label)
        }
    return found


def _name(topology: str, tier: int, label: str, value: str, held: Held) -> str:
    """Made from what the group is, so that it is met again after a crash; Volcano ends its names with chance."""
    prefix = f"hypernode-{_UNFIT.sub('-', topology.lower())}-tier{tier}-"
    for name in held.get((label, value), ()):
        if name.startswith(prefix):
            return name
    digest = hashlib.sha256("\0".join((topology, str(tier), label, value)).encode()).digest()
    return prefix + base64.b32encode(digest).decode().lower()[:DIGEST_CHARS]


def is_discovered(hyper_node: HyperNode) -> bool:
    return hyper_node.metadata.labels.get(names.NETWORK_TOPOLOGY_SOURCE) == LABEL_SOURCE


def member_type(group: Group) -> str:
    return (MemberType.NODE if group.tier == 1 else MemberType.HYPER_NODE).value
