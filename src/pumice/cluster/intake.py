"""The only writer of the cluster state: one Change after another, in any order that the API server's watches allow.

Whatever the order, the state ends up as if it had been listed afresh: news about one object replaces what was known of it,
and what refers to something unknown waits for it. The state never goes back: pods are read outside their watch, too, and what a
watch says afterwards may be older (docs/adr/0016).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from pumice.api import changes, disruptions, names
from pumice.api.core import Node
from pumice.api.groups import group_of
from pumice.api.native import NativePodGroup
from pumice.api.pods import ENDED, Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, PodGroupPhase, Queue, implied_group, is_workload
from pumice.api.topology import HyperNode
from pumice.cluster import amounts, cards, freshness, relevance, state
from pumice.cluster.fingerprints import fingerprint
from pumice.cluster.queues import queue_of
from pumice.cluster.tasks import EVICTABLE, FINISHED, ON_A_NODE, Status, Task, as_mate, moved_on, task_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.meta import Struct
    from pumice.cluster.state import Cluster, GangSlot, NodeSlot


_NUMBER = re.compile(r"[0-9]{1,64}")
ATTEMPTS_MAX = 4_096  # stamped in the future; the oldest are forgotten first
_RAN = frozenset({Status.RUNNING, Status.SUCCEEDED})
GONE_MAX = 16_384  # uids of pods that are gone, so that an answer or an event that comes late does not bring them back


class Held(NamedTuple):
    """What an intake knows beside its cluster; for reading."""

    pods: Mapping[str, Pod]  # by uid
    queues: Mapping[str, Queue]
    assumed: Mapping[str, changes.Assumed]  # by uid of the pod
    evicting: Iterable[str]  # uids
    gone: Iterable[str]  # uids


class Intake:
    """Applies Changes to a Cluster. What dispatch said about a pod lies over what the API server says until that catches up."""

    def __init__(self, cluster: Cluster, *, gone: Iterable[str] = (), resources: Iterable[str] = ()) -> None:
        self.cluster = cluster
        self._pods: dict[str, Pod] = {}
        self._queues: dict[str, Queue] = {}
        self._uid_by_key: dict[str, str] = {}
        self._uids_by_implied: dict[str, set[str]] = {}  # pods that name no group, by the key of the one made for them
        self._assumed: dict[str, changes.Assumed] = {}
        self._evicting: set[str] = set()
        self._gone: dict[str, None] = dict.fromkeys(gone)
        self._last: Task | None = None  # that news was about
        _learn(cluster, dict.fromkeys(resources, 0))

    @property
    def held(self) -> Held:
        return Held(self._pods, self._queues, self._assumed, self._evicting, self._gone)

    def withdraw(self, thing: Pod | PodGroup) -> None:
        """As a Deleted, of what somebody runs ahead, and that is to come again as it is."""
        self.apply(changes.Deleted(object=thing))
        self._gone.pop(thing.metadata.uid, None)

    def copy(self) -> Intake:
        """The writer of a copy of the cluster."""
        twin = Intake(self.cluster.copy())
        for name in ("_pods", "_queues", "_uid_by_key", "_assumed", "_evicting", "_gone"):
            setattr(twin, name, getattr(self, name).copy())
        twin._uids_by_implied = {key: uids.copy() for key, uids in self._uids_by_implied.items()}
        return twin

    def apply(self, change: changes.Change) -> None:
        self.cluster.revision += 1
        self.cluster.shifts += relevance.shifts_rules(self.cluster, change)
        if relevance.changes_rules(self.cluster, change):
            self.cluster.rules = None
        match change:
            case changes.Upserted(object=thing):
                self._upsert(thing)
            case changes.Deleted(object=thing):
                self._delete(thing)
            case changes.Relisted(struct=kind, uids=uids):
                self._relist(kind, uids)
            case changes.Claimed(claim=claim):
                self.cluster.claims[claim.gang] = claim
            case changes.Unclaimed(gang=gang):
                self.cluster.claims.pop(gang, None)
            case changes.Admitted(gang=gang, uid=uid):
                self._admit(gang, uid)
            case changes.AttemptSeen(attempt=attempt, at=at):
                freshness.remember(self.cluster.seen_at, attempt, at, most=ATTEMPTS_MAX)
            case _:
                self._outcome(change)

    def get_on(self, pods: Iterable[Pod]) -> None:
        """As an Upserted for each, of pods that somebody runs ahead and that have only got on: nothing comes late that has to be kept out."""
        for pod in pods:
            uid = pod.metadata.uid
            known = self.cluster.tasks.get(uid)
            is_plain = known is not None and known.pod is self._pods.get(uid) and uid not in self._evicting
            task = moved_on(known, pod) if known is not None and known.gang and is_plain else None
            if task is None or task.status not in _RAN or names.EVICTION_NOTICE in pod.metadata.annotations:
                self.apply(changes.Upserted(object=pod))
                continue
            self.cluster.revision += 1
            self._pods[uid] = pod
            if task.node:
                self._assumed.pop(uid, None)
            self._replace(uid, task)

    # ------------------------------------------------------------------------------------------------- news

    def _upsert(self, thing: Struct) -> None:
        if isinstance(thing, Pod):
            self._upsert_pod(thing)
            return
        known = freshness.last_seen(self.cluster, thing)
        if known is not None and freshness.is_past(thing, known):
            return
        match thing:
            case Node():
                self._upsert_node(thing)
            case PodGroup():
                self._set_group(thing.metadata.key, thing)
            case NativePodGroup():
                self._set_group(state.native_key(thing.metadata.namespace, thing.metadata.name), thing)
            case Queue():
                self._queues[thing.metadata.name] = thing
                self.cluster.queues[thing.metadata.name] = queue_of(thing)
            case _:
                self._set_other(thing, present=True)

    def _delete(self, thing: Struct) -> None:
        match thing:
            case Pod():
                self._delete_pod(thing.metadata.uid or thing.metadata.key)
            case Node():
                self._delete_node(thing.metadata.name)
            case PodGroup():
                self._set_group(thing.metadata.key, None, uid=thing.metadata.uid)
            case NativePodGroup():
                key = state.native_key(thing.metadata.namespace, thing.metadata.name)
                self._set_group(key, None, uid=thing.metadata.uid)
            case Queue():
                self._queues.pop(thing.metadata.name, None)
                self.cluster.queues.pop(thing.metadata.name, None)
            case _:
                self._set_other(thing, present=False)

    def _relist(self, kind: type[Struct], uids: frozenset[str]) -> None:
        """Forget every object of a kind that a whole list no longer has."""
        own: Mapping[type[Struct], Mapping[str, Struct]] = {Queue: self._queues, Pod: self._pods}
        known: list[Any] = [*own[kind].values()] if kind in own else freshness.all_seen(self.cluster, kind)
        for thing in known:
            if thing.metadata.uid not in uids:
                self._delete(thing)

    def _set_other(self, thing: Any, *, present: bool) -> None:
        cluster, kind = self.cluster, type(thing)
        table = cluster.others.setdefault(kind, {})
        if present:
            table[thing.metadata.key] = thing
        else:
            table.pop(thing.metadata.key, None)
        cluster.changed_others.add(kind)
        if kind is PriorityClass:
            cluster.changed_gangs.update(cluster.gangs)
        elif kind is HyperNode:
            cluster.tree = None

    def _set_group(self, key: str, group: PodGroup | NativePodGroup | None, uid: str = "") -> None:
        slot = _gang(self.cluster, key)
        if group is None and uid and slot.group is not None and slot.group.metadata.uid != uid:
            return  # news about a predecessor of the same name
        is_news = (slot.group is None) != (group is None)
        slot.is_admitted &= slot.group is not None and _awaits_admission(group, slot.group.metadata.uid)
        slot.group = group
        self._touch_gang(key, slot)
        for each in list(self._uids_by_implied.get(key, ())) if is_news else ():
            self._refresh(each)

    def _admit(self, key: str, uid: str) -> None:
        """Lay our decision over what the API server says of the group, until that catches up."""
        slot = self.cluster.gangs.get(key)
        if slot is not None and _awaits_admission(slot.group, uid):
            slot.is_admitted = True
            self._touch_gang(key, slot)

    # ------------------------------------------------------------------------------------------------- pods

    def _upsert_pod(self, pod: Pod) -> None:
        key = pod.metadata.key
        uid, former = pod.metadata.uid or key, self._uid_by_key.get(key)
        last = self._pods.get(former) if former is not None else None
        if uid in self._gone or (last is not None and freshness.is_past(pod, last)):
            return
        if former is not None and former != uid:
            self._delete_pod(former)  # its deletion was never told, or comes later
        known = self._pods.get(uid)
        self._pods[uid] = pod
        if known is None or known.metadata is not pod.metadata:
            self._uid_by_key[key] = uid
            self._unimply(uid, known)
            self._uids_by_implied.setdefault(_implied_key(pod), set()).add(uid)
        if pod.spec.node_name:
            self._assumed.pop(uid, None)
        if pod.metadata.deletion_timestamp is not None or pod.status.phase in ENDED:
            self._evicting.discard(uid)
        self._refresh(uid)

    def _delete_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None and pod.metadata.uid:
            freshness.remember(self._gone, uid, None, most=GONE_MAX)
        self._assumed.pop(uid, None)
        self._evicting.discard(uid)
        self._unimply(uid, pod)
        if pod is not None:
            if self._uid_by_key.get(pod.metadata.key) == uid:
                del self._uid_by_key[pod.metadata.key]
            self._replace(uid, None)

    def _unimply(self, uid: str, pod: Pod | None) -> None:
        if pod is not None:
            uids = self._uids_by_implied[_implied_key(pod)]
            uids.discard(uid)
            if not uids:
                del self._uids_by_implied[_implied_key(pod)]

    def _outcome(self, change: changes.Change) -> None:
        match change:
            case changes.Assumed(pod=pod):
                if pod.uid in self._pods:
                    self._assumed[pod.uid] = change
            case changes.BindFailed(pod=pod, attempt=attempt) | changes.Forgotten(pod=pod, attempt=attempt) if attempt:
                assumed = self._assumed.get(pod.uid)
                if assumed is not None and assumed.attempt == attempt:
                    del self._assumed[pod.uid]
            case changes.Forgotten(pod=pod):
                self._evicting.discard(pod.uid)
            case changes.Evicting(pod=pod):
                if pod.uid in self._pods:
                    self._evicting.add(pod.uid)
            case changes.BindUnknown(pod=pod):
                pass  # the charge stays as it is until the pod has been read back
            case _:
                raise TypeError(f"{type(change).__name__} is no Change that the state knows")
        self._refresh(pod.uid)

    def _refresh(self, uid: str) -> None:
        """What the API server says of the pod, and over it what dispatch has said since."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        task = self._last = _task_of(pod, self._gang_of(pod), self.cluster.tasks.get(uid), self._last)
        assumed = self._assumed.get(uid)
        if assumed is not None and task.status is Status.PENDING:
            task = msgspec.structs.replace(
                task, status=Status.BINDING, node=assumed.node, pod=_with_annotations(pod, assumed)
            )
        elif task.status in EVICTABLE and (uid in self._evicting or _has_to_leave(pod)):
            task = msgspec.structs.replace(task, status=Status.RELEASING)
        elif task.status is Status.BOUND and _is_nowhere(self.cluster, task):
            task = msgspec.structs.replace(task, status=Status.UNKNOWN)
        # A pod that is not ours matters only while it takes room.
        self._replace(uid, task if task.gang or (task.node and task.status not in FINISHED) else None)

    def _gang_of(self, pod: Pod) -> str:
        """Whose member the pod is; once a bare pod has its group, it stays there, whichever queue it names afterwards."""
        key = _gang_key(pod, self.cluster.scheduler_names)
        slot = self.cluster.gangs.get(_implied_key(pod)) if state.is_lone(key) else None
        return key if slot is None or slot.group is None else _implied_key(pod)

    def _replace(self, uid: str, task: Task | None) -> None:
        cluster = self.cluster
        former = cluster.unlist(uid)
        if former is not None:
            _charge(cluster, former, -1)
            if former.gang:
                slot = cluster.gangs[former.gang]
                slot.tasks.pop(uid, None)
                self._touch_gang(former.gang, slot)
        if task is None:
            return
        cluster.enlist(task)
        # a resource that no node has must not look like one that no pod asks for
        _learn(cluster, task.request.amounts)
        _charge(cluster, task, 1)
        if task.gang:
            slot = _gang(cluster, task.gang)
            slot.tasks[uid] = task
            self._touch_gang(task.gang, slot)

    def _touch_gang(self, key: str, slot: GangSlot) -> None:
        self.cluster.changed_gangs.add(key)
        if slot.group is None and not slot.tasks:
            self.cluster.gangs.pop(key, None)

    # ------------------------------------------------------------------------------------------------- nodes

    def _upsert_node(self, node: Node) -> None:
        cluster, name = self.cluster, node.metadata.name
        slot = _node(self.cluster, name)
        former, slot.node, cluster.nodes_changed = slot.node, node, True
        if former is None or relevance.offers(former) != relevance.offers(node):
            slot.offers = fingerprint(*relevance.offers(node))
        if slot.column is None:
            slot.column = _new_column(self.cluster)
            for task in slot.tasks.values():
                _add(self.cluster, slot.column, task, 1)
            cluster.node_order = None
            for uid in list(slot.tasks):
                self._refresh(uid)
        if (
            former is None
            or former.metadata.labels != node.metadata.labels
            or former.metadata.creation_timestamp != node.metadata.creation_timestamp
        ):
            cluster.node_order = cluster.tree = None
        room = allocatable_of(node)
        _learn(self.cluster, room)
        cluster.allocatable[:, slot.column] = cluster.axis.vector(room)

    def _delete_node(self, name: str) -> None:
        cluster = self.cluster
        slot = cluster.nodes.get(name)
        if slot is None or slot.column is None:
            return
        for rows in (cluster.allocatable, cluster.used, cluster.releasing):
            rows[:, slot.column] = 0
        cluster.free_columns.append(slot.column)
        cluster.nodes_changed = True
        slot.node = slot.column = None
        if not slot.tasks:
            del cluster.nodes[name]
        for uid in list(slot.tasks):
            self._refresh(uid)
        cluster.node_order = cluster.tree = None


