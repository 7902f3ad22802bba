"""Kubernetes' own gangs: PodGroup of scheduling.k8s.io/v1alpha2, as of Kubernetes 1.36, as far as we read it."""

from pumice.api.meta import NO_METADATA, ObjectMeta, Struct
from pumice.api.scheduling import PodGroup


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


def minimum_of(group: PodGroup | NativePodGroup) -> int:
    """How many members must start together, of a group of either kind."""
    if isinstance(group, PodGroup):
        return group.spec.min_member
    gang = group.spec.scheduling_policy.gang
    return gang.min_count if gang is not None else 1
