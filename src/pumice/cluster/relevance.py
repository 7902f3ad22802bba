"""Which news can change a decision. Most cannot: heartbeats, readiness, and what we have just written ourselves.

Asked before the change is applied. A false alarm costs a cycle; a change that is missed waits for the next sweep, so when in doubt
the answer is that it matters now.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pumice.api import changes
from pumice.api.core import Node
from pumice.api.meta import Struct
from pumice.api.names import GPU_USE, VERDICT
from pumice.api.pods import Pod
from pumice.api.policy import PodDisruptionBudget
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, PodGroupConditionType, PodGroupPhase, Queue
from pumice.cluster import gpu_use
from pumice.cluster.gangs import OUR_NOTES
from pumice.cluster.queues import queue_of
from pumice.cluster.tasks import FINISHED, OCCUPYING, Status, Task, preemptable, status_of

if TYPE_CHECKING:
    from pumice.cluster.state import Cluster


# By kind, those who say whether an object concerns them, as it was and as it is; None: it was, or is, not there.
Concerns = Mapping[type[Struct], Sequence[Callable[[Any, Any], bool]]]


class Urgency(enum.IntEnum):
    """How soon a cycle should follow."""

    NONE = 0  # it could decide, or say, nothing that the one before could not
    SOON = 1  # it has something to say, and nothing to decide
    NOW = 2


def urgency(cluster: Cluster, change: changes.Change, concerns: Concerns) -> Urgency:
    """Whether a cycle after this change could decide, or say, something that the one before could not."""
    match change:
        case changes.Upserted(object=thing) | changes.Deleted(object=thing) if type(thing) in concerns:
            known = cluster.others.get(type(thing), {}).get(thing.metadata.key)  # type: ignore[attr-defined]
            fresh = thing if isinstance(change, changes.Upserted) else None
            return _now(any(is_concerned(known, fresh) for is_concerned in concerns[type(thing)]))
        case changes.Upserted(object=Pod() as pod):
            return _urgency_of_pod(cluster, pod)
        case changes.Upserted(object=PodGroup() as group) if group.status.phase == PodGroupPhase.RUNNING.value:
            return _urgency_of_started(cluster, group)
        case changes.Upserted(object=thing):
            return _now(_is_news(cluster, thing))
        case changes.Admitted() | changes.Assumed() | changes.Evicting() | changes.Claimed():
            return Urgency.NONE  # our own doing, planned for already
        case changes.BindUnknown() | changes.AttemptSeen():
            return Urgency.NONE  # nothing else becomes possible by it
        case _:
            return Urgency.NOW


def _now(matters: bool) -> Urgency:  # noqa: FBT001  a yes or no becomes a word
    return Urgency.NOW if matters else Urgency.NONE


# The rules of which pods may be evicted for which, or where, change rarely, unlike the pods. What the first of the following
# two answers for is compared by content (`Cluster.rules`), also after a restart; what the second answers for comes and goes with
# pods, and can only be counted while we watch (`Cluster.shifts`). Both are asked before the change is applied, too.


def changes_rules(cluster: Cluster, change: changes.Change) -> bool:
    """Whether nodes, queues, priority classes or disruption budgets may differ after this change in what they allow."""
    match change:
        case changes.Upserted(object=Pod() | PodGroup()) | changes.Deleted(object=Pod() | PodGroup()):
            return False  # most of all news
        case changes.Upserted(object=Node() as node):
            slot = cluster.nodes.get(node.metadata.name)
            known = slot.node if slot is not None else None
            return known is None or offers(known) != offers(node)
        case changes.Upserted(object=PodDisruptionBudget() as budget):
            found = cluster.others.get(PodDisruptionBudget, {}).get(budget.metadata.key)
            return found is None or found.spec != budget.spec
        case changes.Upserted(object=Queue() | PriorityClass() as thing):
            return _is_news(cluster, thing)
        case changes.Deleted(object=PodDisruptionBudget() | Queue() | PriorityClass() | Node()):
            return True
        case changes.Relisted(struct=kind):
            return kind in {Node, PodDisruptionBudget, Queue, PriorityClass}
        case _:
            return False


def shifts_rules(cluster: Cluster, change: changes.Change) -> bool:
    """Whether a pod or group that was there already may leave more easily after this change, or a budget allows more."""
    match change:
        case changes.Upserted(object=Pod() as pod):
            task = cluster.tasks.get(pod.metadata.uid or pod.metadata.key)
            return task is not None and _is_other_victim(task.pod, pod)
        case changes.Upserted(object=PodGroup() as group):
            slot = cluster.gangs.get(group.metadata.key)
            is_known = slot is not None and slot.group is not None
            return is_known and _group_is_news(cluster, group, phase=False)
        case changes.Upserted(object=PodDisruptionBudget() as budget):
            known = cluster.others.get(PodDisruptionBudget, {}).get(budget.metadata.key)
            return known is not None and known.status.disruptions_allowed < budget.status.disruptions_allowed
        case _:
            return False


def _is_other_victim(known: Pod, pod: Pod) -> bool:
    if known.metadata is pod.metadata and known.spec.priority == pod.spec.priority:
        return False
    before, after = (
        (each.spec.priority, preemptable(each.metadata.annotations, each.metadata.labels, default=True))
        for each in (known, pod)
    )
    return before != after or known.metadata.labels != pod.metadata.labels


def offers(node: Node) -> tuple[object, ...]:
    """What of a node decides who may be placed there."""
    return node.metadata.labels, node.spec, node.status.allocatable


def _is_news(cluster: Cluster, thing: Struct) -> bool:
    match thing:
        case Node():
            return _node_is_news(cluster, thing)
        case PodGroup():
            return _group_is_news(cluster, thing)
        case Queue():
            return _queue_is_news(cluster, thing)
        case _:
            known = cluster.others.get(type(thing), {}).get(thing.metadata.key)  # type: ignore[attr-defined]
            return known != thing


def _urgency_of_started(cluster: Cluster, group: PodGroup) -> Urgency:
    """That a gang has started its pods have told before; its admission alone is no longer counted beside them.

    A word of ours that it waits was on its way for long: it is to be taken back.
    """
    if _group_is_news(cluster, group, phase=False):
        return Urgency.NOW
    is_outdated = VERDICT in group.metadata.annotations or any(
        each.type == PodGroupConditionType.UNSCHEDULABLE.value and each.status == "True"
        for each in group.status.conditions
    )
    return Urgency.SOON if is_outdated or _group_is_news(cluster, group) else Urgency.NONE


def _urgency_of_pod(cluster: Cluster, pod: Pod) -> Urgency:
    task, status = cluster.tasks.get(pod.metadata.uid or pod.metadata.key), status_of(pod)
    if task is None:
        names = cluster.scheduler_names
        if not pod.spec.scheduler_name or pod.spec.scheduler_name in names:
            return Urgency.NOW
        # A pod of another scheduler: where it takes room there is less for ours, and thousands of them may come.
        return Urgency.SOON if pod.spec.node_name and status not in FINISHED else Urgency.NONE
    if _is_another_pod(task, pod):
        return Urgency.NOW
    if task.status is status or (task.status is Status.BINDING and status is Status.PENDING):
        return Urgency.NONE
    # It got on where it was sent: nobody's room changes by that.
    is_progress = task.status in OCCUPYING and status in OCCUPYING and task.node == pod.spec.node_name
    return Urgency.SOON if is_progress else Urgency.NOW


def _is_another_pod(task: Task, pod: Pod) -> bool:
    """Whether anything of it differs but how far it got."""
    known = task.pod
    is_assumed = task.status is Status.BINDING and not known.spec.node_name and pod.spec.node_name == task.node
    spec = replace(known.spec, node_name=task.node) if is_assumed else known.spec
    return (
        known.metadata.labels != pod.metadata.labels
        or _theirs(known.metadata.annotations) != _theirs(pod.metadata.annotations)
        or known.metadata.deletion_timestamp != pod.metadata.deletion_timestamp
        or spec != pod.spec
        or known.status.nominated_node_name != pod.status.nominated_node_name
        or known.status.resource_claim_statuses
        != pod.status.resource_claim_statuses  # it waits for its claims to be made
    )


def _node_is_news(cluster: Cluster, node: Node) -> bool:
    slot = cluster.nodes.get(node.metadata.name)
    known = slot.node if slot is not None else None
    return known is None or (
        known.metadata.labels != node.metadata.labels
        or _without_gpu_use(known.metadata.annotations) != _without_gpu_use(node.metadata.annotations)
        or gpu_use.measured_pods(known) != gpu_use.measured_pods(node)
        or known.spec != node.spec
        or known.status.allocatable != node.status.allocatable
        or known.status.images != node.status.images
    )


def _without_gpu_use(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """A GPU measurement comes every half minute and decides nothing, so it causes no cycle; which pods are measured does."""
    if GPU_USE not in annotations:
        return annotations
    return {key: value for key, value in annotations.items() if key != GPU_USE}


def _group_is_news(cluster: Cluster, group: PodGroup, *, phase: bool = True) -> bool:
    slot = cluster.gangs.get(group.metadata.key)
    known = slot.group if slot is not None else None
    if slot is None or not isinstance(known, PodGroup):
        return True
    before = PodGroupPhase.INQUEUE.value if slot.is_admitted else known.status.phase
    return (
        known.metadata.uid != group.metadata.uid
        or known.spec != group.spec
        or (phase and before != group.status.phase)
        or known.metadata.labels != group.metadata.labels
        or _theirs(known.metadata.annotations) != _theirs(group.metadata.annotations)
    )


def _theirs(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in OUR_NOTES}


def _queue_is_news(cluster: Cluster, queue: Queue) -> bool:
    known, new = cluster.queues.get(queue.metadata.name), queue_of(queue)
    return known is None or any(
        getattr(known, field) != getattr(new, field)
        for field in known.__struct_fields__
        if field != "written_allocated"
    )
