"""What the record reads off single objects: when a pod was bound, started and ended, what it holds, whose it is. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pumice import instant
from pumice.api import decoding, disruptions, names, run_time, versions
from pumice.api.groups import Group, group_of
from pumice.api.native import minimum_of
from pumice.api.pods import Pod, PodTemplate
from pumice.api.scheduling import PodGroup
from pumice.cluster import amounts, requests
from pumice.digits import whole_number
from pumice.record.rows import Eviction, Run, State, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.batch import Job
    from pumice.api.core import Node
    from pumice.api.meta import ObjectMeta, ResourceList
    from pumice.api.native import NativePodGroup
    from pumice.cluster.amounts import Amounts

CACHED_MAX = 4_096
GIB = 2**30
NO_GROUP = Group("")
_JOB = ("batch.volcano.sh/v1alpha1", "Job")
_ENDED = {"Succeeded": State.SUCCEEDED, "Failed": State.FAILED}
_LEFT_OUT = ("attachable-volumes-", "hugepages-")


class Membership(NamedTuple):
    """Which gang a pod is of: a Job by its uid, or a group by its name, which may have no object yet."""

    job: str = ""
    attempt: int = 0
    group: Group = NO_GROUP


def membership(pod: Pod) -> Membership:
    owner = pod.metadata.controller
    if owner is not None and (owner.api_version, owner.kind) == _JOB:
        version = pod.metadata.annotations.get(names.JOB_VERSION, "")
        return Membership(job=owner.uid, attempt=whole_number(version) or 0)
    return Membership(group=group_of(pod))


def owning_job(metadata: ObjectMeta) -> str:
    """The uid of the Volcano Job that controls an object; empty for none."""
    owner = metadata.controller
    return owner.uid if owner is not None and (owner.api_version, owner.kind) == _JOB else ""


def version_of(metadata: ObjectMeta) -> int:
    return min(versions.number_of(metadata.resource_version) or 0, 2**63 - 1)


def at(text: str | None) -> int | None:
    """An API server's time in whole seconds; None for none, and for what no API server writes."""
    moment = run_time.known_moment(text)
    return moment // instant.SECOND if moment else None


# ------------------------------------------------------------------------------------------------------------ runs


def run_of(pod: Pod, gang: str, attempt: int, *, gone_at: int | None) -> Run | None:
    """The pod's run; None for a pod that was never bound, and so held nothing."""
    if not pod.spec.node_name:
        return None
    metadata, status = pod.metadata, pod.status
    bound = _bound(pod)
    started = _started(pod)
    end = ended(pod, gone_at)
    annotations = metadata.annotations
    codes = [each.state.terminated.exit_code for each in status.container_statuses if each.state.terminated]
    return Run(
        uid=metadata.uid,
        gang=gang,
        attempt=attempt,
        pod=metadata.name,
        task=task_of(metadata),
        node=pod.spec.node_name,
        resources=_resources(requests.request_of(pod)),
        bound=bound,
        started=started,
        ended=None if end is None else max(end, bound),
        state=_state(pod, end),
        exit_code=next((code for code in codes if code), codes[0] if codes else None),
        restarts=sum(each.restart_count for each in (*status.init_container_statuses, *status.container_statuses)),
        checkpointed=at(annotations.get(names.CHECKPOINTED_AT)),
        seen=version_of(metadata),
    )


def eviction_of(pod: Pod, run: Run, groups: Mapping[str, str]) -> Eviction | None:
    """The eviction that ended a run; None for one that goes on or ended otherwise. `groups` are keys by uid, for claimants of other namespaces."""
    disruption = disruptions.of_pod(pod)
    if run.state != State.EVICTED or run.ended is None or disruption is None:
        return None
    return Eviction(
        uid=run.uid,
        gang=run.gang,
        attempt=run.attempt,
        pod=run.pod,
        at=at(disruption.since) or run.ended,
        rule=cut(disruption.story.rule),
        claimant=disruption.story.claimant.gang or groups.get(disruption.story.claimant.uid, ""),
        why=cut(disruption.story.why),
        lost_s=run_time.lost(run.started, run.ended, run.checkpointed),
        seen=run.seen,
    )


