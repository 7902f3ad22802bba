"""All HyperNodes at once: those that labels ask for exist as they should, and every one says how many nodes it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.api.kinds import type_meta
from pumice.api.topology import HyperNode
from pumice.controllers.hypernode.configuration import LABEL_SOURCE, NO_CONFIGURATION, Configuration
from pumice.controllers.hypernode.counting import node_counts
from pumice.controllers.hypernode.discovery import discover, is_discovered, member_type
from pumice.controllers.operations import Create, Delete, Emit, Patch, Plan, target_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.core import ConfigMap, Node
    from pumice.api.meta import Json
    from pumice.controllers.hypernode.discovery import Group
    from pumice.controllers.operations import Operation


class View(Value):
    nodes: Sequence[Node]
    hyper_nodes: Sequence[HyperNode]
    configuration: Configuration = NO_CONFIGURATION
    config_map: ConfigMap | None = None  # where the configuration comes from, and which object problems are reported on


def plan(view: View) -> Plan:
    """What labels ask for is made, changed and deleted; counts follow once all of that is there."""
    stages: list[tuple[Operation, ...]] = []
    if view.configuration.types is not None:
        stages += _discovery_stages(view, view.configuration)
    if not stages:
        stages += _count_stages(view)
    if view.config_map is not None and view.configuration.problems:
        about = view.config_map
        stages.append(
            tuple(Emit(about, "Warning", "DiscoveryProblem", problem) for problem in view.configuration.problems)
        )
    return Plan(tuple(stages))


def _discovery_stages(view: View, configuration: Configuration) -> list[tuple[Operation, ...]]:
    assert configuration.types is not None
    ours = {each.metadata.name: each for each in view.hyper_nodes if is_discovered(each)}
    wanted = discover(configuration.types, view.nodes, ours.values())
    creates: list[Operation] = []
    patches: list[Operation] = []
    for name, group in wanted.items():
        present = ours.get(name)
        if present is None:
            creates.append(_create(group))
        elif (patch := _patch(present, group)) is not None:
            patches.append(patch)
    deletes: list[Operation] = [
        Delete(**target_of(each))
        for name, each in ours.items()
        if name not in wanted and each.metadata.deletion_timestamp is None and not configuration.problems
    ]
    return [tuple(stage) for stage in (creates, patches, deletes) if stage]


def _spec(group: Group) -> Json:
    kind = member_type(group)
    members = [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in group.members]
    return {"tier": group.tier, "tierName": group.label, "members": members}


def _create(group: Group) -> Create:
    labels = {names.NETWORK_TOPOLOGY_SOURCE: LABEL_SOURCE, group.label: group.value}
    body: Json = {
        **type_meta(HyperNode),
        "metadata": {"name": group.name, "labels": labels},
        "spec": _spec(group),
    }
    return Create(kind=HyperNode, body=body)


def _patch(present: HyperNode, group: Group) -> Patch | None:
    spec, kind = present.spec, member_type(group)
    members = [
        member.selector.exact_match.name
        for member in spec.members
        if member.type == kind and member.selector.exact_match is not None
    ]
    same = sorted(members) == list(group.members) and len(spec.members) == len(members)
    if same and (spec.tier, spec.tier_name) == (group.tier, group.label):
        return None
    return Patch(**target_of(present), body={"spec": _spec(group)})


def _count_stages(view: View) -> list[tuple[Operation, ...]]:
    if not view.hyper_nodes:
        return []
    counts = node_counts(view.hyper_nodes, view.nodes)
    patches: list[Operation] = [
        Patch(
            **target_of(each),
            body={"status": {"nodeCount": counts[each.metadata.name]}},
            subresource="status",
            hurry=False,
        )
        for each in view.hyper_nodes
        if each.status.node_count != counts[each.metadata.name] and each.metadata.deletion_timestamp is None
    ]
    return [tuple(patches)] if patches else []
