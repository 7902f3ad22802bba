"""Kubernetes' own gangs: Workload and PodGroup of scheduling.k8s.io/v1alpha2, as of Kubernetes 1.36."""

from pumice.api.meta import NO_METADATA, Condition, ObjectMeta, Struct, TypedLocalObjectReference


class GangSchedulingPolicy(Struct):
    min_count: int = 1


class BasicSchedulingPolicy(Struct):
    """Pods one by one: the group only shares its other settings."""


class NativeSchedulingPolicy(Struct):
    """Exactly one of the two is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct):
    key: str = ""


class NativeSchedulingConstraints(Struct):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Struct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupTemplate(Struct):
    name: str = ""
    scheduling_policy: NativeSchedulingPolicy = NativeSchedulingPolicy()
    scheduling_constraints: NativeSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str = "Pod"
    priority_class_name: str = ""
    priority: int | None = None


class WorkloadSpec(Struct):
    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: WorkloadSpec = WorkloadSpec()


class WorkloadTemplateReference(Struct):
    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateReference(Struct):
    workload: WorkloadTemplateReference | None = None


class NativePodGroupSpec(Struct):
    pod_group_template_ref: PodGroupTemplateReference | None = None
    scheduling_policy: NativeSchedulingPolicy = NativeSchedulingPolicy()
    scheduling_constraints: NativeSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str = "Pod"
    priority_class_name: str = ""
    priority: int | None = None


class PodGroupResourceClaimStatus(Struct):
    name: str = ""
    resource_claim_name: str | None = None


class NativePodGroupStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class NativePodGroup(Struct):
    """A gang in Kubernetes' own words; `scheduling.PodGroup` is Volcano's."""

    metadata: ObjectMeta = NO_METADATA
    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()
