"""Looks at a group when its pods, their workload or the group itself change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.api import kinds, names
from pumice.api.apps import DaemonSet, KubeJob, ReplicaSet, StatefulSet
from pumice.api.core import Namespace
from pumice.api.groups import group_of
from pumice.api.pods import Pod
from pumice.api.scheduling import GROUP_PREFIX, SCHEDULER_NAMES, PodGroup, implied_group, is_workload
from pumice.controllers.cache import annotations_of_namespace
from pumice.controllers.driver import Controller, Wake
from pumice.controllers.podgroup.plan import View, newest, plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.controllers.cache import Cache
    from pumice.controllers.operations import Plan
    from pumice.controllers.podgroup.plan import Workload
    from pumice.instant import Instant

WORKLOADS: tuple[type[Workload], ...] = (ReplicaSet, StatefulSet, DaemonSet, KubeJob)
GATHER_S = 0.02  # a workload's pods come one by one, and share a group


def controller(
    cache: Cache, scheduler_names: frozenset[str] = frozenset(SCHEDULER_NAMES), *, inherits: bool = True
) -> Controller:
    """`inherits`: groups take over the annotations of workloads, the wish for a gang among them."""
    pods, groups = cache.of(Pod), cache.of(PodGroup)
    cache.of(Namespace)
    workloads = {kinds.by_struct(struct).kind: cache.of(struct) for struct in WORKLOADS}

    def implied(pod: Pod) -> Iterable[str]:
        """Namespace and name of the group that we made for the pod, or have to make."""
        if pod.spec.scheduler_name not in scheduler_names:
            return ()
        group, name = group_of(pod), implied_group(pod.metadata)
        return (f"{pod.metadata.namespace}/{name}",) if group.name == name and not group.is_native else ()

    def owners_of(members: Sequence[Pod], key: Key) -> list[Workload]:
        """The workloads that the newest member names; without members, the one that the group is made for."""
        if not members:
            uid = key.name.removeprefix(GROUP_PREFIX)
            found = (store.find("uid", uid) for store in workloads.values())
            return [owner for owners in found for owner in owners]
        references = newest(members).metadata.owner_references
        found_one_by_one = (
            (workloads[each.kind].get(key.namespace, each.name), each.uid) for each in references if is_workload(each)
        )
        return [owner for owner, uid in found_one_by_one if owner is not None and owner.metadata.uid == uid]

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        members = pods.find("implied group", f"{key.namespace}/{key.name}")
        home = annotations_of_namespace(cache, key.namespace).get(names.QUEUE_NAME, "")
        return plan(View(key.name, groups.get(*key), members, owners_of(members, key), inherits, home), now)

    pods.index("implied group", implied)
    for store in workloads.values():
        store.index("uid", lambda owner: (owner.metadata.uid,))
    wakes = (
        Wake(PodGroup, lambda group: [Key(group.metadata.namespace, group.metadata.name)] if _is_ours(group) else []),
        Wake(Pod, lambda pod: map(Key.parse, implied(pod)), gather_s=GATHER_S),
        *(Wake(struct, _group_of_workload) for struct in WORKLOADS),
    )
    return Controller("podgroup", look, wakes)


def _is_ours(group: PodGroup) -> bool:
    return group.metadata.name.startswith(GROUP_PREFIX)


def _group_of_workload(workload: Any) -> tuple[Key]:
    return (Key(workload.metadata.namespace, f"{GROUP_PREFIX}{workload.metadata.uid}"),)
