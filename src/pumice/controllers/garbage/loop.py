"""Looks at every Job that changes, and again when its time is up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.batch import Job
from pumice.controllers.driver import Controller, Wake, itself
from pumice.controllers.garbage.plan import plan
from pumice.controllers.operations import NOTHING_TO_DO, Plan

if TYPE_CHECKING:
    from pumice.controllers.cache import Cache
    from pumice.instant import Instant
    from pumice.kube.informer import Key


def controller(cache: Cache) -> Controller:
    jobs = cache.of(Job)

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        job = jobs.get(*key)
        return NOTHING_TO_DO if job is None else plan(job, now)

    return Controller("garbage", look, (Wake(Job, itself),))
