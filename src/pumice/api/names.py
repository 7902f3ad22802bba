"""Well-known keys: every label, annotation, resource, taint and gate that carries a meaning, and what it means.

Behind each stands where it is found: L label, A annotation.
"""

# --- Pods of a Job -----------------------------------------------------------------------------------------------
JOB_NAME = "volcano.sh/job-name"  # L+A pod: the Job that it belongs to
JOB_NAMESPACE = "volcano.sh/job-namespace"  # L pod: the Job's namespace, for selectors
TASK_SPEC = "volcano.sh/task-spec"  # A, else L, pod: its task; the key of minTaskMember
TASK_INDEX = "volcano.sh/task-index"  # L+A pod: its number within its task, from 0
JOB_QUEUE = "volcano.sh/queue-name"  # L+A pod: the Job's queue, for people and lists
JOB_VERSION = "volcano.sh/job-version"  # A pod: status.version of the Job that made it; tells stale events
JOB_RETRY_COUNT = "volcano.sh/job-retry-count"  # A pod: status.retryCount of the Job that made it
TEMPLATE_UID = "volcano.sh/template-uid"  # A pod: equal pods have equal ones
PARTITION_ID = "volcano.sh/partition-id"  # L pod: its part of a partitioned task
NUMA_TOPOLOGY_POLICY = "volcano.sh/numa-topology-policy"  # A pod: how its CPUs may be spread over NUMA nodes
JOB_FORWARDING = "volcano.sh/job-forwarding"  # L+A Job and pod: may run in another cluster
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"  # A pod: its Job is killing it; its events fire no policy
HCCL_RANK_INDEX = "hccl/rankIndex"  # A pod: rank in a collective of NPUs
CLI_JOB_NAME = "job.volcano.sh"  # L pod: the Job's name, put there by command-line clients

# --- Jobs, JobFlows, CronJobs --------------------------------------------------------------------------------------
JOB_TYPE = "volcano.sh/job-type"  # L Job: a word for lists
CREATED_BY_JOB_TEMPLATE = "volcano.sh/createdByJobTemplate"  # L+A Job: `<namespace>.<template>`
CREATED_BY_JOB_FLOW = "volcano.sh/createdByJobFlow"  # L+A Job: `<namespace>.<flow>`
CRONJOB_SCHEDULED_TIMESTAMP = "volcano.sh/cronjob-scheduled-timestamp"  # A Job: the time it was meant to start at
SLA_WAITING_TIME = "volcano.sh/sla-waiting-time"  # A Job, PodGroup: how long it may wait at most
TASK_TOPOLOGY_AFFINITY = "volcano.sh/task-topology-affinity"  # A Job, PodGroup: tasks that belong on one node
TASK_TOPOLOGY_ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"  # A Job, PodGroup: tasks to keep apart
TASK_TOPOLOGY_ORDER = "volcano.sh/task-topology-task-order"  # A Job, PodGroup: tasks in order of placement

# --- Gangs and their pods ------------------------------------------------------------------------------------------
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # A any: the manifest as a person wrote it
GROUP_NAME = "scheduling.k8s.io/group-name"  # A pod: the PodGroup that it is a member of
VOLCANO_GROUP_NAME = "scheduling.volcano.sh/group-name"  # A pod: the same, in newer spelling
QUEUE_NAME = "scheduling.volcano.sh/queue-name"  # A pod, Namespace: queue of the PodGroup made for it
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"  # A workload: minMember of the PodGroup made for its pods
QUEUE_ALLOCATION_GATE = (
    "scheduling.volcano.sh/queue-allocation-gate"  # A pod, and its gate: held until its queue has room
)
PREEMPTABLE = "volcano.sh/preemptable"  # A, else L, Job, PodGroup, pod: may be evicted for others
COOLDOWN_TIME = "volcano.sh/cooldown-time"  # A or L Job, PodGroup, pod: not to be evicted so soon after its start
REVOCABLE_ZONE = "volcano.sh/revocable-zone"  # A Job, PodGroup, pod: `*` = may use such nodes; L node: its zone
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"  # A Job, PodGroup, pod: disruption budget; wins over the next
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"  # A Job, PodGroup, pod: disruption budget
NETWORK_TOPOLOGY_MODE = "volcano.sh/network-topology-mode"  # A pod: hard or soft, for the PodGroup made for it
NETWORK_TOPOLOGY_HIGHEST_TIER = "volcano.sh/network-topology-highest-tier"  # A pod: for the PodGroup made for it
TASK_PRIORITY = "volcano.sh/task-priority"  # A pod: order within its gang, before the pod's own priority
STRATEGY_SCORING_TYPE = "volcano.sh/resource-strategy-scoring-type"  # A pod: its own choice for resource-strategy-fit
STRATEGY_WEIGHT = "volcano.sh/resource-strategy-weight"  # A pod: its own weights for resource-strategy-fit
RESOURCE_GROUP = "volcano.sh/resource-group"  # A pod: picks a rule of the pod webhook
TOPOLOGY_DECISION = "volcano.sh/topology-decision"  # A pod: JSON, the CPUs chosen on each NUMA node

