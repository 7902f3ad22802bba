"""The core group's kinds (v1) as far as scheduling, the Job plugins and the embedded server's agents read them; Pod is in pods.py."""

from collections.abc import Mapping

import msgspec

from pumice.api import names
from pumice.api.meta import (
    NO_METADATA,
    NO_RESOURCES,
    NOTHING,
    Condition,
    LabelSelector,
    ObjectMeta,
    ObjectReference,
    ResourceList,
    Struct,
)
from pumice.api.pods import NodeSelector


class Taint(Struct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Struct):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeAddress(Struct):
    type: str = ""
    address: str = ""


class NodeSystemInfo(Struct):
    container_runtime_version: str = ""


class NodeStatus(Struct):
    capacity: ResourceList = NO_RESOURCES
    allocatable: ResourceList = NO_RESOURCES
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Struct):
    phase: str = ""


class Namespace(Struct):
    metadata: ObjectMeta = NO_METADATA
    status: NamespaceStatus = NamespaceStatus()


class ServicePort(Struct):
    port: int
    name: str = ""
    protocol: str = "TCP"


class ServiceSpec(Struct):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    selector: Mapping[str, str] = NOTHING
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False


class Service(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: ServiceSpec = ServiceSpec()


class ConfigMap(Struct):
    metadata: ObjectMeta = NO_METADATA
    data: Mapping[str, str] = NOTHING
    binary_data: Mapping[str, str] = NOTHING  # base64


class Secret(Struct):
    metadata: ObjectMeta = NO_METADATA
    type: str = "Opaque"
    data: Mapping[str, str] = NOTHING  # base64


class ServiceAccount(Struct):
    metadata: ObjectMeta = NO_METADATA


class VolumeResourceRequirements(Struct):
    requests: ResourceList = NO_RESOURCES
    limits: ResourceList = NO_RESOURCES


class PersistentVolumeClaimSpec(Struct):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None  # absent: the default class; empty: no class
    volume_mode: str = "Filesystem"


class PersistentVolumeClaimStatus(Struct):
    phase: str = ""
    capacity: ResourceList = NO_RESOURCES
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaim(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


def storage_class_of(claim: PersistentVolumeClaim) -> str:
    """The class that the claim names, in either way of naming one."""
    return claim.metadata.annotations.get(names.STORAGE_CLASS) or claim.spec.storage_class_name or ""


def claim_reference(claim: PersistentVolumeClaim) -> dict[str, str]:
    """By which a volume names the claim that has it."""
    metadata = claim.metadata
    of_kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**of_kind, "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid}


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Struct):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Struct):
    capacity: ResourceList = NO_RESOURCES
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None


class PersistentVolumeStatus(Struct):
    phase: str = ""
    reason: str = ""


class PersistentVolume(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class ScopedResourceSelectorRequirement(Struct):
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct):
    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Struct):
    hard: ResourceList = NO_RESOURCES
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct):
    hard: ResourceList = NO_RESOURCES
    used: ResourceList = NO_RESOURCES


class ResourceQuota(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
