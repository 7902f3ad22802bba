"""Looks at a CronJob when it or one of its Jobs changes, and when its next time comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.batch import CronJob, Job
from pumice.api.kinds import is_of_kind
from pumice.controllers.cronjob.plan import plan
from pumice.controllers.driver import Controller, Wake, itself
from pumice.controllers.operations import NOTHING_TO_DO, Plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.controllers.cache import Cache
    from pumice.instant import Instant


def controller(cache: Cache) -> Controller:
    cron_jobs, jobs = cache.of(CronJob), cache.of(Job)

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        cron_job = cron_jobs.get(*key)
        return NOTHING_TO_DO if cron_job is None else plan(cron_job, jobs.owned_by(cron_job.metadata.uid), now)

    return Controller("cronjob", look, (Wake(CronJob, itself), Wake(Job, _maker)))


def _maker(job: Job) -> Iterable[Key]:
    owner = job.metadata.controller
    is_cron = owner is not None and is_of_kind(owner, CronJob)
    return (Key(job.metadata.namespace, owner.name),) if owner is not None and is_cron else ()
