"""Numatopology (nodeinfo.volcano.sh/v1alpha1): a node's sockets, NUMA nodes and cores, written by an exporter on the node."""

from collections.abc import Mapping
from types import MappingProxyType

from pumice.api.meta import NO_METADATA, NOTHING, ObjectMeta, Struct


class ResourceInfo(Struct):
    allocatable: str = ""  # for cpu a cpuset such as `0-3,8`
    capacity: int = 0


class CpuInfo(Struct):
    numa: int = 0
    socket: int = 0
    core: int = 0


class ContainerAllocation(Struct):
    name: str = ""
    allocations: Mapping[str, str] = NOTHING  # for cpu a cpuset, for everything else a quantity


class PodAllocation(Struct):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    container_allocations: tuple[ContainerAllocation, ...] = ()


NO_RESOURCE_INFO: Mapping[str, ResourceInfo] = MappingProxyType({})
NO_CPUS: Mapping[str, CpuInfo] = MappingProxyType({})


class NumatopologySpec(Struct):
    policies: Mapping[str, str] = NOTHING
    res_reserved: Mapping[str, str] = NOTHING
    numares: Mapping[str, ResourceInfo] = NO_RESOURCE_INFO
    cpu_detail: Mapping[str, CpuInfo] = NO_CPUS
    pod_allocations: tuple[PodAllocation, ...] = ()


class Numatopology(Struct):
    """Named like its node."""

    metadata: ObjectMeta = NO_METADATA
    spec: NumatopologySpec = NumatopologySpec()
