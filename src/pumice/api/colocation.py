"""ColocationConfiguration (config.volcano.sh/v1alpha1): how online and offline pods share a node's memory."""

from pumice.api.meta import NO_METADATA, Condition, LabelSelector, ObjectMeta, Struct


class MemoryQos(Struct):
    """Percentages of a pod's memory limit or request."""

    high_ratio: int = 100
    low_ratio: int = 0
    min_ratio: int = 0


class ColocationConfigurationSpec(Struct):
    selector: LabelSelector | None = None
    memory_qos: MemoryQos | None = None


class ColocationConfigurationStatus(Struct):
    conditions: tuple[Condition, ...] = ()


class ColocationConfiguration(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: ColocationConfigurationSpec = ColocationConfigurationSpec()
    status: ColocationConfigurationStatus = ColocationConfigurationStatus()
