"""The pods of a Job: the user's template, untouched, and what ties it to its Job, its gang and its place in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import names
from pumice.controllers.job import volumes
from pumice.controllers.job.defaulting import pod_name
from pumice.controllers.job.podgroup import group_name
from pumice.controllers.ownership import owned_metadata, with_owners_submitter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json
    from pumice.controllers.job.plugins.plugin import JobPlugin

_FROM_ANNOTATIONS = (
    names.PREEMPTABLE,
    names.COOLDOWN_TIME,
    names.REVOCABLE_ZONE,
    names.TIME_LIMIT_SIGNAL,
    names.CHECKPOINT_SIGNAL,
)
_FROM_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)


class PodMaker:
    """Makes the pods of one Job; templates are parsed once for each task."""

    def __init__(self, job: Job, plugins: Sequence[JobPlugin], *, group: str, forwarded: bool) -> None:
        self._job = job
        self._plugins = plugins
        self._group = group or group_name(job)
        self._forwarded = forwarded

    def pods_of(self, task: Task, indexes: Iterable[int]) -> list[Json]:
        return [self._pod(task, index) for index in indexes]

    def _pod(self, task: Task, index: int) -> Json:
        job = self._job
        template: Json = msgspec.json.decode(task.template)
        written = template.get("metadata") or {}
        metadata = owned_metadata(job, pod_name(job, task.name, index))
        metadata["labels"] = {**(written.get("labels") or {}), **self._labels(task, index)}
        annotations = {**(written.get("annotations") or {}), **self._annotations(task, index)}
        metadata["annotations"] = with_owners_submitter(job, annotations)
        if task.topology_policy:
            metadata["annotations"].setdefault(names.NUMA_TOPOLOGY_POLICY, task.topology_policy)
        pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}
        self._complete(pod["spec"])
        for plugin in self._plugins:
            plugin.on_pod(pod, job, task, index)
        return pod

    def _labels(self, task: Task, index: int) -> dict[str, str]:
        job = self._job
        labels = {
            names.JOB_NAME: job.metadata.name,
            names.JOB_NAMESPACE: job.metadata.namespace,
            names.TASK_SPEC: task.name,
            names.TASK_INDEX: str(index),
            names.JOB_QUEUE: job.spec.queue,
            **_present(job.metadata.labels, _FROM_LABELS),
        }
        if task.partition_policy is not None:
            labels[names.PARTITION_ID] = str(index // (task.partition_policy.partition_size or 1))
        if self._forwarded:
            labels[names.JOB_FORWARDING] = "true"
        return labels

    def _annotations(self, task: Task, index: int) -> dict[str, str]:
        job = self._job
        annotations = {
            names.JOB_NAME: job.metadata.name,
            names.TASK_SPEC: task.name,
            names.TASK_INDEX: str(index),
            names.JOB_QUEUE: job.spec.queue,
            names.JOB_VERSION: str(job.status.version),
            names.JOB_RETRY_COUNT: str(job.status.retry_count),
            names.TEMPLATE_UID: f"{job.metadata.name}-{task.name}",
            names.GROUP_NAME: self._group,
            **_present(job.metadata.annotations, _FROM_ANNOTATIONS),
        }
        budgets = _present(job.metadata.annotations, (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE))
        annotations |= dict(list(budgets.items())[:1])  # the first of the two wins
        if self._forwarded:
            annotations[names.JOB_FORWARDING] = "true"
        return annotations

    def _complete(self, spec: Json) -> None:
        job = self._job
        if not spec.get("schedulerName"):
            spec["schedulerName"] = job.spec.scheduler_name
        if not spec.get("priorityClassName") and job.spec.priority_class_name:
            spec["priorityClassName"] = job.spec.priority_class_name
        for volume, claim, path in volumes.mounts(job):
            add_volume(spec, {"name": volume, "persistentVolumeClaim": {"claimName": claim}})
            for container in spec.get("containers") or ():
                add_mount(container, {"name": volume, "mountPath": path})


def _present(source: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: source[key] for key in keys if key in source}


# ----------------------------------------------------------------------------------- what plugins do to pods, too


def containers(spec: Json, *, init: bool = True) -> list[Json]:
    """The containers, and unless told otherwise the init containers before them."""
    return [*((spec.get("initContainers") or ()) if init else ()), *(spec.get("containers") or ())]


def add_volume(spec: Json, volume: Json) -> None:
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]


def add_mount(container: Json, mount: Json) -> None:
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def add_env(container: Json, *variables: dict[str, Any]) -> None:
    container["env"] = [*(container.get("env") or ()), *variables]


def add_port(container: Json, name: str, number: int) -> None:
    """Exposes a port unless that number is exposed already."""
    ports = container.get("ports") or ()
    if all(port.get("containerPort") != number for port in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": number}]
