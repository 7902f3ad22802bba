"""predicates: the nodes on which Kubernetes lets a pod run: labels, taints, ports, neighbours, volumes, claimed devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from pumice.cluster.amounts import MILLI
from pumice.cluster.columns import PODS_ROW
from pumice.cluster.matching import compiled_terms
from pumice.scheduling import arguments
from pumice.scheduling.constraints.labels import NodeLabels
from pumice.scheduling.constraints.taints import NodeTaints
from pumice.scheduling.shapes import Reads
from pumice.scheduling.verdict import Cure, Denial
from pumice.selectors import equality_of

if TYPE_CHECKING:
    from pumice.cluster.columns import Column, Mask
    from pumice.scheduling.policy import PluginOption
    from pumice.scheduling.session import Session
    from pumice.scheduling.shapes import Shape

NAME = "predicates"


def _switch(name: str) -> Any:
    return msgspec.field(name=f"predicate.{name}Enable", default=True)


class Args(arguments.Args, frozen=True, kw_only=True):
    """One switch for each of Kubernetes' filters; a cordoned node is never used."""

    # Equal pods are filtered once anyway; how long binding may wait is the binder's business.
    IGNORED: ClassVar[frozenset[str]] = frozenset(
        {"predicate.CacheEnable", "volumebinding.bindTimeoutSeconds", "dynamicresources.filterTimeoutSeconds"}
    )

    node_affinity: Annotated[bool, msgspec.Meta(description="nodeSelector and node affinity")] = _switch("NodeAffinity")
    taints: Annotated[bool, msgspec.Meta(description="taints and tolerations")] = _switch("TaintToleration")
    ports: Annotated[bool, msgspec.Meta(description="host ports")] = _switch("NodePorts")
    pod_affinity: Annotated[bool, msgspec.Meta(description="affinity between pods, and against")] = _switch(
        "PodAffinity"
    )
    spread: Annotated[bool, msgspec.Meta(description="topology spread constraints")] = _switch("PodTopologySpread")
    volume_limits: Annotated[bool, msgspec.Meta(description="attachable volumes per node")] = _switch(
        "NodeVolumeLimits"
    )
    volume_zone: Annotated[bool, msgspec.Meta(description="zones of bound volumes")] = _switch("VolumeZone")
    volume_binding: Annotated[bool, msgspec.Meta(description="volumes to bind or to provision")] = _switch(
        "VolumeBinding"
    )
    claims: Annotated[bool, msgspec.Meta(description="devices of resource claims")] = _switch(
        "DynamicResourceAllocation"
    )
    volume_weight: Annotated[int, msgspec.Meta(description="weight of the score of volume binding")] = msgspec.field(
        name="volumebinding.weight", default=1
    )
    volume_shape: Annotated[
        list[dict[str, int]] | None,
        msgspec.Meta(description="points {utilization, score} of the score of volume binding"),
    ] = msgspec.field(name="volumebinding.shape", default=None)


class Predicates:
    """Kubernetes' filters, each once per shape; what depends on other pods follows every placement."""

    args_type = Args

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.args = args

    def open(self, session: Session) -> None:
        self.room = session.room
        self.labels = session.shared(NodeLabels)
        self.taints = session.shared(NodeTaints)
        on = session.on
        reads = Reads.TOLERATIONS
        on.limit(self.slots, reason="node(s) pod number exceeded", cure=Cure.EVICTION)
        on.filter(self.cordoned)
        if self.args.node_affinity:
            reads |= Reads.NODE_AFFINITY
            on.filter(self.unselected)
        if self.args.taints:
            on.filter(self.tainted)
        on.declare(reads)

    def slots(self, shape: Shape) -> Column:
        """Pods that the node still takes; evicted ones no longer count, promised ones do."""
        del shape
        free: Column = (self.room.table.allocatable[PODS_ROW] - self.room.viewed[PODS_ROW]) // MILLI
        return free

    def cordoned(self, shape: Shape) -> list[Denial]:
        closed = self.taints.closed(shape.example.pod.spec.tolerations)
        return [Denial(NAME, "node(s) were unschedulable", closed)]

    def unselected(self, shape: Shape) -> list[Denial]:
        selected = node_affinity(self.labels, shape)
        if selected is None:
            return []
        return [Denial(NAME, "node(s) didn't match Pod's node affinity/selector", ~selected)]

    def tainted(self, shape: Shape) -> list[Denial]:
        repelling = self.taints.repelling(shape.example.pod.spec.tolerations)
        return [Denial(NAME, "node(s) had untolerated taint(s)", repelling)]


def node_affinity(labels: NodeLabels, shape: Shape) -> Mask | None:
    """The nodes that the pod's nodeSelector and required node affinity allow; None where it has neither."""
    spec = shape.example.pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    selected = labels.matching(equality_of(spec.node_selector)) if spec.node_selector else None
    if required is None:
        return selected
    terms = labels.selected(compiled_terms(required))
    return terms if selected is None else selected & terms
