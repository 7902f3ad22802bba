"""The PodGroup of a Job: the gang as the scheduler sees it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pumice.api import decoding, names
from pumice.api.kinds import type_meta
from pumice.api.pods import PodTemplate
from pumice.api.run_time import TIMES
from pumice.api.scheduling import PodGroup, PodGroupConditionType, SubGroupPolicy
from pumice.controllers import minimums
from pumice.controllers.operations import Blame, Create, Patch, target_of
from pumice.controllers.ownership import owned_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.batch import Job, NetworkTopology, Task
    from pumice.api.meta import Json
    from pumice.api.scheduling import PodGroupCondition
    from pumice.controllers.operations import Operation

TEMPLATES_CACHED_MAX = 4_096
_OF_TIME = frozenset({PodGroupConditionType.TIME_LIMIT_WARNING, PodGroupConditionType.TIME_LIMIT_EXCEEDED})


def concerns(known: PodGroup, fresh: PodGroup) -> bool:
    """Whether a Job's plan could tell the two apart: how many pods the scheduler has counted it never reads."""
    return _seen(known) != _seen(fresh)


def _seen(group: PodGroup) -> tuple[object, ...]:
    metadata, status = group.metadata, group.status
    told = status.phase, status.conditions
    return metadata.owner_references, metadata.annotations, metadata.deletion_timestamp, group.spec, told