def _gang(cluster: Cluster, key: str) -> GangSlot:
    slot = cluster.gangs.get(key)
    if slot is None:
        slot = cluster.gangs[key] = state.GangSlot()
    return slot


def _node(cluster: Cluster, name: str) -> NodeSlot:
    slot = cluster.nodes.get(name)
    if slot is None:
        slot = cluster.nodes[name] = state.NodeSlot()
    return slot


def _charge(cluster: Cluster, task: Task, sign: int) -> None:
    """Add the task to its node (1), or take it off (-1)."""
    if not task.node or task.status not in ON_A_NODE:
        return
    slot = _node(cluster, task.node)
    if sign > 0:
        slot.tasks[task.uid] = task
    else:
        slot.tasks.pop(task.uid, None)
    slot.frozen = None
    cluster.changed_residents.add(task.node)
    if slot.column is not None:
        _add(cluster, slot.column, task, sign)
    elif not slot.tasks and slot.node is None:
        cluster.nodes.pop(task.node, None)


def _add(cluster: Cluster, column: int, task: Task, sign: int) -> None:
    demand = cluster.axis.demand(task.request)
    for rows in (cluster.used, cluster.releasing) if task.status is Status.RELEASING else (cluster.used,):
        own = rows[:, column]
        if sign > 0:
            own += demand
        else:
            own -= demand


