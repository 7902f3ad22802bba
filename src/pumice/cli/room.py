"""How much room nodes have, reckoned from a listing of nodes and pods: pure, for `pumice nodes` and `pumice explain`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from pumice.api import changes
from pumice.api.core import Taint
from pumice.api.pods import PodSpec
from pumice.cluster import amounts
from pumice.cluster.intake import Intake
from pumice.cluster.matching import compiled_terms
from pumice.cluster.state import Cluster
from pumice.scheduling.placing.constraints.taints import NO_EXECUTE, NO_SCHEDULE, tolerates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from pumice.api.core import Node
    from pumice.api.pods import Pod
    from pumice.cluster.columns import NodeTable

    Amounts2D = NDArray[np.int64]

GPU = "nvidia.com/gpu"
ANY_POD = PodSpec()  # asks for no labels and tolerates nothing
_REPELLING = frozenset({NO_SCHEDULE, NO_EXECUTE})
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def table_of(nodes: Iterable[Node], pods: Iterable[Pod]) -> NodeTable:
    """The nodes with what their pods hold, in the scheduler's own reckoning."""
    cluster = Cluster()
    intake = Intake(cluster)
    for each in (*nodes, *pods):
        intake.apply(changes.Upserted(object=each))
    return cluster.snapshot().nodes


def state_of(node: Node) -> str:
    """As kubectl prints it, and whether a taint keeps pods away."""
    words = [_readiness(node)]
    if node.spec.unschedulable:
        words.append("SchedulingDisabled")
    if any(taint.effect in _REPELLING for taint in node.spec.taints):
        words.append("Tainted")
    return ",".join(words)


def _readiness(node: Node) -> str:
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "Unknown")
    return {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")


def barred(node: Node, spec: PodSpec = ANY_POD) -> str:
    """What keeps such a pod off the node, however empty it is; empty where nothing does."""
    if _readiness(node) != "Ready":
        return "not ready"
    if node.spec.unschedulable and not any(tolerates(each, _CORDON) for each in spec.tolerations):
        return "cordoned"
    for taint in node.spec.taints:
        if taint.effect in _REPELLING and not any(tolerates(each, taint) for each in spec.tolerations):
            return f"taint {taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
    return "" if _selects(spec, node) else "other labels than the pods want"


def _selects(spec: PodSpec, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    return compiled_terms(affinity.required).matches(labels, node_name=node.metadata.name)


def fits(table: NodeTable, each: Mapping[str, float], spec: PodSpec = ANY_POD) -> list[int]:
    """For each node, how many pods that ask for `each` it still takes; none where something keeps such pods away."""
    if not len(table):
        return []
    free = free_of(table)
    counts = np.full(len(table), np.iinfo(np.int64).max)
    for name, asked in {amounts.PODS: amounts.MILLI, **each}.items():
        if asked > 0:
            row = table.axis.rows.get(name)
            counts = np.minimum(counts, free[row] // int(asked)) if row is not None else np.zeros_like(counts)
    usable = np.array([not barred(node, spec) for node in table.objects])
    return [int(count) for count in np.where(usable, counts, 0)]


def free_of(table: NodeTable) -> Amounts2D:
    """What is free of each resource (row) on each node (column)."""
    free: Amounts2D = np.maximum(table.allocatable - table.used, 0)
    return free


@dataclasses.dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node's cards. Fragmented are those that are free beside taken ones: a worker that wants them all fits nowhere."""

    name: str
    state: str
    cards: int
    used: int
    free: int
    fragmented: int
    pods: int
    barred: str  # what keeps pods away that tolerate nothing; empty where nothing does


@dataclasses.dataclass(frozen=True, slots=True)
class Rooms:
    """All nodes' cards, and for workers of so many cards each, how many fit at once on nodes that nothing bars."""

    resource: str
    nodes: tuple[NodeRoom, ...]
    gangs: Mapping[int, int]

    @property
    def left_out(self) -> Counter[str]:
        """How many nodes do not count for gangs, by what keeps pods away."""
        return Counter(each.barred for each in self.nodes if each.barred)

    def data(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "nodes": [dataclasses.asdict(each) for each in self.nodes],
            "largestGangs": [{"cardsEach": cards, "workers": count} for cards, count in self.gangs.items()],
            "leftOut": [{"nodes": count, "because": why} for why, count in self.left_out.items()],
        }


def rooms(table: NodeTable, resource: str = "") -> Rooms:
    """Cards of one resource on every node; without a name, of the GPU that there is most of."""
    resource = resource or _commonest_gpu(table)
    row = table.axis.rows.get(resource)
    found = []
    for index, node in enumerate(table.objects):
        cards = int(table.allocatable[row, index]) // amounts.MILLI if row is not None else 0
        used = -(-int(table.used[row, index]) // amounts.MILLI) if row is not None else 0
        bar = barred(node)
        # A taint leaves its cards free for those who tolerate it; a node that takes nobody has none free.
        free = max(cards - used, 0) if not bar or bar.startswith("taint") else 0
        tasks, name = len(table.tasks[index]), table.names[index]
        found.append(NodeRoom(name, state_of(node), cards, used, free, free if used else 0, tasks, bar))
    most = max((each.cards for each in found), default=0)
    sizes = [2**power for power in range(most.bit_length()) if 2**power <= most]
    gangs = {size: sum(fits(table, {resource: size * amounts.MILLI})) for size in sorted({*sizes, most} - {0})}
    return Rooms(resource, tuple(found), gangs)


def _commonest_gpu(table: NodeTable) -> str:
    total = {name: value for name, value in table.total().items() if name.endswith("/gpu")}
    return max(total, key=lambda name: (total[name], name), default=GPU)
