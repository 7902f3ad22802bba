"""Priority classes (scheduling.k8s.io/v1)."""

from pumice.api.meta import NO_METADATA, ObjectMeta, Struct


class PriorityClass(Struct):
    metadata: ObjectMeta = NO_METADATA
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
