"""Cards on nodes, and the largest gang that would start: the scheduler's engine is asked about pods that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pumice.api import changes
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Container, Pod, PodSpec, ResourceRequirements
from pumice.cluster import amounts
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.cluster.tasks import task_of
from pumice.scheduling.core import builtin, cycle, idle
from pumice.scheduling.core.verdict import count_reasons
from pumice.scheduling.placing import feasibility
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.core import Node
    from pumice.cluster.columns import NodeTable
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Stranded
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

GPU = "nvidia.com/gpu"
NO_PRICES: Mapping[str, float] = {}
_REPELLING = frozenset({"NoSchedule", "NoExecute"})


def session_of(nodes: Iterable[Node], pods: Iterable[Pod], now: Instant) -> Session:
    """The engine with the built-in policy over these nodes and pods; nothing is planned."""
    cluster = Cluster()
    intake = Intake(cluster)
    for each in (*nodes, *pods):
        intake.apply(changes.Upserted(object=each))
    return cycle.open_session(cluster.snapshot(), builtin.parse(builtin.TEXT, "built-in policy"), now=now)


def _shape(session: Session, each: Mapping[str, float]) -> Shape:
    """A pod that asks for so much, wants no labels and tolerates nothing."""
    requests = {name: amounts.quantity_text(name, value) for name, value in each.items()}
    container = Container(name="worker", resources=ResourceRequirements(requests=requests))
    pod = Pod(
        metadata=ObjectMeta(name="worker", uid=repr(sorted(requests.items()))), spec=PodSpec(containers=(container,))
    )
    return session.shape(task_of(pod, gang=""))


def workers(session: Session, each: Mapping[str, float]) -> int:
    """How many pods that ask for `each` would fit now."""
    if any(name not in session.room.table.axis.rows for name, value in each.items() if value > 0):
        return 0
    return int(feasibility.fits_now(session, _shape(session, each))[1].sum())


def state_of(node: Node) -> str:
    """As kubectl prints it, and whether a taint keeps pods away."""
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "Unknown")
    words = [{"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")]
    if node.spec.unschedulable:
        words.append("SchedulingDisabled")
    if any(taint.effect in _REPELLING for taint in node.spec.taints):
        words.append("Tainted")
    return ",".join(words)


class NodeRoom(Value):
    """One node's cards. Fragmented are those that are free beside taken ones: a worker that wants them all fits nowhere."""

    name: str
    state: str
    cards: int
    used: int
    free: int
    fragmented: int
    pods: int


class Rooms(Value):
    """All nodes' cards, for workers of so many cards each how many fit at once, and why nodes are left out of that."""

    resource: str
    nodes: tuple[NodeRoom, ...]
    gangs: Mapping[int, int]
    left_out: Mapping[str, int]
    stranded: tuple[Stranded, ...]
    dollars: float | None = None  # of one card for an hour

    def data(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "nodes": [msgspec.structs.asdict(each) for each in self.nodes],
            "largestGangs": [{"cardsEach": cards, "workers": count} for cards, count in self.gangs.items()],
            "leftOut": [{"nodes": count, "because": why} for why, count in self.left_out.items()],
            "stranded": [
                {"cardsEach": each.each, "free": each.free, "usable": each.usable, **self._cost(each)}
                for each in self.stranded
            ],
        }

    def _cost(self, each: Stranded) -> dict[str, float]:
        return {} if self.dollars is None else {"dollarsPerHour": round(each.unusable * self.dollars, 2)}


def rooms(session: Session, resource: str = "", prices: Mapping[str, float] = NO_PRICES) -> Rooms:
    """Cards of one resource on every node; without a name, of the GPU that there is most of."""
    table = session.room.table
    resource = resource or _commonest_gpu(table)
    row = table.axis.rows.get(resource)
    found = []
    for index, node in enumerate(table.objects):
        cards = int(table.allocatable[row, index]) // amounts.MILLI if row is not None else 0
        used = -(-int(table.used[row, index]) // amounts.MILLI) if row is not None else 0
        state = state_of(node)
        # A taint leaves its cards free for those who tolerate it; a node that takes no pods has none free.
        free = max(cards - used, 0) if state in {"Ready", "Ready,Tainted"} else 0
        found.append(
            NodeRoom(table.names[index], state, cards, used, free, free if used else 0, len(table.tasks[index]))
        )
    most = max((each.cards for each in found), default=0)
    sizes = [2**power for power in range(most.bit_length()) if 2**power <= most]
    gangs = {size: workers(session, {resource: size * amounts.MILLI}) for size in sorted({*sizes, most} - {0})}
    lost = tuple(each for each in idle.stranded(session) if each.resource == resource)
    return Rooms(resource, tuple(found), gangs, _refusing_nodes(session), lost, prices.get(resource))


def _refusing_nodes(session: Session) -> dict[str, int]:
    """How many nodes refuse even the smallest pod, by the reason that the engine gives."""
    shape = _shape(session, {})
    session.placer.allowed(shape)
    everywhere = np.ones(len(session.room.table), dtype=bool)
    return {reason.text: reason.nodes for reason in count_reasons(shape.denials or (), everywhere)}


def _commonest_gpu(table: NodeTable) -> str:
    total = {name: value for name, value in table.total().items() if name.endswith("/gpu")}
    return max(total, key=lambda name: (total[name], name), default=GPU)