# --- Queues, HyperNodes, nodes --------------------------------------------------------------------------------------
HIERARCHY = "volcano.sh/hierarchy"  # A Queue: its path, `root/a/b`
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"  # A Queue: the weights along its path, `1/2/3`
NODEGROUP_RESOURCE_LIMITS = "volcano.sh/nodegroup-resource-limits"  # A Queue: JSON, node group -> what it may use there
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"  # A Queue: "true" = reopens with its parent
NETWORK_TOPOLOGY_SOURCE = "volcano.sh/network-topology-source"  # L HyperNode: the discovery that owns it
NODEGROUP_NAME = "volcano.sh/nodegroup-name"  # L node: its node group, for Queue.spec.affinity
OVERSUBSCRIPTION_CPU = "volcano.sh/oversubscription-cpu"  # A node: oversold milli-CPUs
OVERSUBSCRIPTION_MEMORY = "volcano.sh/oversubscription-memory"  # A node: oversold bytes

# --- Node agent: read and written on the node -----------------------------------------------------------------------

# --- Shared devices ---------------------------------------------------------------------------------------------------
VGPU_NODE_REGISTER = "volcano.sh/node-vgpu-register"  # A node: its GPUs
VGPU_HANDSHAKE = "volcano.sh/node-vgpu-handshake"  # A node: whether its device plugin is alive
USE_GPU_TYPE = "nvidia.com/use-gputype"  # A pod: only GPUs of these types
NOT_USE_GPU_TYPE = "nvidia.com/nouse-gputype"  # A pod: no GPUs of these types
GPU_UNHEALTHY_IDS = "volcano.sh/gpu-unhealthy-ids"  # A node: GPUs not to use
GPU_INDEX = "volcano.sh/gpu-index"  # A pod: the GPU chosen for it
PREDICATE_TIME = "volcano.sh/predicate-time"  # A pod: when the GPU was chosen
VGPU_NODE = "volcano.sh/vgpu-node"  # A pod: the node chosen for it
VGPU_TIME = "volcano.sh/vgpu-time"  # A pod: when
VGPU_IDS = "volcano.sh/vgpu-ids-new"  # A pod: the slices of GPUs chosen for it
DEVICES_TO_ALLOCATE = "volcano.sh/devices-to-allocate"  # A pod: what the device plugin still has to hand out
BIND_TIME = "volcano.sh/bind-time"  # A pod: when it was bound, for the device plugin
BIND_PHASE = "volcano.sh/bind-phase"  # A pod: allocating, success or failed
VGPU_MODE = "volcano.sh/vgpu-mode"  # A pod: the way of sharing that it asks for
VGPU_USE_UUID = "volcano.sh/vgpu-use-gpuuuid"  # A pod: only these GPUs
VGPU_NOT_USE_UUID = "volcano.sh/vgpu-nouse-gpuuuid"  # A pod: not these GPUs
VGPU_POD_GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"  # A pod: how a gang's slices are placed

# --- Extended resources ----------------------------------------------------------------------------------------------
GPU_MEMORY = "volcano.sh/gpu-memory"
GPU_NUMBER = "volcano.sh/gpu-number"
VGPU_NUMBER = "volcano.sh/vgpu-number"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_CORES = "volcano.sh/vgpu-cores"
VGPU_MEMORY_PERCENTAGE = "volcano.sh/vgpu-memory-percentage"