def _bound(pod: Pod) -> int:
    """Kubelets do not say when a pod was bound; its condition does."""
    told = run_time.bound_at(pod)
    return told // instant.SECOND if told else at(pod.metadata.creation_timestamp) or 0


def _started(pod: Pod) -> int | None:
    states = [each.state.running or each.state.terminated for each in pod.status.container_statuses]
    times = [at(state.started_at) for state in states if state is not None]
    return min((time for time in times if time), default=None)


def task_of(metadata: ObjectMeta) -> str:
    return metadata.annotations.get(names.TASK_SPEC) or metadata.labels.get(names.TASK_SPEC, "")


def ended(pod: Pod, gone_at: int | None) -> int | None:
    """When a pod's containers ended, or it was gone; None while it goes on."""
    if pod.status.phase not in _ENDED and gone_at is None:
        return None
    if told := run_time.ended_at(pod, is_gone=gone_at is not None):
        return told // instant.SECOND
    due = at(pod.metadata.deletion_timestamp)  # its kubelet may take less
    return min(due, gone_at) if due is not None and gone_at is not None else gone_at or due


def _state(pod: Pod, ended: int | None) -> str:
    if ended is None:
        return State.RUNNING
    disruption = disruptions.of_pod(pod)
    evicted_at = at(disruption.since) if disruption is not None and not disruption.is_release else None
    if evicted_at is not None and not (pod.status.phase in _ENDED and ended < evicted_at):
        return State.EVICTED
    return _ENDED.get(pod.status.phase, State.DELETED)


# ------------------------------------------------------------------------------------------------------------ amounts


def units(found: Amounts) -> dict[str, float]:
    """Amounts as people count them: cards, cores, GiB; what nobody pays for is left out."""
    return {
        name: value / GIB if amounts.in_bytes(name) else value / amounts.MILLI
        for name, value in sorted(found.items())
        if value and name not in {amounts.PODS, amounts.EPHEMERAL_STORAGE} and not name.startswith(_LEFT_OUT)
    }


def is_gpu(resource: str) -> bool:
    return resource.endswith("/gpu")


@lru_cache(CACHED_MAX)
def _resources(request: requests.Request) -> str:
    return _text(units(request.amounts))


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


@lru_cache(CACHED_MAX)
def _of_template(template: bytes) -> dict[str, float]:
    pod = Pod(spec=decoding.decode(PodTemplate, template).spec)
    return units(requests.request_of(pod).amounts)


def shapes_of_job(job: Job) -> str:
    return _text(
        [
            {"task": task.name, "pods": task.replicas, "resources": _of_template(bytes(task.template))}
            for task in job.spec.tasks
        ]
    )


def shapes_of_group(group: PodGroup | NativePodGroup) -> str:
    """The minimum, and what it asks for; Kubernetes' own groups do not say that."""
    asked: ResourceList = {}
    if isinstance(group, PodGroup):
        asked = group.spec.min_resources or {}
    return _text([{"task": "", "pods": minimum_of(group), "resources": units(amounts.read_minimum(asked))}])


def capacity_of(nodes: Iterable[Node]) -> dict[str, float]:
    """What all nodes that are ready may hand out."""
    return units(amounts.sum_of(amounts.read(_allocatable(node), unreadable=0) for node in nodes))


def _allocatable(node: Node) -> ResourceList:
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    return node.status.allocatable if ready else {}


def team_of(queue: str, parents: Mapping[str, str]) -> str:
    """The queue right below root on the way up from this one; itself where it has no parent."""
    for _ in range(len(parents) + 1):  # a ring of parents, which admission refuses, ends too
        parent = parents.get(queue, "")
        if parent in {"", "root"}:
            return queue
        queue = parent
    return queue
