"""A Job as it is meant: with the defaults that admission would have filled in."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from pumice.api.batch import ABSENT, Job, JobVolume
from pumice.api.decoding import decode_value
from pumice.api.defaults import apply_patch, job_patch
from pumice.api.validation.limits import JOB_REPLICAS_MAX, TASKS_MAX


def with_defaults(job: Job) -> Job:
    """The Job with what admission fills in, for clusters without our webhooks."""
    told = msgspec.json.decode(msgspec.json.encode({"spec": job.spec}, enc_hook=dict))
    patch = job_patch(told)
    return replace(job, spec=decode_value(Job, apply_patch(told, patch)).spec) if patch else job


def pod_name(job: Job, task: str, index: int) -> str:
    return f"{job.metadata.name}-{task}-{index}"


def total_replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)


def excess(job: Job) -> str:
    """What makes the Job too large to be carried out, in a sentence; empty where nothing does. Admission refuses such Jobs."""
    total = sum(max(task.replicas, 0) for task in job.spec.tasks)
    if total > JOB_REPLICAS_MAX:
        return f"its tasks have {total} replicas together, at most {JOB_REPLICAS_MAX} (JOB_REPLICAS_MAX): no pods are made; make several jobs of it"
    if len(job.spec.tasks) > TASKS_MAX:
        return f"it has {len(job.spec.tasks)} tasks, at most {TASKS_MAX} (TASKS_MAX): no pods are made; make several jobs of it"
    return ""


def makes_claim(volume: JobVolume) -> bool:
    """True where a claim is to be made for the Job."""
    return bytes(volume.volume_claim) != bytes(ABSENT)
