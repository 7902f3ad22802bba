"""A Job's status as it should be: counters from pods, phases with their times, and the patch that writes no more than differs.

Two things differ from Volcano on purpose: the counters of a finished Job stay, and times move with phases, not with counters.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from pumice import instant
from pumice.api.batch import Job, JobCondition, JobPhase, JobState, TaskState
from pumice.api.meta import NOTHING
from pumice.controllers.job.phases import FINAL
from pumice.controllers.job.podgroup import unmet_condition
from pumice.controllers.job.progress import in_ranges, progress_of, record_progress
from pumice.controllers.merging import difference
from pumice.controllers.operations import Patch
from pumice.digits import ranges
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.batch import JobStatus
    from pumice.api.scheduling import PodGroup
    from pumice.controllers.job.members import Member
    from pumice.controllers.job.progress import Progress
    from pumice.instant import Instant

_PHASES = frozenset({"Pending", "Running", "Succeeded", "Failed"})
COUNTS_S = 1.0
WAITING_S = 5.0  # of a Job whose gang is told to wait
STARTING_S = 30.0  # one that starts says Running and how many run in one write, unless that takes longer
# What may wait: it changes with each pod, and no transition hangs on it.
_UNHURRIED = frozenset(
    {"pending", "running", "succeeded", "failed", "terminating", "unknown", "task_status_count", "controlled_resources"}
)


class Counters(Value):
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: Mapping[str, Mapping[str, int]] = msgspec.field(default_factory=dict)


def count(members: Iterable[Member], doomed: Iterable[Member]) -> Counters:
    """How many pods are in which phase; those that leave, or must, count as nothing else."""
    leaving = {member.name for member in doomed}
    phases = dict.fromkeys((*_PHASES, "Unknown"), 0)
    tasks: dict[str, dict[str, int]] = {}
    terminating = 0
    for member in members:
        if member.is_leaving or member.name in leaving:
            terminating += 1
            continue
        phases[member.phase if member.phase in _PHASES else "Unknown"] += 1
        counted = tasks.setdefault(member.task, {})
        counted[member.phase] = counted.get(member.phase, 0) + 1
    return Counters(
        pending=phases["Pending"],
        running=phases["Running"],
        succeeded=phases["Succeeded"],
        failed=phases["Failed"],
        unknown=phases["Unknown"],
        terminating=terminating,
        tasks=tasks,
    )


def with_counters(status: JobStatus, job: Job, counters: Counters) -> JobStatus:
    return replace(
        status,
        min_available=job.spec.min_available,
        pending=counters.pending,
        running=counters.running,
        succeeded=counters.succeeded,
        failed=counters.failed,
        unknown=counters.unknown,
        terminating=counters.terminating,
        task_status_count=MappingProxyType(
            {
                task: TaskState(phase=MappingProxyType(dict(sorted(phases.items()))))
                for task, phases in counters.tasks.items()
            }
        ),
    )


def enter_phase(
    status: JobStatus, job: Job, phase: JobPhase, now: Instant, *, reason: str = "", message: str = ""
) -> JobStatus:
    """The status in another phase, with the time and a condition for it."""
    at = instant.format_instant(now)
    conditions = tuple(each for each in status.conditions if each.status != phase)
    state = JobState(phase=phase.value, reason=reason, message=message, last_transition_time=at)
    status = replace(
        status, state=state, conditions=(*conditions, JobCondition(status=phase.value, last_transition_time=at))
    )
    created = job.metadata.creation_timestamp
    if phase in FINAL and created is not None:
        return replace(
            status, running_duration=instant.format_duration(instant.parse_instant(at) - instant.parse_instant(created))
        )
    return replace(status, running_duration=None)


def members_by_task(members: Iterable[Member], doomed: Iterable[Member]) -> Mapping[str, str]:
    """The pods that exist, by task: a later plan notices by it which are gone. Released ones are left out: they are no loss."""
    gone = {member.name for member in doomed}
    present: dict[str, list[int]] = {}
    for member in members:
        if member.name not in gone and not member.is_released:
            present.setdefault(member.task, []).append(member.index)
    return MappingProxyType({task: ranges(indexes) for task, indexes in present.items()}) if present else NOTHING


def with_progress(status: JobStatus, progress: Progress) -> JobStatus:
    """The status with the progress in it."""
    return replace(status, controlled_resources=record_progress(status.controlled_resources, progress))


# ------------------------------------------------------------------------------------------------------------ writing


def status_patch(job: Job, wanted: JobStatus, group: PodGroup | None = None) -> Patch | None:
    """What it takes for the Job to have this status; None if it has. Whatever is not counters is in a hurry."""
    body = difference(_builtins(job.status), _builtins(wanted))
    if not body:
        return None
    return Patch(
        kind=Job,
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        body={"status": body},
        version=job.metadata.resource_version,
        subresource="status",
        hurry=not _only_counts(job.status, wanted),
        patience_s=_patience_s(wanted, group),
    )


def _patience_s(wanted: JobStatus, group: PodGroup | None) -> float:
    if wanted.state.phase != JobPhase.PENDING.value:
        return COUNTS_S
    return WAITING_S if group is None or unmet_condition(group) is not None else STARTING_S


def _only_counts(old: JobStatus, new: JobStatus) -> bool:
    changed = {name for name in old.__struct_fields__ if getattr(old, name) != getattr(new, name)}
    if not changed <= _UNHURRIED:
        return False
    if "controlled_resources" not in changed:
        return True
    # Of what is recorded only more members may wait: a pod that was taken off the list must not count as missing.
    before, after = progress_of(old), progress_of(new)
    if any(in_ranges(text) - in_ranges(after.members.get(task, "")) for task, text in before.members.items()):
        return False
    same_roll = with_progress(old, replace(before, members=after.members)).controlled_resources
    return dict(same_roll) == dict(new.controlled_resources)


def _builtins(status: JobStatus) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(status, enc_hook=dict)
    return _without_empty(value)


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    """An empty map means the same as none."""
    inner = {key: _without_empty(each) if isinstance(each, dict) else each for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}
