"""Workloads of Kubernetes (apps/v1, ReplicationController, batch/v1 Job): owners of bare pods, as far as we ask them."""

from collections.abc import Mapping

from pumice.api.meta import NO_METADATA, NOTHING, Condition, LabelSelector, ObjectMeta, Struct


class WorkloadSpec(Struct):
    """How many pods a workload wants and which are its own."""

    replicas: int = 1
    selector: LabelSelector | None = None


class WorkloadStatus(Struct):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class Deployment(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class StatefulSetStatus(Struct):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: WorkloadSpec = WorkloadSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(Struct):
    selector: LabelSelector | None = None


class DaemonSetStatus(Struct):
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSet(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ReplicationControllerSpec(Struct):
    replicas: int = 1
    selector: Mapping[str, str] = NOTHING


class ReplicationController(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: WorkloadStatus = WorkloadStatus()


class KubeJobSpec(Struct):
    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False
    selector: LabelSelector | None = None


class KubeJobStatus(Struct):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class KubeJob(Struct):
    """Kubernetes' own Job (batch/v1); `batch.Job` is Volcano's."""

    metadata: ObjectMeta = NO_METADATA
    spec: KubeJobSpec = KubeJobSpec()
    status: KubeJobStatus = KubeJobStatus()
