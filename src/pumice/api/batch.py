"""Job and CronJob (batch.volcano.sh/v1alpha1).

Pod templates and claim specs stay raw JSON: they reach the pods exactly as the user wrote them. Phases, events and actions
are plain text in the Structs, because a word that we do not know must not make an object unreadable; the enums name the
words that mean something.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from pumice.api.meta import NO_METADATA, NOTHING, ObjectMeta, ObjectReference, Struct

DEFAULT_QUEUE = "default"
DEFAULT_MAX_RETRY = 3
NO_JSON = msgspec.Raw(b"{}")
ABSENT = msgspec.Raw(b"null")  # raw JSON that is not there; a client may also have written null
NO_COUNTS: Mapping[str, int] = MappingProxyType({})


class JobPhase(enum.StrEnum):
    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


LIVE_PHASES = frozenset({JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING})
SUSPENDED_PHASES = frozenset({JobPhase.ABORTING, JobPhase.ABORTED})  # in all others a Job is over


class JobEvent(enum.StrEnum):
    """What a policy may wait for; the schema accepts all, the webhook refuses those that can never fire."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"
    JOB_UPDATED = "JobUpdated"
    TASK_FAILED = "TaskFailed"
    TIME_LIMIT_EXCEEDED = "TimeLimitExceeded"  # Pumice's own


class Action(enum.StrEnum):
    """What a policy or a Command may ask for; below the empty line, what users do not write into policies."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"

    SYNC_JOB = "SyncJob"
    ENQUEUE_JOB = "EnqueueJob"
    SYNC_QUEUE = "SyncQueue"
    OPEN_QUEUE = "OpenQueue"
    CLOSE_QUEUE = "CloseQueue"


class NumaPolicy(enum.StrEnum):
    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyMode(enum.StrEnum):
    HARD = "hard"
    SOFT = "soft"


class ConcurrencyPolicy(enum.StrEnum):
    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class NetworkTopology(Struct):
    """How far apart the pods of a group may be; the two limits exclude each other."""

    mode: str = TopologyMode.HARD.value
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class LifecyclePolicy(Struct):
    """What to do when something happens to a pod, a task or the job."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str | None = None  # a Go duration; absent: at once


class JobVolume(Struct):
    """A claim mounted in every container of every pod, named by the user or made for the job."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: msgspec.Raw = ABSENT

    @property
    def makes_claim(self) -> bool:
        """True where a claim is to be made for the job."""
        return bytes(self.volume_claim) != bytes(ABSENT)


class TaskDependency(Struct):
    name: tuple[str, ...] = ()
    iteration: str = ""  # `any`, or else all


class PartitionPolicy(Struct):
    """Splits a task into equal parts, each of which is placed together."""

    total_partitions: int = 0
    partition_size: int = 0
    network_topology: NetworkTopology | None = None
    min_partitions: int = 0


class Task(Struct):
    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: msgspec.Raw = NO_JSON
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: str = ""
    max_retry: int = 0
    depends_on: TaskDependency | None = None
    partition_policy: PartitionPolicy | None = None


class JobSpec(Struct):
    scheduler_name: str = ""
    min_available: int = 0
    volumes: tuple[JobVolume, ...] = ()
    tasks: tuple[Task, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    # Absent and empty differ: defaults are added to a present one only.
    plugins: Mapping[str, tuple[str, ...]] | None = None
    running_estimate: str | None = None
    queue: str = DEFAULT_QUEUE
    max_retry: int = DEFAULT_MAX_RETRY
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: NetworkTopology | None = None


class JobState(Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class TaskState(Struct):
    """How many pods of a task are in which phase."""

    phase: Mapping[str, int] = NO_COUNTS


NO_TASK_STATES: Mapping[str, TaskState] = MappingProxyType({})


class JobCondition(Struct):
    """A phase that the job has entered, and when it last did."""

    status: str = ""
    last_transition_time: str | None = None


class JobStatus(Struct):
    state: JobState = JobState()
    min_available: int = 0
    task_status_count: Mapping[str, TaskState] = NO_TASK_STATES
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None
    controlled_resources: Mapping[str, str] = NOTHING
    conditions: tuple[JobCondition, ...] = ()


class Job(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateMeta(Struct):
    """What of a template's metadata the schema keeps; labels and annotations reach the jobs."""

    name: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    finalizers: tuple[str, ...] = ()


class CronJobTemplate(Struct):
    """A job to be made; its spec goes into the job as it stands, and decodes as a JobSpec where it must be read."""

    metadata: JobTemplateMeta = JobTemplateMeta()
    spec: msgspec.Raw = NO_JSON


class CronJobSpec(Struct):
    schedule: str = ""
    job_template: CronJobTemplate = CronJobTemplate()
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ConcurrencyPolicy.ALLOW.value
    suspend: bool = False
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class CronJobStatus(Struct):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
