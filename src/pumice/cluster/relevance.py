"""Which news can change a decision. Most cannot: heartbeats, readiness, and what we have just written ourselves.

Asked before the change is applied. A false alarm costs a cycle; a change that is missed waits for the next sweep, so when in doubt
the answer is yes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import changes, names
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.policy import PodDisruptionBudget
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, Queue
from pumice.cluster.queues import queue_of
from pumice.cluster.tasks import Status, preemptable, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.meta import Struct
    from pumice.cluster.state import Cluster

_OUR_NOTES = frozenset({names.VERDICT, names.ATTEMPT, names.LEADER})


def matters(cluster: Cluster, change: changes.Change) -> bool:
    """Whether a cycle after this change could decide, or say, something that the one before could not."""
    match change:
        case changes.Upserted(object=thing):
            return _is_news(cluster, thing)
        case changes.Assumed() | changes.Evicting() | changes.Claimed() | changes.BindUnknown() | changes.AttemptSeen():
            return False  # our own doing, planned for already
        case _:
            return True


def shifts_ground(cluster: Cluster, change: changes.Change) -> bool:
    """Whether the rules of who may leave for whom, or where, are different after this change.

    That is rare, unlike the coming and going of pods, which only changes who is there. Asked before the change is applied, too.
    """
    match change:
        case changes.Upserted(object=Pod() as pod):
            task = cluster.tasks.get(pod.metadata.uid or pod.metadata.key)
            return task is not None and _is_other_victim(task.pod, pod)
        case changes.Upserted(object=Node() as node):
            slot = cluster.nodes.get(node.metadata.name)
            known = slot.node if slot is not None else None
            return known is None or _offers(known) != _offers(node)
        case changes.Upserted(object=PodGroup() as group):
            return group.metadata.key in cluster.gangs and _group_is_news(cluster, group, phase=False)
        case changes.Upserted(object=PodDisruptionBudget() as budget):
            return _allows_more(cluster, budget)
        case changes.Upserted(object=Queue() | PriorityClass() as thing):
            return _is_news(cluster, thing)
        case changes.Deleted(object=PodDisruptionBudget() | Queue() | PriorityClass() | Node()):
            return True
        case changes.Relisted(struct=kind):
            return kind is not Pod
        case _:
            return False


def _is_other_victim(known: Pod, pod: Pod) -> bool:
    before, after = (
        (each.spec.priority, preemptable(each.metadata.annotations, each.metadata.labels, default=True))
        for each in (known, pod)
    )
    return before != after or known.metadata.labels != pod.metadata.labels


def _offers(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec, node.status.allocatable


def _allows_more(cluster: Cluster, budget: PodDisruptionBudget) -> bool:
    known = cluster.others.get(PodDisruptionBudget, {}).get(budget.metadata.key)
    return known is not None and (
        known.spec != budget.spec or known.status.disruptions_allowed < budget.status.disruptions_allowed
    )


def _is_news(cluster: Cluster, thing: Struct) -> bool:
    match thing:
        case Pod():
            return _pod_is_news(cluster, thing)
        case Node():
            return _node_is_news(cluster, thing)
        case PodGroup():
            return _group_is_news(cluster, thing)
        case Queue():
            return _queue_is_news(cluster, thing)
        case _:
            known = cluster.others.get(type(thing), {}).get(thing.metadata.key)  # type: ignore[attr-defined]
            return known != thing


def _pod_is_news(cluster: Cluster, pod: Pod) -> bool:
    task = cluster.tasks.get(pod.metadata.uid or pod.metadata.key)
    if task is None:
        return True
    known, status = task.pod, status_of(pod)
    if task.status is not status and not (task.status is Status.BINDING and status is Status.PENDING):
        return True
    return (
        known.metadata.labels != pod.metadata.labels
        or _theirs(known.metadata.annotations) != _theirs(pod.metadata.annotations)
        or known.metadata.deletion_timestamp != pod.metadata.deletion_timestamp
        or known.spec != pod.spec
        or known.status.nominated_node_name != pod.status.nominated_node_name
    )


def _node_is_news(cluster: Cluster, node: Node) -> bool:
    slot = cluster.nodes.get(node.metadata.name)
    known = slot.node if slot is not None else None
    return known is None or (
        known.metadata.labels != node.metadata.labels
        or known.metadata.annotations != node.metadata.annotations
        or known.spec != node.spec
        or known.status.allocatable != node.status.allocatable
        or known.status.images != node.status.images
    )


def _group_is_news(cluster: Cluster, group: PodGroup, *, phase: bool = True) -> bool:
    slot = cluster.gangs.get(group.metadata.key)
    known = slot.group if slot is not None else None
    return not isinstance(known, PodGroup) or (
        known.metadata.uid != group.metadata.uid
        or known.spec != group.spec
        or (phase and known.status.phase != group.status.phase)
        or known.metadata.labels != group.metadata.labels
        or _theirs(known.metadata.annotations) != _theirs(group.metadata.annotations)
    )


def _theirs(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in _OUR_NOTES}


def _queue_is_news(cluster: Cluster, queue: Queue) -> bool:
    known, new = cluster.queues.get(queue.metadata.name), queue_of(queue)
    return known is None or any(
        getattr(known, field) != getattr(new, field) for field in known.__slots__ if field != "written_allocated"
    )
