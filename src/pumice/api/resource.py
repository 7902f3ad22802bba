"""Dynamic resources (resource.k8s.io/v1): the devices that a claim asks for, and those that it was given."""

from pumice.api.meta import NO_METADATA, NO_RESOURCES, ObjectMeta, ResourceList, Struct


class CapacityRequirements(Struct):
    """How much of a device that several claims may share."""

    requests: ResourceList = NO_RESOURCES


class DeviceSubRequest(Struct):
    """A number of devices of one class."""

    name: str = ""
    device_class_name: str = ""
    allocation_mode: str = "ExactCount"  # or All: every device of the class on the node
    count: int = 1
    capacity: CapacityRequirements = CapacityRequirements()


class DeviceRequest(Struct):
    """Exactly one kind of devices, or the first of several that is available."""

    name: str = ""
    exactly: DeviceSubRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceClaim(Struct):
    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(Struct):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct):
    """One device; `request` is the name of what asked for it, `name/sub-name` for one of several."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceAllocationResult(Struct):
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Struct):
    devices: DeviceAllocationResult = DeviceAllocationResult()


class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None


class ResourceClaim(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()