def _learn(cluster: Cluster, new: amounts.Amounts) -> None:
    """Make room for resources never seen before: a new row is zero for every node that lacks it."""
    cluster.axis.learn(new)
    missing = len(cluster.axis) - len(cluster.used)
    if missing:
        for name in ("allocatable", "used", "releasing"):
            rows = getattr(cluster, name)
            setattr(cluster, name, np.vstack([rows, np.zeros((missing, rows.shape[1]), dtype=np.int64)]))


def _new_column(cluster: Cluster) -> int:
    if not cluster.free_columns:
        size = cluster.used.shape[1]
        cluster.free_columns = list(range(2 * size - 1, size - 1, -1))
        for name in ("allocatable", "used", "releasing"):
            rows = getattr(cluster, name)
            setattr(cluster, name, np.hstack([rows, np.zeros_like(rows)]))
    return cluster.free_columns.pop()


def _task_of(pod: Pod, gang: str, known: Task | None, mate: Task | None) -> Task:
    """Found from what is known of it, or of a pod that came before it and is its equal."""
    task = moved_on(known, pod) if known is not None and known.gang == gang else None
    if task is None and mate is not None and mate.gang == gang:
        task = as_mate(mate, pod)
    return task_of(pod, gang=gang) if task is None else task


def _is_nowhere(cluster: Cluster, task: Task) -> bool:
    """Whether we have bound it to a node that was deleted meanwhile; API servers do not mind, and it will never start."""
    slot = cluster.nodes.get(task.node)
    return names.ATTEMPT in task.pod.metadata.annotations and (slot is None or slot.node is None)


