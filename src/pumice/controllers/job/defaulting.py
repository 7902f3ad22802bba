"""A Job as it is meant: with the defaults that admission would have filled in."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec.structs import replace

from pumice.api.batch import Job, JobSpec
from pumice.api.decoding import decode_value
from pumice.api.defaults import apply_patch, job_patch
from pumice.api.validation.limits import JOB_REPLICAS_MAX, TASKS_MAX

SPECS_CACHED_MAX = 256
SPEC_CACHED_BYTES_MAX = 2**15  # all of them together are 8 MiB


def with_defaults(job: Job) -> Job:
    """The Job with what admission fills in, for clusters without our webhooks."""
    told = msgspec.json.encode({"spec": job.spec}, enc_hook=dict)
    spec = _defaulted(told) if len(told) <= SPEC_CACHED_BYTES_MAX else _defaulted.__wrapped__(told)
    return replace(job, spec=spec) if spec is not None else job


@lru_cache(SPECS_CACHED_MAX)
def _defaulted(told: bytes) -> JobSpec | None:
    """The spec with its defaults; None where it has them. A Job is planned many times, and its spec is mostly the same."""
    job = msgspec.json.decode(told)
    patch = job_patch(job)
    return decode_value(Job, apply_patch(job, patch)).spec if patch else None


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
