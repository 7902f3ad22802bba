"""How much room nodes have, reckoned from a listing of nodes and pods: pure, for `pumice nodes` and `pumice explain`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from pumice.api import changes
from pumice.cluster import amounts
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.core import Node
    from pumice.api.pods import Pod
    from pumice.cluster.columns import NodeTable

GPU = "nvidia.com/gpu"


def table_of(nodes: Iterable[Node], pods: Iterable[Pod]) -> NodeTable:
    """The nodes with what their pods hold, in the scheduler's own reckoning."""
    cluster = Cluster()
    intake = Intake(cluster)
    for each in (*nodes, *pods):
        intake.apply(changes.Upserted(object=each))
    return cluster.snapshot().nodes


def state_of(node: Node) -> str:
    """As kubectl prints it."""
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "Unknown")
    word = {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")
    return f"{word},SchedulingDisabled" if node.spec.unschedulable else word


def fits(table: NodeTable, each: Mapping[str, float]) -> list[int]:
    """For each node, how many pods that ask for `each` still fit by resources alone; none on nodes that take no pods."""
    if not len(table):
        return []
    free = np.maximum(table.allocatable - table.used, 0)
    counts = np.full(len(table), np.iinfo(np.int64).max)
    for name, asked in {amounts.PODS: amounts.MILLI, **each}.items():
        if asked > 0:
            row = table.axis.rows.get(name)
            counts = np.minimum(counts, free[row] // int(asked)) if row is not None else np.zeros_like(counts)
    usable = np.array([state_of(node) == "Ready" for node in table.objects])
    return [int(count) for count in np.where(usable, counts, 0)]


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


@dataclasses.dataclass(frozen=True, slots=True)
class Rooms:
    """All nodes' cards, and for workers of so many cards each, how many fit at once."""

    resource: str
    nodes: tuple[NodeRoom, ...]
    gangs: Mapping[int, int]

    def data(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "nodes": [dataclasses.asdict(each) for each in self.nodes],
            "largestGangs": [{"cardsEach": cards, "workers": count} for cards, count in self.gangs.items()],
        }


def rooms(table: NodeTable, resource: str = "") -> Rooms:
    """Cards of one resource on every node; without a name, of the GPU that there is most of."""
    resource = resource or _commonest_gpu(table)
    row = table.axis.rows.get(resource)
    found = []
    for index, node in enumerate(table.objects):
        cards = int(table.allocatable[row, index]) // amounts.MILLI if row is not None else 0
        used = -(-int(table.used[row, index]) // amounts.MILLI) if row is not None else 0
        state = state_of(node)
        free = max(cards - used, 0) if state == "Ready" else 0
        tasks = len(table.tasks[index])
        found.append(NodeRoom(table.names[index], state, cards, used, free, free if used else 0, tasks))
    most = max((each.cards for each in found), default=0)
    sizes = [2**power for power in range(most.bit_length()) if 2**power <= most]
    gangs = {size: sum(fits(table, {resource: size * amounts.MILLI})) for size in sorted({*sizes, most} - {0})}
    return Rooms(resource, tuple(found), gangs)


def _commonest_gpu(table: NodeTable) -> str:
    total = {name: value for name, value in table.total().items() if name.endswith("/gpu")}
    return max(total, key=lambda name: (total[name], name), default=GPU)
