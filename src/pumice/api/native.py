"""Kubernetes' own gangs: PodGroup of scheduling.k8s.io/v1alpha2, as of Kubernetes 1.36, as far as we read it."""

from pumice.api.meta import NO_METADATA, ObjectMeta, Struct


class GangSchedulingPolicy(Struct):
    min_count: int = 1


class NativeSchedulingPolicy(Struct):
    gang: GangSchedulingPolicy | None = None  # absent: pods one by one


class NativePodGroupSpec(Struct):
    scheduling_policy: NativeSchedulingPolicy = NativeSchedulingPolicy()
    priority_class_name: str = ""
    priority: int | None = None


class NativePodGroup(Struct):
    """A gang in Kubernetes' own words; `scheduling.PodGroup` is Volcano's."""

    metadata: ObjectMeta = NO_METADATA
    spec: NativePodGroupSpec = NativePodGroupSpec()