def _gang_key(pod: Pod, scheduler_names: frozenset[str]) -> str:
    """Whose member the pod is; empty for one that is not ours."""
    meta, spec = pod.metadata, pod.spec
    if spec.scheduler_name and spec.scheduler_name not in scheduler_names:
        return ""
    group = group_of(pod)
    if group.is_native:
        return state.native_key(meta.namespace, group.name)
    if not group.is_implied:
        return f"{meta.namespace}/{group.name}"
    if not spec.scheduler_name:
        return ""
    if meta.controller is not None and is_workload(meta.controller):
        # Its workload may ask for a gang, and only the group that is made for it knows: the pod waits for that.
        return _implied_key(pod)
    return state.lone_key(meta.namespace, meta.name)


def _implied_key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{implied_group(pod.metadata)}"


def _awaits_admission(group: PodGroup | NativePodGroup | None, uid: str) -> bool:
    """Whether it is the group of that uid, and says itself that it was not admitted yet."""
    if not isinstance(group, PodGroup) or group.metadata.uid != uid:
        return False
    return group.status.phase in {"", PodGroupPhase.PENDING.value}


def _has_to_leave(pod: Pod) -> bool:
    """Whether it was given notice, by us or by a former leader."""
    notice = disruptions.notice_of(pod)
    return notice is not None and notice.leaves


def _with_annotations(pod: Pod, assumed: changes.Assumed) -> Pod:
    """The pod as it will be once its bind has taken effect: cards and CPUs that were chosen for it are taken from now on."""
    if not assumed.annotations:
        return pod
    annotations = {**pod.metadata.annotations, **assumed.annotations}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def allocatable_of(node: Node) -> amounts.MutableAmounts:
    """What the node may hand out, with what its agent oversells on top, and cards that only an annotation knows."""
    room = amounts.read(node.status.allocatable or node.status.capacity)
    for annotation, name in (
        (names.OVERSUBSCRIPTION_CPU, amounts.CPU),
        (names.OVERSUBSCRIPTION_MEMORY, amounts.MEMORY),
    ):
        oversold = node.metadata.annotations.get(annotation, "")
        if _NUMBER.fullmatch(oversold):  # milli-CPUs and bytes, as plain numbers
            amounts.add(room, {name: int(oversold)})
    room = {**cards.register_totals(node), **room}
    return {name: min(value, amounts.OFFERED_MAX) for name, value in room.items()}
