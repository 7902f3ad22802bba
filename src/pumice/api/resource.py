"""Dynamic resources (resource.k8s.io/v1): the devices that nodes have, that a claim asks for, and that it was given."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from pumice.api.core import Taint
from pumice.api.meta import NO_METADATA, NO_RESOURCES, ObjectMeta, Quantity, ResourceList, Struct
from pumice.api.pods import NodeSelector, Toleration


class CapacityRequirements(Struct):
    """How much of a device that several claims may share."""

    requests: ResourceList = NO_RESOURCES


class CELDeviceSelector(Struct):
    expression: str = ""


class DeviceSelector(Struct):
    cel: CELDeviceSelector | None = None


class DeviceSubRequest(Struct):
    """A number of devices of one class."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"  # or All: every device of the class on the node
    count: int = 1
    admin_access: bool = False  # looks on: may use what others have, and takes nothing away
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements = CapacityRequirements()


class DeviceRequest(Struct):
    """Exactly one kind of devices, or the first of several that is available."""

    name: str = ""
    exactly: DeviceSubRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct):
    """Devices of these requests (of all, where none are named) agree in an attribute, or all differ in it."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceConfiguration(Struct):
    """Parameters for a driver, passed on unread."""

    requests: tuple[str, ...] = ()
    opaque: Any = None


class DeviceClaim(Struct):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()


class ResourceClaimSpec(Struct):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct):
    """One device; `request` is the name of what asked for it, `name/sub-name` for one of several."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False


class DeviceAllocationResult(Struct):
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Struct):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None  # absent: the devices can be had everywhere


class ResourceClaimConsumerReference(Struct):
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class ResourceClaim(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassSpec(Struct):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()


class DeviceClass(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct):
    """Exactly one of these."""

    number: int | None = msgspec.field(name="int", default=None)
    truth: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None


class DeviceCapacity(Struct):
    value: Quantity = "0"


class Counter(Struct):
    value: Quantity = "0"


NO_ATTRIBUTES: Mapping[str, DeviceAttribute] = MappingProxyType({})
NO_CAPACITY: Mapping[str, DeviceCapacity] = MappingProxyType({})
NO_COUNTERS: Mapping[str, Counter] = MappingProxyType({})


class DeviceCounterConsumption(Struct):
    """What a device takes of its pool's counters: parts of one card take from one set."""

    counter_set: str = ""
    counters: Mapping[str, Counter] = NO_COUNTERS


class CounterSet(Struct):
    name: str = ""
    counters: Mapping[str, Counter] = NO_COUNTERS


class Device(Struct):
    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = NO_ATTRIBUTES
    capacity: Mapping[str, DeviceCapacity] = NO_CAPACITY
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()


class ResourcePool(Struct):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(Struct):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct):
    """Some of a pool's devices; the newest generation counts, and only once all of its slices are there."""

    metadata: ObjectMeta = NO_METADATA
    spec: ResourceSliceSpec = ResourceSliceSpec()
