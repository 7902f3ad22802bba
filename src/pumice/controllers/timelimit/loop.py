"""Looks at a limited gang when it or one of its pods changes, and when its warning or its end is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.groups import named_group
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.controllers.driver import Controller, Wake, itself
from pumice.controllers.operations import NOTHING_TO_DO
from pumice.controllers.ownership import job_reference
from pumice.controllers.timelimit.plan import View, plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.controllers.cache import Cache
    from pumice.controllers.operations import Plan
    from pumice.instant import Instant

GATHER_S = 0.05  # a gang's pods start together
_BY_GROUP = "named group"


def controller(cache: Cache) -> Controller:
    groups, pods, jobs = cache.of(PodGroup), cache.of(Pod), cache.of(Job)
    pods.index(_BY_GROUP, _group_of)

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        group = groups.get(*key)
        if group is None or not _is_limited(group):
            return NOTHING_TO_DO
        owner = job_reference(group)
        job = jobs.get(key.namespace, owner.name) if owner is not None else None
        members = pods.find(_BY_GROUP, f"{key.namespace}/{key.name}")
        return plan(View(group, members, is_jobs=owner is not None, job=job), now)

    def limited_group(pod: Pod) -> Iterable[Key]:
        # Most pods belong to gangs without a limit, and change often: they wake nobody.
        key = Key(pod.metadata.namespace, named_group(pod.metadata.annotations))
        group = groups.get(*key) if key.name else None
        return (key,) if group is not None and _is_limited(group) else ()

    wakes = (
        Wake(PodGroup, lambda group: itself(group) if _is_limited(group) else ()),
        Wake(Pod, limited_group, GATHER_S),
    )
    return Controller("timelimit", look, wakes)


def _is_limited(group: PodGroup) -> bool:
    """Whether it has a limit, or had one of which something is recorded."""
    annotations = group.metadata.annotations
    return names.TIME_LIMIT in annotations or names.TIME_LIMIT_WARNING in annotations or names.RUN in annotations


def _group_of(pod: Pod) -> tuple[str, ...]:
    name = named_group(pod.metadata.annotations)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
