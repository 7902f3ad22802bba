"""Looks at a template when it or a Job made from it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.flow import JobTemplate
from pumice.controllers.driver import Controller, Wake, itself
from pumice.controllers.jobtemplate.plan import plan
from pumice.controllers.operations import NOTHING_TO_DO, Plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.controllers.cache import Cache
    from pumice.instant import Instant

_BY_TEMPLATE = "template"


def controller(cache: Cache) -> Controller:
    templates, jobs = cache.of(JobTemplate), cache.of(Job)
    jobs.index(_BY_TEMPLATE, _origin)

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        del now
        template = templates.get(*key)
        made = jobs.find(_BY_TEMPLATE, f"{key.namespace}.{key.name}")
        return NOTHING_TO_DO if template is None else plan(template, made)

    return Controller("jobtemplate", look, (Wake(JobTemplate, itself), Wake(Job, _template)))


def _origin(job: Job) -> Iterable[str]:
    """`<namespace>.<template>`, of the Job's own namespace: no template's status names Jobs of another namespace."""
    origin = job.metadata.annotations.get(names.CREATED_BY_JOB_TEMPLATE, "")
    return (origin,) if origin.startswith(f"{job.metadata.namespace}.") else ()


def _template(job: Job) -> Iterable[Key]:
    # A namespace has no dot in its name; a template may.
    return [Key(job.metadata.namespace, origin.partition(".")[2]) for origin in _origin(job)]
