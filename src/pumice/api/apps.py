"""Workloads of Kubernetes (apps/v1, ReplicationController, batch/v1 Job): owners of bare pods, as far as we ask them."""

from collections.abc import Mapping

from pumice.api.meta import NO_METADATA, NOTHING, LabelSelector, ObjectMeta, Struct


class WorkloadSpec(Struct):
    """How many pods a workload wants and which are its own."""

    replicas: int = 1
    selector: LabelSelector | None = None


class ReplicaSet(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: WorkloadSpec = WorkloadSpec()


class DaemonSet(Struct):
    metadata: ObjectMeta = NO_METADATA


class ReplicationControllerSpec(Struct):
    selector: Mapping[str, str] = NOTHING


class ReplicationController(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class KubeJob(Struct):
    """Kubernetes' own Job (batch/v1); `batch.Job` is Volcano's."""

    metadata: ObjectMeta = NO_METADATA
