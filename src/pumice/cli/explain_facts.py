"""What surrounds a waiting gang, reckoned from a listing: room for it, pods that leave for it, gangs ahead of it, its volumes; pure."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from pumice import instant, quantity
from pumice.api import names
from pumice.api.batch import TopologyMode
from pumice.api.topology import HyperNode
from pumice.cli import room
from pumice.cluster import amounts, requests
from pumice.cluster.topology import ROOT, hyper_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.core import Node, PersistentVolumeClaim
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup, Queue
    from pumice.cluster.columns import NodeTable

SHAPES_SHOWN_MAX = 5
_SHORT_OF = re.compile(r"Insufficient (\S+)")
FINISHED = frozenset({"Succeeded", "Failed"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was read of the cluster. `pods` and `groups` are everybody's, `members` the gang's own."""

    group: PodGroup
    members: Sequence[Pod]
    queue: Queue | None
    queues: Sequence[Queue] = ()
    groups: Sequence[PodGroup] = ()
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    claims: Sequence[PersistentVolumeClaim] | None = None  # of the group's namespace; None: not looked at
    hyper_nodes: Sequence[HyperNode] = ()  # read only for a gang that must stay close together
    answer: Mapping[str, Any] | None = None  # what the scheduler said when it was asked just now
    job: str = ""
    unseen: Sequence[str] = ()  # kinds that the user may not list: what they would tell is left out


def group_of(pod: Pod) -> str:
    """The name of the PodGroup that a pod is a member of; empty for none."""
    annotations = pod.metadata.annotations
    return annotations.get(names.GROUP_NAME) or annotations.get(names.VOLCANO_GROUP_NAME) or ""


def room_for(facts: Facts, waiting: Sequence[Pod]) -> list[dict[str, Any]]:
    """For each shape of waiting pods: how many the nodes would take, which nodes may take them, and what is short there."""
    if not facts.nodes or not waiting:
        return []
    table = room.table_of(facts.nodes, facts.pods)
    shapes: dict[tuple[Any, ...], list[Pod]] = {}
    for pod in waiting:
        spec = pod.spec
        wants = (requests.request_of(pod), repr(spec.tolerations), repr(spec.node_selector), repr(spec.affinity))
        shapes.setdefault(wants, []).append(pod)
    largest = sorted(shapes.values(), key=len, reverse=True)[:SHAPES_SHOWN_MAX]
    return [{**_shape(table, pods), **_within(facts, table, pods[0])} for pods in largest]


def must_stay_close(group: PodGroup) -> bool:
    topology = group.spec.network_topology
    return topology is not None and topology.mode == TopologyMode.HARD.value


def _within(facts: Facts, table: NodeTable, pod: Pod) -> dict[str, Any]:
    """How many such pods would fit together in the hyper node with the most room, where the gang must stay in one."""
    topology = facts.group.spec.network_topology
    if topology is None or not must_stay_close(facts.group) or not facts.hyper_nodes:
        return {}
    tree = hyper_tree({HyperNode: {each.metadata.name: each for each in facts.hyper_nodes}}, table)
    limit = topology.highest_tier_allowed
    if limit is None:
        limit = tree.tier_by_name.get(topology.highest_tier_name)
    if limit is None:
        return {}
    asked = requests.request_of(pod).amounts
    counts = room.fits(table, {name: value for name, value in asked.items() if name != amounts.PODS}, pod.spec)
    names_within = sorted(name for name, tier in tree.tier.items() if tier <= limit and name != ROOT)
    fit = {name: sum(counts[node] for node in tree.nodes[name]) for name in names_within}
    if not fit:
        return {"within": {"tier": limit, "hyperNode": "", "fit": 0}}
    best = max(fit, key=lambda name: fit[name])
    return {"within": {"tier": limit, "hyperNode": best, "fit": fit[best]}}


