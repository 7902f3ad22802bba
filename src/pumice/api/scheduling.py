"""PodGroup and Queue (scheduling.volcano.sh/v1beta1): the gang, and the share of the cluster that it draws from."""

import enum
from collections.abc import Mapping

import msgspec

from pumice.api.batch import DEFAULT_QUEUE, NO_COUNTS, NetworkTopology
from pumice.api.meta import (
    NO_METADATA,
    NO_RESOURCES,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    ResourceList,
    Struct,
)

VOLCANO = "volcano"  # the scheduler of Volcano's users, and of Jobs that name none
SCHEDULER_NAMES = (VOLCANO, "pumice")  # whose pods are ours where the operator says nothing else
ROOT_QUEUE = "root"
WEIGHT_MAX = 65_535  # of a queue, by the schema
GROUP_PREFIX = "podgroup-"  # of groups that are made for pods that name none

# Owners of pods that may ask for a gang, by an annotation of their own.
WORKLOADS = frozenset(
    {("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job")}
)


class PodGroupPhase(enum.StrEnum):
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class PodGroupConditionType(enum.StrEnum):
    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    TIME_LIMIT_WARNING = "TimeLimitWarning"  # Pumice's own, as are the next
    TIME_LIMIT_EXCEEDED = "TimeLimitExceeded"
    DEADLOCKED = "Deadlocked"


class QueueState(enum.StrEnum):
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class DequeueStrategy(enum.StrEnum):
    FIFO = "fifo"
    TRAVERSE = "traverse"


class SubGroupPolicy(Struct):
    """Splits a gang into sub groups, each of which is placed together."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int = 1
    min_sub_groups: int = 0
    label_selector: LabelSelector | None = None  # absent: every pod of the gang
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(Struct):
    min_member: int = 0
    min_task_member: Mapping[str, int] = NO_COUNTS
    queue: str = DEFAULT_QUEUE
    priority_class_name: str = ""
    min_resources: ResourceList | None = None  # absent: the gang may enter its queue unasked
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    transition_id: str = msgspec.field(name="transitionID", default="")
    last_transition_time: str | None = None


class PodGroupStatus(Struct):
    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(Struct):
    """A gang. Its status is an ordinary field: the kind has no status subresource."""

    metadata: ObjectMeta = NO_METADATA
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def implied_group(metadata: ObjectMeta) -> str:
    """The name of the PodGroup of a pod that names none: all pods of one controller share it."""
    owner = metadata.controller
    return f"{GROUP_PREFIX}{metadata.uid if owner is None else owner.uid}"


def is_workload(owner: OwnerReference) -> bool:
    """True for an owner that may ask for a gang."""
    return (owner.api_version, owner.kind) in WORKLOADS


class ExtendCluster(Struct):
    name: str = ""
    weight: int = 0
    capacity: ResourceList = NO_RESOURCES


class Guarantee(Struct):
    resource: ResourceList = NO_RESOURCES


class NodeGroupAffinity(Struct):
    """Names of node groups to use, or to avoid: both are written alike."""

    required: tuple[str, ...] = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=())
    preferred: tuple[str, ...] = msgspec.field(name="preferredDuringSchedulingIgnoredDuringExecution", default=())


class QueueAffinity(Struct):
    node_group_affinity: NodeGroupAffinity | None = None
    node_group_anti_affinity: NodeGroupAffinity | None = None


class QueueSpec(Struct):
    weight: int = 1
    capability: ResourceList = NO_RESOURCES
    reclaimable: bool | None = None  # absent: yes
    extend_clusters: tuple[ExtendCluster, ...] = ()
    guarantee: Guarantee = Guarantee()
    affinity: QueueAffinity | None = None
    type: str = ""
    parent: str = ""
    deserved: ResourceList = NO_RESOURCES
    priority: int = 0
    dequeue_strategy: str = DequeueStrategy.TRAVERSE.value


class QueueReservation(Struct):
    """Written by versions of Volcano long gone; never read."""

    nodes: tuple[str, ...] = ()
    resource: ResourceList = NO_RESOURCES


class QueueStatus(Struct):
    state: str = ""
    allocated: ResourceList = NO_RESOURCES
    unknown: int = 0
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    completed: int = 0
    reservation: QueueReservation = QueueReservation()


class Queue(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
