"""What `kubectl get` prints: our kinds' columns, and those of the core kinds, which the embedded server prints alike.

A column is either a path into the object or computed by the server (`path is None`): a pod's status or its `2/3` are in no field.
The leading Name column is every kind's and stands in no table here, except where another column comes first.
"""

from pumice.api.meta import Struct


class Column(Struct):
    name: str
    type: str = "string"
    path: str | None = None  # None: the server computes it
    priority: int = 0  # 1: only with -o wide
    description: str = ""


def _computed_columns(*names: str, wide: tuple[str, ...] = (), kind: str = "string") -> tuple[Column, ...]:
    return (*(Column(name, kind) for name in names), *(Column(name, kind, priority=1) for name in wide))


AGE = Column("Age", "date", ".metadata.creationTimestamp", description="Time since the object was created.")
CREATED_AT = Column("Created At", path=".metadata.creationTimestamp")  # as text, not as an age
DEFAULT = (AGE,)

# The core kinds, as Kubernetes 1.36 prints them.
POD = (
    *_computed_columns("Ready", "Status", "Restarts"),
    AGE,
    *_computed_columns(wide=("IP", "Node", "Nominated Node", "Readiness Gates")),
)
NODE = (
    *_computed_columns("Status", "Roles"),
    AGE,
    Column("Version", path=".status.nodeInfo.kubeletVersion"),
    *_computed_columns(wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")),
)
NAMESPACE = (Column("Status", path=".status.phase"), AGE)
SERVICE = (
    *_computed_columns("Type", "Cluster-IP", "External-IP", "Port(s)"),
    AGE,
    *_computed_columns(wide=("Selector",)),
)
CONFIG_MAP = (*_computed_columns("Data"), AGE)
SECRET = (Column("Type", path=".type"), *_computed_columns("Data"), AGE)
EVENT = (
    *_computed_columns("Last Seen"),
    Column("Type", path=".type"),
    Column("Reason", path=".reason"),
    *_computed_columns("Object", wide=("Subobject", "Source")),
    *_computed_columns("Message", wide=("First Seen", "Count")),
    Column("Name", path=".metadata.name", priority=1),
)
PERSISTENT_VOLUME_CLAIM = (
    *_computed_columns("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
    AGE,
    *_computed_columns(wide=("VolumeMode",)),
)
PERSISTENT_VOLUME = (
    *_computed_columns("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim"),
    *_computed_columns("StorageClass", "VolumeAttributesClass", "Reason"),
    AGE,
    *_computed_columns(wide=("VolumeMode",)),
)
RESOURCE_QUOTA = (*_computed_columns("Request", "Limit"), AGE)

_POD_WIDE = _computed_columns(wide=("Containers", "Images"))
_SELECTOR_WIDE = _computed_columns(wide=("Selector",))
REPLICATION_CONTROLLER = (
    *_computed_columns("Desired", "Current", "Ready", kind="integer"),
    AGE,
    *_POD_WIDE,
    *_SELECTOR_WIDE,
)
REPLICA_SET = REPLICATION_CONTROLLER
DEPLOYMENT = (*_computed_columns("Ready", "Up-to-date", "Available"), AGE, *_POD_WIDE, *_SELECTOR_WIDE)
STATEFUL_SET = (*_computed_columns("Ready"), AGE, *_POD_WIDE)
DAEMON_SET = (
    *_computed_columns("Desired", "Current", "Ready", "Up-to-date", "Available", kind="integer"),
    *_computed_columns("Node Selector"),
    AGE,
    *_POD_WIDE,
    *_SELECTOR_WIDE,
)
KUBE_JOB = (*_computed_columns("Status", "Completions", "Duration"), AGE, *_POD_WIDE, *_SELECTOR_WIDE)

POD_DISRUPTION_BUDGET = (
    *_computed_columns("Min Available", "Max Unavailable"),
    Column("Allowed Disruptions", "integer", ".status.disruptionsAllowed"),
    AGE,
)
PRIORITY_CLASS = (
    Column("Value", "integer", ".value"),
    *_computed_columns("Global-Default", kind="boolean"),
    AGE,
    Column("PreemptionPolicy", path=".preemptionPolicy"),
)
NATIVE_POD_GROUP = (*_computed_columns("Policy", "Workload", "Status"), AGE)
STORAGE_CLASS = (
    Column("Provisioner", path=".provisioner"),
    *_computed_columns("ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion"),
    AGE,
)
CSI_NODE = (*_computed_columns("Drivers", kind="integer"), AGE)
CSI_DRIVER = (
    *_computed_columns("AttachRequired", "PodInfoOnMount", "StorageCapacity", kind="boolean"),
    *_computed_columns("TokenRequests"),
    *_computed_columns("RequiresRepublish", kind="boolean"),
    *_computed_columns("Modes"),
    AGE,
)
CSI_STORAGE_CAPACITY = (CREATED_AT,)
VOLUME_ATTACHMENT = (
    Column("Attacher", path=".spec.attacher"),
    *_computed_columns("PV"),
    Column("Node", path=".spec.nodeName"),
    Column("Attached", "boolean", ".status.attached"),
    AGE,
)
RESOURCE_CLAIM = (*_computed_columns("State"), AGE)
RESOURCE_SLICE = (
    Column("Node", path=".spec.nodeName"),
    Column("Driver", path=".spec.driver"),
    Column("Pool", path=".spec.pool.name"),
    AGE,
)
LEASE = (Column("Holder", path=".spec.holderIdentity"), AGE)
NETWORK_POLICY = (*_computed_columns("Pod-Selector"), AGE)
CUSTOM_RESOURCE_DEFINITION = (CREATED_AT,)
WEBHOOK_CONFIGURATION = (*_computed_columns("Webhooks", kind="integer"), AGE)

# Our kinds, as Volcano's manifests name them: the case of a name is part of what scripts match.
_UPPER_AGE = Column("AGE", "date", ".metadata.creationTimestamp", description=AGE.description)
JOB = (
    Column("STATUS", path=".status.state.phase", description="Phase of the job."),
    Column("minAvailable", "integer", ".status.minAvailable", description="Pods that must be able to start together."),
    Column("RUNNINGS", "integer", ".status.running", description="Pods that are running."),
    _UPPER_AGE,
    Column("QUEUE", path=".spec.queue", priority=1, description="Queue that the job draws from."),
)
POD_GROUP = (
    Column("STATUS", path=".status.phase", description="Phase of the gang."),
    Column("minMember", "integer", ".spec.minMember", description="Pods that must be able to start together."),
    Column("RUNNINGS", "integer", ".status.running", description="Pods that are running."),
    _UPPER_AGE,
    Column("QUEUE", path=".spec.queue", priority=1, description="Queue that the gang draws from."),
)
QUEUE = (Column("PARENT", path=".spec.parent", description="Queue that this one takes its share from."),)
JOB_FLOW = (Column("Status", path=".status.state.phase", description="Phase of the flow."), AGE)
HYPER_NODE = (
    Column("Tier", path=".spec.tier", description="Level in the network; lower is closer."),
    Column("TierName", path=".spec.tierName", description="Name of the level."),
    Column("NodeCount", "integer", ".status.nodeCount", description="Nodes that the members select."),
    AGE,
)
NODE_SHARD = (_UPPER_AGE,)
