"""The names by which the pods of a Job find one another."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pumice.api import decoding, names
from pumice.api.pods import PodTemplate
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.controllers.job.defaulting import pod_name

if TYPE_CHECKING:
    from pumice.api.batch import Job, Task

TEMPLATES_CACHED_MAX = 4_096


@lru_cache(TEMPLATES_CACHED_MAX)
def _names_in(template: bytes) -> tuple[str, str]:
    spec = decoding.decode(PodTemplate, template).spec
    return spec.hostname, spec.subdomain


def host(job: Job, task: Task, index: int) -> str:
    hostname, _ = _names_in(bytes(task.template))
    return hostname or pod_name(job, task.name, index)


def address(job: Job, task: Task, index: int) -> str:
    _, subdomain = _names_in(bytes(task.template))
    return f"{host(job, task, index)}.{subdomain or job.metadata.name}"


def addresses(job: Job, task: Task) -> list[str]:
    """The address of each replica."""
    hostname, subdomain = _names_in(bytes(task.template))
    domain, count = subdomain or job.metadata.name, min(task.replicas, JOB_REPLICAS_MAX)
    return [f"{hostname or pod_name(job, task.name, index)}.{domain}" for index in range(count)]


def hosts(job: Job, task: Task) -> list[tuple[str, str]]:
    """Host and address of each replica; of the first one alone where the template names the host."""
    hostname, _ = _names_in(bytes(task.template))
    found = addresses(job, task)[: 1 if hostname else None]
    return [(hostname or pod_name(job, task.name, index), each) for index, each in enumerate(found)]


def task_named(job: Job, name: str) -> Task | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def selector(job: Job) -> dict[str, str]:
    """The labels that all pods of the Job have, and no others."""
    return {names.JOB_NAME: job.metadata.name, names.JOB_NAMESPACE: job.metadata.namespace}
