"""predicates: the nodes on which Kubernetes lets a pod run: labels, taints, ports, neighbours, volumes, claimed devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from pumice.api import core, resource, storage
from pumice.cluster.amounts import MILLI
from pumice.cluster.columns import PODS_ROW
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.plugin import Plugin, Watch
from pumice.scheduling.core.shapes import Reads, together
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.placing.constraints.affinity import PodAffinity
from pumice.scheduling.placing.constraints.attachments import Attachments
from pumice.scheduling.placing.constraints.claims import PodClaims
from pumice.scheduling.placing.constraints.host_ports import HostPorts
from pumice.scheduling.placing.constraints.labels import NodeLabels
from pumice.scheduling.placing.constraints.spread import PodSpread
from pumice.scheduling.placing.constraints.taints import NodeTaints
from pumice.scheduling.placing.constraints.volumes import PodVolumes

if TYPE_CHECKING:
    from pumice.cluster.columns import Column
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

NAME = "predicates"


def _switch(name: str) -> Any:
    return msgspec.field(name=f"predicate.{name}Enable", default=True)


class Args(arguments.Args, frozen=True, kw_only=True):
    """One switch for each of Kubernetes' filters; a cordoned node is never used."""

    # Equal pods are filtered once anyway; how long binding may wait is the binder's business; and scores of storage capacity
    # are behind a gate of Kubernetes that is off.
    IGNORED: ClassVar[frozenset[str]] = frozenset(
        {
            "predicate.CacheEnable",
            "volumebinding.bindTimeoutSeconds",
            "volumebinding.weight",
            "volumebinding.shape",
            "dynamicresources.filterTimeoutSeconds",
        }
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


class Predicates(Plugin):
    """Kubernetes' filters, each once per shape; what depends on other pods follows every placement."""

    args_type = Args
    args: Args
    stays_open = True
    essential = True
    watches = tuple(
        Watch(kind)
        for kind in (
            core.Namespace,
            core.PersistentVolume,
            core.PersistentVolumeClaim,
            storage.StorageClass,
            storage.CSIDriver,
            storage.CSINode,
            storage.CSIStorageCapacity,
            storage.VolumeAttachment,
            resource.DeviceClass,
            resource.ResourceClaim,
            resource.ResourceSlice,
        )
    )

    def open(self, session: Session) -> None:
        self.room = session.room
        self.labels = session.shared(NodeLabels)
        self.taints = session.shared(NodeTaints)
        on, args = session.on, self.args
        reads = [Reads.TOLERATIONS]
        on.limit(self.slots, code=Code.POD_SLOTS, cure=Cure.EVICTION)
        on.filter(self.cordoned)
        if args.node_affinity:
            reads.append(Reads.NODE_AFFINITY)
            on.filter(self.unselected)
        if args.taints:
            on.filter(self.tainted)
        if args.ports:
            reads.append(Reads.PORTS)
            ports = session.shared(HostPorts)
            on.limit(ports.free, code=Code.HOST_PORTS, cure=Cure.EVICTION)
        if args.pod_affinity and session.snapshot.with_terms:
            self._open_pod_affinity(session)
        if args.spread and session.snapshot.with_terms:
            reads.append(Reads.NODE_AFFINITY)
            spread = session.shared(PodSpread)
            on.live_filter(
                lambda shape: spread.denials(NAME, shape), concerns=spread.concerns, restless=spread.restless
            )
        if session.snapshot.with_mounts and (args.volume_limits or args.volume_zone or args.volume_binding):
            self._open_volumes(session)
        if args.claims:
            self._open_claims(session)
        on.declare(together(tuple(reads)))

    def _open_pod_affinity(self, session: Session) -> None:
        affinity = session.shared(PodAffinity)
        session.on.limit(affinity.one_per_node, code=Code.POD_ANTI_AFFINITY, cure=Cure.EVICTION)
        session.on.live_filter(
            lambda shape: affinity.denials(NAME, shape), concerns=affinity.concerns, restless=affinity.restless
        )

    def _open_volumes(self, session: Session) -> None:
        on, args = session.on, self.args
        volumes = session.shared(PodVolumes)
        on.declare(Reads.NOTHING, volumes.trait, concerns=lambda task: task.mounts is not None)
        if args.volume_limits:
            on.limit(session.shared(Attachments).room, code=Code.VOLUME_LIMIT, cure=Cure.EVICTION)
        if args.volume_zone:
            on.filter(lambda shape: volumes.zones(NAME, shape))
        if args.volume_binding:
            on.prefilter(volumes.stuck)
            on.filter(lambda shape: volumes.reach_denials(NAME, shape))
            on.limit(volumes.disks, code=Code.DISK_TAKEN, cure=Cure.EVICTION)
            on.live_filter(lambda shape: volumes.alone(NAME, shape), concerns=volumes.is_exclusive)
            on.live_filter(
                lambda shape: volumes.bindable(NAME, shape), concerns=volumes.wants, restless=volumes.restless
            )
            on.shared(volumes.shared)
            on.prebind(volumes.choices)
            on.annotate(volumes.notes)

    def _open_claims(self, session: Session) -> None:
        on = session.on
        claims = session.shared(PodClaims)
        on.declare(Reads.NOTHING, claims.trait, concerns=lambda task: bool(task.pod.spec.resource_claims))
        on.prefilter(claims.stuck)
        on.filter(lambda shape: claims.elsewhere(NAME, shape))
        on.limit(claims.room, code=Code.DEVICES_MISSING, cure=Cure.CHANGE)
        on.live_filter(lambda shape: claims.lacking(NAME, shape), concerns=claims.is_searched)
        on.shared(claims.shared)
        on.prebind(claims.choices)
        on.annotate(claims.notes)

    def slots(self, shape: Shape) -> Column:
        """Pods that the node still takes; evicted ones no longer count, promised ones do."""
        del shape
        free: Column = (self.room.table.allocatable[PODS_ROW] - self.room.viewed[PODS_ROW]) // MILLI
        return free

    def cordoned(self, shape: Shape) -> list[Denial]:
        closed = self.taints.closed(shape.example.pod.spec.tolerations)
        return [Denial(Code.UNSCHEDULABLE, NAME, closed)]

    def unselected(self, shape: Shape) -> list[Denial]:
        selected = self.labels.allowed_by(shape.example.pod.spec)
        if selected is None:
            return []
        return [Denial(Code.NODE_AFFINITY, NAME, ~selected)]

    def tainted(self, shape: Shape) -> list[Denial]:
        repelling = self.taints.repelling(shape.example.pod.spec.tolerations)
        return [Denial(Code.TAINT, NAME, repelling)]
