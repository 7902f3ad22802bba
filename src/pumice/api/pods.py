"""Pod (core v1): what decides where it may run, what it asks for, and how it is doing.

A pod is decoded far more often than anything else, so what no part of Pumice reads is not here: probes, security contexts,
managed fields and env are skipped by the decoder without a Python object. Fields stand in the order in which API servers
write them, because the decoder looks for the next field first: that alone is worth a tenth of the time.
"""

from collections.abc import Mapping

import msgspec

from pumice.api.meta import (
    NO_METADATA,
    NO_RESOURCES,
    NOTHING,
    Condition,
    LabelSelector,
    ObjectMeta,
    ResourceList,
    Struct,
)

ENDED = frozenset({"Succeeded", "Failed"})  # phases of pods that hold nothing any more


class ResourceClaimUse(Struct):
    """A container's use of one of the pod's resource claims; without a request it uses all of the claim."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Struct):
    limits: ResourceList = NO_RESOURCES
    requests: ResourceList = NO_RESOURCES
    claims: tuple[ResourceClaimUse, ...] = ()


NO_REQUIREMENTS = ResourceRequirements()


class ContainerPort(Struct):
    name: str = ""
    host_port: int = 0
    container_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class Container(Struct):
    """A container or an init container; an init container that is restarted always is a sidecar."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = NO_REQUIREMENTS
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        """True for an init container that runs as long as the pod does."""
        return self.restart_policy == "Always"


class NodeSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct):
    """Any one term suffices; a term without requirements matches nothing."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct):
    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class PodAffinityTerm(Struct):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct):
    """Affinity to pods, or against them: both are written alike."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class Toleration(Struct):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PersistentVolumeClaimVolumeSource(Struct):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Struct):
    """The claim made for it is named `<pod>-<volume>`; its template is read from the claim once that exists."""


class CSIVolumeSource(Struct):
    driver: str = ""


class GCEPersistentDiskVolumeSource(Struct):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Struct):
    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class ISCSIVolumeSource(Struct):
    iqn: str = ""
    read_only: bool = False


class RBDVolumeSource(Struct):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class Volume(Struct):
    """A volume; only the sources that bind a pod to a place or exclude another pod are told apart."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None


class PodResourceClaim(Struct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Struct):
    name: str = ""


class PodSchedulingGroup(Struct):
    """Membership in a native scheduling.k8s.io PodGroup (Kubernetes 1.36)."""

    pod_group_name: str | None = None


class PodSpec(Struct):
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    node_selector: Mapping[str, str] = NOTHING
    node_name: str = ""
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str = "PreemptLowerPriority"
    overhead: ResourceList = NO_RESOURCES
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None  # of the whole pod
    scheduling_group: PodSchedulingGroup | None = None


class ContainerStateTerminated(Struct):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerStateRunning(Struct):
    started_at: str | None = None


class ContainerStateWaiting(Struct):
    reason: str = ""
    message: str = ""


class ContainerState(Struct):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


NO_STATE = ContainerState()


class ContainerStatus(Struct):
    name: str = ""
    state: ContainerState = NO_STATE
    last_state: ContainerState = NO_STATE
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None
    allocated_resources: ResourceList = NO_RESOURCES
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Struct):
    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Struct):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_refused(self) -> bool:
        """Whether its node had no room for it when it was bound: kubelets say so by OutOfcpu and the like."""
        return self.status.phase == "Failed" and self.status.reason.startswith("OutOf")


class PodTemplate(Struct):
    """What pods are made from, as far as we read it; the raw JSON is what they are made of."""

    metadata: ObjectMeta = NO_METADATA
    spec: PodSpec = PodSpec()


def is_living(pod: Pod) -> bool:
    """It has not ended, and nobody has asked it to."""
    return pod.status.phase not in ENDED and pod.metadata.deletion_timestamp is None
