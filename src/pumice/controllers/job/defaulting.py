"""A Job as it is meant: with the defaults that admission would have filled in."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from pumice.api.batch import ABSENT, Job, JobVolume
from pumice.api.decoding import decode_value
from pumice.api.defaults import apply_patch, job_patch


def with_defaults(job: Job) -> Job:
    """The Job with what admission fills in, for clusters without our webhooks."""
    told = msgspec.json.decode(msgspec.json.encode({"spec": job.spec}, enc_hook=dict))
    patch = job_patch(told)
    return replace(job, spec=decode_value(Job, apply_patch(told, patch)).spec) if patch else job


def pod_name(job: Job, task: str, index: int) -> str:
    return f"{job.metadata.name}-{task}-{index}"


def total_replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)


def makes_claim(volume: JobVolume) -> bool:
    """True where a claim is to be made for the Job."""
    return bytes(volume.volume_claim) != bytes(ABSENT)