# --- Pumice's own -----------------------------------------------------------------------------------------------------
ATTEMPT = "pumice.dev/attempt"  # A pod, PodGroup: the commit that bound it, or that made the gang Running
LEADER = "pumice.dev/leader"  # A pod that was pending when a scheduler began to lead: older binds of it are void
VOLUMES = "pumice.dev/volumes"  # A pod: JSON, claim -> the volume chosen for it, empty where one is to be made
DEVICES = (
    "pumice.dev/devices"  # A pod: JSON, claim -> the devices chosen for it: request, driver, pool, name, only looks
)
CPUSETS = "pumice.dev/cpusets"  # A pod: JSON, container -> the CPUs chosen for it alone, `0-3,8`
VIEW_ADDRESS = "pumice.dev/address"  # a Lease: where its holder can be asked, pods/NAMESPACE/NAME:PORT or a URL
VIEW_LABEL = "pumice.dev/view"  # L such a Lease, whatever its name: how the command line finds it
VIEW_OF_SCHEDULER, VIEW_OF_CONTROLLERS = "scheduler", "controllers"  # its values: whose leader it is
VIEW_AUDIENCE = "pumice.dev"  # of tokens that are shown to the leader, and are good for nothing else
VIEW_HEADER = "pumice-token"  # carries such a token through the API server, which keeps Authorization to itself
VIEWER_ACCOUNT = "pumice-viewer"  # the ServiceAccount whose tokens the command line asks for
SCHEDULER_LEASE = "pumice-scheduler"
CONTROLLERS_LEASE = "pumice-controllers"
RECORDED_RUN_TIMES = "pumice-recorded-run-times"  # A ConfigMap: what the record has learned, for the scheduler
MEMORY_KEY = "memory.json"  # of ConfigMaps in which the scheduler and the record tell each other what they know
VERDICT = "pumice.dev/verdict"  # A PodGroup: JSON, why the gang waits, in classes of reasons with counts
SUBMITTED_BY = "pumice.dev/submitted-by"  # A Job, CronJob, JobFlow, PodGroup, pod: the user to whom its use of the queue is charged
SUBMITTER_GROUPS = "pumice.dev/submitter-groups"  # A, beside the one above: that user's groups, one a line
TIME_LIMIT = "pumice.dev/time-limit"  # A Job, PodGroup, pod: the gang is ended after this run time
TIME_LIMIT_WARNING = "pumice.dev/time-limit-warning"  # A, beside the one above: how long before the end it is told
TIME_LIMIT_SIGNAL = (
    "pumice.dev/time-limit-signal"  # A pod: its processes get this signal with the warning, where nodes can
)
TIME_LIMIT_ENDS = (
    "pumice.dev/time-limit-ends"  # A pod that asks for a signal: when its time will be up, from the warning on
)
RUN = "pumice.dev/run"  # A PodGroup: JSON, when the gang started, was warned and ended for its time limit
RUNNING_ESTIMATE = "pumice.dev/running-estimate"  # A Job, PodGroup, pod: how long its owner expects it to run
DEFAULT_RUN_TIME = "pumice.dev/default-run-time"  # A Queue: how long its gangs are expected to run that say nothing
RESERVATION = "pumice.dev/reservation"  # A PodGroup: JSON, when and on how many nodes room is kept for it
EVICTION = "pumice.dev/eviction"  # A pod: JSON, why our scheduler takes it away, for whom, and what that costs
CHECKPOINTED_AT = (
    "pumice.dev/checkpointed-at"  # A pod: RFC 3339, its work up to then is safe; an eviction costs what came after
)
CHECKPOINT_SIGNAL = (
    "pumice.dev/checkpoint-signal"  # A Job, pod: its processes get this signal when it is told that it has to leave
)
EVICTION_NOTICE = "pumice.dev/eviction-notice"  # A pod: JSON, it has to leave: since when it knows, until when it may stay, and for whom
MIN_RUNTIME = "pumice.dev/min-runtime"  # A Queue: its gangs, and those of queues below it, run for so long before they may be evicted
MOVABLE = (
    "pumice.dev/movable"  # A Job, PodGroup: true: its pods may be started again elsewhere to make room in one piece
)
USER = "pumice.dev/user"  # L Job, PodGroup, pod: who uses the room, where the policy trusts this label
STRICT_ORDER = "pumice.dev/strict-order"  # A Queue: `true`: a gang that does not fit holds up those behind it
USER_LIMITS = (
    "pumice.dev/user-limits"  # A Queue: how much one user may have in it, `running=4,submitted=100,nvidia.com/gpu=8`
)
PROGRESS = "pumice.dev/progress"  # in a Job's status.controlledResources: JSON, what its controller must not forget
GPU_USE = "pumice.dev/gpu-use"  # A node: JSON, what its pods use of their GPUs, as its agent has measured it
NODE_AGENT = "pumice.dev/node-agent"  # A node: the agent that keeps it, by its machine and its folder or process
PRETEND_RUN = "pumice.dev/pretend-run"  # A pod on a pretend node: ends after this time, with success
PRETEND_EXIT_CODE = "pumice.dev/pretend-exit-code"  # A pod on a pretend node: ... or with this exit code
PRETEND_STOP = "pumice.dev/pretend-stop"  # A pod on a pretend node: takes this long to go once it is deleted
PRETEND_DOWN = "pumice.dev/pretend-down"  # A pretend node: is not Ready while it carries this
PRETEND_GONE = "pumice.dev/pretend-gone"  # A pretend node: falls silent while it carries this, and so do its pods

# --- Claims and volumes -------------------------------------------------------------------------------------------------
SELECTED_NODE = "volume.kubernetes.io/selected-node"  # A claim: the node for whose pod a volume is to be made
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"  # A claim: it is bound for good
STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"  # A claim, volume: its class, in the older way of naming it

# --- Kubernetes' own that we read or write ------------------------------------------------------------------------------
HOSTNAME = "kubernetes.io/hostname"  # L node
NAMESPACE_NAME = "kubernetes.io/metadata.name"  # L Namespace: its own name
HELM_RESOURCE_POLICY = "helm.sh/resource-policy"  # A CRD: `keep` = survives an uninstall
INHERITED_PREFIX = "volcano.sh/"  # A workload: what begins so reaches the PodGroup made for its pods
