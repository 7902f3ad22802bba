"""Storage (storage.k8s.io/v1): what decides on which nodes a claim can be provided or attached."""

from pumice.api.meta import NO_METADATA, LabelSelector, ObjectMeta, Quantity, Struct


class TopologySelectorLabelRequirement(Struct):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Struct):
    metadata: ObjectMeta = NO_METADATA
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Struct):
    count: int | None = None


class CSINodeDriver(Struct):
    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(Struct):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct):
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class CSIStorageCapacity(Struct):
    """How much a class can still provide in one part of the cluster."""

    metadata: ObjectMeta = NO_METADATA
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class CSIDriverSpec(Struct):
    storage_capacity: bool = False


class CSIDriver(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: CSIDriverSpec = CSIDriverSpec()