def group_name(job: Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def unmet_condition(group: PodGroup) -> PodGroupCondition | None:
    """Why the gang waits, as the scheduler has told it; None where it has not, or has let it start."""
    latest = max(
        (each for each in group.status.conditions if each.status == "True" and each.type not in _OF_TIME),
        key=lambda each: each.last_transition_time or "",
        default=None,
    )
    return None if latest is None or latest.type == PodGroupConditionType.SCHEDULED else latest


def group_operation(
    job: Job, group: PodGroup | None, priorities: Mapping[str, int], queue: str = ""
) -> Operation | None:
    """What it takes for the Job's PodGroup to be as it should, in the Job's queue or another; None if it is."""
    wanted = _spec(job, priorities) | ({"queue": queue} if queue else {})
    if group is None:
        metadata = owned_metadata(job, group_name(job))
        metadata["labels"] = dict(job.metadata.labels)
        metadata["annotations"] = {**job.metadata.annotations, **_times(job)}
        body: Json = {
            **type_meta(PodGroup),
            "metadata": metadata,
            "spec": wanted,
            "status": {"phase": "Pending"},
        }
        return Create(kind=PodGroup, body=body, blame=Blame(job, "PodGroupError"))
    spec, times = _changes(group, wanted), _time_changes(group, _times(job))
    if not spec and not times:
        return None
    return Patch(
        **target_of(group),
        body={**({"spec": spec} if spec else {}), **({"metadata": {"annotations": times}} if times else {})},
        version=group.metadata.resource_version,  # one that arrives late would let the gang start with a former minimum
        blame=Blame(job, "PodGroupError"),
    )


def _spec(job: Job, priorities: Mapping[str, int]) -> Json:
    spec = job.spec
    policies = [_sub_group(task) for task in spec.tasks if task.partition_policy is not None]
    wanted: Json = {
        "minMember": spec.min_available,
        "minTaskMember": {task.name: task.min_available for task in spec.tasks},
        "queue": spec.queue,
        "minResources": minimum(job, priorities),
    }
    if spec.priority_class_name:
        wanted["priorityClassName"] = spec.priority_class_name
    if policies:
        wanted["subGroupPolicy"] = policies
    if spec.network_topology is not None:
        topology = spec.network_topology
        wanted["networkTopology"] = {"mode": topology.mode}
        if topology.highest_tier_allowed is not None:
            wanted["networkTopology"]["highestTierAllowed"] = topology.highest_tier_allowed
        elif topology.highest_tier_name:
            wanted["networkTopology"]["highestTierName"] = topology.highest_tier_name
    return wanted


def _times(job: Job) -> dict[str, str]:
    """How long the Job may run and is expected to; an annotation about that wins over the field."""
    estimate = job.spec.running_estimate
    found = {key: job.metadata.annotations[key] for key in TIMES if key in job.metadata.annotations}
    return ({names.RUNNING_ESTIMATE: estimate} if estimate else {}) | found


def _time_changes(group: PodGroup, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Who gets more time gets it while the gang runs."""
    have = group.metadata.annotations
    return {key: wanted.get(key) for key in TIMES if have.get(key) != wanted.get(key)}


def _sub_group(task: Task) -> Json:
    policy = task.partition_policy
    assert policy is not None, "only tasks with partitions have sub groups"
    wanted: Json = {
        "name": task.name,
        "subGroupSize": policy.partition_size,
        "minSubGroups": policy.min_partitions,
        "labelSelector": {"matchLabels": {names.TASK_SPEC: task.name}},
        "matchLabelKeys": [names.PARTITION_ID],
    }
    if policy.network_topology is not None:
        wanted["networkTopology"] = _as_it_is(policy.network_topology)
    return wanted


def _as_it_is(topology: NetworkTopology) -> Json:
    wanted: Json = {"mode": topology.mode}
    if topology.highest_tier_allowed is not None:
        wanted["highestTierAllowed"] = topology.highest_tier_allowed
    if topology.highest_tier_name:
        wanted["highestTierName"] = topology.highest_tier_name
    return wanted


def _changes(group: PodGroup, wanted: Json) -> Json:
    """The merge patch of what may change in a PodGroup's life; its queue, labels and topology never do."""
    spec = group.spec
    changes: Json = {}
    if spec.priority_class_name != wanted.get("priorityClassName", ""):
        changes["priorityClassName"] = wanted.get("priorityClassName")
    if spec.min_member != wanted["minMember"]:
        changes["minMember"] = wanted["minMember"]
    if not minimums.same(spec.min_resources or {}, wanted["minResources"]):
        stale = dict.fromkeys((spec.min_resources or {}).keys() - wanted["minResources"].keys())
        changes["minResources"] = {**stale, **wanted["minResources"]}
    members = {
        name: number for name, number in wanted["minTaskMember"].items() if spec.min_task_member.get(name) != number
    }
    if members:
        changes["minTaskMember"] = members
    policies = wanted.get("subGroupPolicy", [])
    if msgspec.convert(policies, tuple[SubGroupPolicy, ...]) != spec.sub_group_policy:
        changes["subGroupPolicy"] = policies
    return changes


# ----------------------------------------------------------------------------------------------------- minResources


def minimum(job: Job, priorities: Mapping[str, int]) -> dict[str, str]:
    """What the smallest gang asks for, in ResourceQuota's words, as Volcano writes it; limits count where requests are absent.

    Its pods are those of the most important tasks first.
    """
    total: dict[str, int] = {}
    for task, pods in _smallest(job, priorities):
        for name, value in _usage(bytes(task.template)).items():
            total[name] = total.get(name, 0) + value * pods
    return minimums.resource_list(total)


def _smallest(job: Job, priorities: Mapping[str, int]) -> list[tuple[Task, int]]:
    """How many pods of which task the smallest gang has."""
    ranked = sorted(job.spec.tasks, key=lambda task: -priorities.get(priority_class(bytes(task.template)), 0))
    left = job.spec.min_available
    if left < sum(task.min_available or 0 for task in ranked):
        firsts = [0] * len(ranked)
    else:
        firsts = [min(task.min_available or 0, task.replicas) for task in ranked]
    taken: list[int] = []
    for first in firsts:
        taken.append(min(first, left))
        left -= taken[-1]
    for number, task in enumerate(ranked):
        more = min(task.replicas - taken[number], left)
        taken[number] += more
        left -= more
    return [(task, pods) for task, pods in zip(ranked, taken, strict=True) if pods]


@lru_cache(TEMPLATES_CACHED_MAX)
def priority_class(template: bytes) -> str:
    return decoding.decode(PodTemplate, template).spec.priority_class_name


@lru_cache(TEMPLATES_CACHED_MAX)
def _usage(template: bytes) -> Mapping[str, int]:
    """What one pod of a template counts in quotas."""
    return minimums.usage(decoding.decode(PodTemplate, template).spec)
