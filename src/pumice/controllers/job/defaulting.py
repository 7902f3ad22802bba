"""A Job as it is meant: with the defaults that admission would have filled in."""

from __future__ import annotations

from msgspec.structs import replace

from pumice.api.batch import ABSENT, DEFAULT_MAX_RETRY, DEFAULT_QUEUE, Job, JobVolume, Task
from pumice.api.defaults import DEFAULT_SCHEDULER, NEEDS_SSH, NEEDS_SVC


def defaulted(job: Job) -> Job:
    """The Job with what admission fills in, for clusters without our webhooks."""
    spec = job.spec
    tasks = tuple(_defaulted_task(task, number) for number, task in enumerate(spec.tasks))
    plugins = dict(spec.plugins or {})
    for needed, dependents in (("svc", NEEDS_SVC), ("ssh", NEEDS_SSH)):
        if any(name in plugins for name in dependents):
            plugins.setdefault(needed, ())
    filled = replace(
        spec,
        tasks=tasks,
        queue=spec.queue or DEFAULT_QUEUE,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        max_retry=spec.max_retry or DEFAULT_MAX_RETRY,
        min_available=spec.min_available or sum(minimum(task) for task in tasks),
        plugins=plugins,
    )
    return replace(job, spec=filled)


def _defaulted_task(task: Task, number: int) -> Task:
    name = task.name or f"default{number}"
    return replace(task, name=name, min_available=minimum(task), max_retry=task.max_retry or DEFAULT_MAX_RETRY)


def minimum(task: Task) -> int:
    """How many pods of a task must be there: as given, or the partitions that must, or all."""
    if task.min_available is not None:
        return task.min_available
    policy = task.partition_policy
    together = policy.min_partitions * policy.partition_size if policy is not None else 0
    return together or task.replicas


def pod_name(job: Job, task: str, index: int) -> str:
    return f"{job.metadata.name}-{task}-{index}"


def total_replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)


def makes_claim(volume: JobVolume) -> bool:
    """True where a claim is to be made for the Job."""
    return bytes(volume.volume_claim) != bytes(ABSENT)
