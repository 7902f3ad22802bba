"""Looks at a limited gang when it or one of its pods changes, and when its warning or its end is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.groups import group_of, named_group
from pumice.api.native import NativePodGroup
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.controllers.driver import Controller, Wake, itself
from pumice.controllers.operations import NOTHING_TO_DO
from pumice.controllers.ownership import job_reference
from pumice.controllers.timelimit.plan import View, plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pumice.controllers.cache import Cache, Store
    from pumice.controllers.operations import Plan
    from pumice.instant import Instant

GATHER_S = 0.05  # a gang's pods start together
NATIVE = "timelimit-native"
_BY_GROUP = "named group"
_BY_NATIVE_GROUP = "native group"


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

    return Controller("timelimit", look, _wakes(groups, PodGroup, _group_of))


def native_controller(cache: Cache) -> Controller:
    """The same for groups of Kubernetes' own, on API servers that have them; nobody but their pods is to be told."""
    groups, pods = cache.of(NativePodGroup), cache.of(Pod)
    pods.index(_BY_NATIVE_GROUP, _native_group_of)

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        group = groups.get(*key)
        if group is None or not _is_limited(group):
            return NOTHING_TO_DO
        return plan(View(group, pods.find(_BY_NATIVE_GROUP, f"{key.namespace}/{key.name}")), now)

    return Controller(NATIVE, look, _wakes(groups, NativePodGroup, _native_group_of))


def _wakes(
    groups: Store[Any], kind: type[PodGroup | NativePodGroup], group_of: Callable[[Pod], tuple[str, ...]]
) -> tuple[Wake, ...]:
    def limited_group(pod: Pod) -> Iterable[Key]:
        # Most pods belong to gangs without a limit, and change often: they wake nobody.
        keys = (Key(pod.metadata.namespace, named.partition("/")[2]) for named in group_of(pod))
        return [key for key in keys if (group := groups.get(*key)) is not None and _is_limited(group)]

    return (
        Wake(kind, lambda group: itself(group) if _is_limited(group) else ()),
        Wake(Pod, limited_group, GATHER_S),
    )


def _is_limited(group: PodGroup | NativePodGroup) -> bool:
    """Whether it has a limit, or had one of which something is recorded."""
    annotations = group.metadata.annotations
    return names.TIME_LIMIT in annotations or names.TIME_LIMIT_WARNING in annotations or names.RUN in annotations


def _group_of(pod: Pod) -> tuple[str, ...]:
    name = named_group(pod.metadata.annotations)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def _native_group_of(pod: Pod) -> tuple[str, ...]:
    group = group_of(pod)
    return (f"{pod.metadata.namespace}/{group.name}",) if group.is_native else ()