def _shape(table: NodeTable, pods: Sequence[Pod]) -> dict[str, Any]:
    spec = pods[0].spec
    asked = requests.request_of(pods[0]).amounts
    each = {name: value for name, value in asked.items() if name != amounts.PODS}
    open_to = [not room.barred(node, spec) for node in table.objects]
    free, short = room.free_of(table)[:, open_to], []
    for name, value in each.items():
        row = table.axis.rows.get(name)
        there = free[row] if row is not None else free[:0].sum(axis=0)
        if int((there // int(value)).sum() if value > 0 else len(pods)) < len(pods):
            most = int(there.max(initial=0))
            short.append(
                {
                    "resource": name,
                    "free": amounts.quantity_text(name, int(there.sum())),
                    "mostOnOneNode": amounts.quantity_text(name, most),
                }
            )
    return {
        "each": amounts.text(each) or "nothing",
        "waiting": len(pods),
        "fit": sum(room.fits(table, each, spec)),
        "nodes": len(table),
        "mayTake": sum(open_to),
        "short": short,
    }


def leaving(facts: Facts, waiting: Sequence[Pod], now: instant.Instant) -> list[dict[str, Any]]:
    """Pods that end on the nodes where the gang's own pods are to go: the room that it waits for."""
    found = []
    for node, count in Counter(pod.status.nominated_node_name for pod in waiting).items():
        ending = [pod for pod in facts.pods if _ends(pod) and pod.spec.node_name == node]
        if not node or not ending:
            continue
        held = amounts.summed(requests.request_of(pod).amounts for pod in ending)
        last = max(instant.parse_instant(str(pod.metadata.deletion_timestamp)) for pod in ending)
        found.append(
            {
                "node": node,
                "forPods": count,
                "pods": len(ending),
                "hold": amounts.text({name: value for name, value in held.items() if name != amounts.PODS}),
                "within": instant.human_duration(max(last - now, 0)),
            }
        )
    return found


def _ends(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and pod.status.phase not in FINISHED


def ahead(facts: Facts) -> list[dict[str, Any]]:
    """Gangs for which room is being made: nobody else gets it."""
    own = facts.group.metadata.key
    claimed: dict[tuple[str, str], list[Pod]] = {}
    for pod in facts.pods:
        node, gang = pod.status.nominated_node_name, f"{pod.metadata.namespace}/{group_of(pod)}"
        if node and not pod.spec.node_name and gang != own:
            claimed.setdefault((gang, node), []).append(pod)
    return [
        {
            "podGroup": gang,
            "node": node,
            "pods": len(pods),
            "want": amounts.text(
                {
                    name: value
                    for name, value in amounts.summed(requests.request_of(pod).amounts for pod in pods).items()
                    if name != amounts.PODS
                }
            ),
        }
        for (gang, node), pods in sorted(claimed.items())
    ]


def volumes(facts: Facts) -> list[dict[str, str]]:
    """Claims of the gang's pods that have no volume."""
    if facts.claims is None:
        return []
    wanted = {
        volume.persistent_volume_claim.claim_name
        for pod in facts.members
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
    known = {each.metadata.name: each for each in facts.claims}
    found = []
    for name in sorted(wanted):
        claim = known.get(name)
        phase = (claim.status.phase or "Pending") if claim is not None else "does not exist"
        if phase != "Bound":
            of = claim.spec.storage_class_name if claim is not None else None
            found.append({"claim": name, "phase": phase, "storageClass": of or ""})
    return found


def eviction(facts: Facts, reasons: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Who holds what is short: pods of lower priority in the same queue, and queues beyond what they deserve."""
    short = [match[1] for each in reasons if (match := _SHORT_OF.fullmatch(each["reason"]))]
    own, rank = facts.group.spec.queue, max((pod.spec.priority or 0 for pod in facts.members), default=0)
    queue_of = {group.metadata.key: group.spec.queue for group in facts.groups}
    lower = [
        pod
        for pod in facts.pods
        if pod.spec.node_name
        and pod.status.phase not in FINISHED
        and (pod.spec.priority or 0) < rank
        and queue_of.get(f"{pod.metadata.namespace}/{group_of(pod)}") == own
    ]
    found = []
    for name in dict.fromkeys(short):
        held = [value for pod in lower if (value := requests.request_of(pod).amounts.get(name, 0)) > 0]
        found.append(
            {
                "resource": name,
                "lowerPriorityPods": len(held),
                "heldByThem": amounts.quantity_text(name, sum(held)),
                "beyondDeserved": _beyond_deserved(facts, name),
            }
        )
    return found


def _beyond_deserved(facts: Facts, name: str) -> dict[str, str]:
    found = {}
    for queue in facts.queues:
        written = queue.spec.deserved.get(name)
        if written is None or queue.metadata.name == facts.group.spec.queue or queue.spec.reclaimable is False:
            continue
        held = queue.status.allocated.get(name, "0")
        if quantity.compare(held, written) > 0:
            excess = amounts.amount(name, held) - amounts.amount(name, written)
            found[queue.metadata.name] = amounts.quantity_text(name, excess)
    return found
