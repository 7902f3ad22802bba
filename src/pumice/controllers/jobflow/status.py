"""What is written down of a flow: which Job is in which phase, since when, and how the whole is doing."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pumice import instant
from pumice.api.batch import JobPhase
from pumice.api.flow import (
    FlowCondition,
    FlowJobStatus,
    JobFlow,
    JobFlowPhase,
    JobFlowState,
    JobFlowStatus,
    RunningHistory,
)
from pumice.controllers.merging import difference
from pumice.controllers.operations import Patch, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.batch import Job
    from pumice.api.meta import Json
    from pumice.instant import Instant

HISTORIES_MAX = 32  # phases of one Job that are kept; a Job that restarts for ever would fill the object
PENDING, RUNNING, SUCCEED, FAILED = (
    JobFlowPhase.PENDING.value,
    JobFlowPhase.RUNNING.value,
    JobFlowPhase.SUCCEED.value,
    JobFlowPhase.FAILED.value,
)
_OPEN = frozenset({"", PENDING, RUNNING})
_LISTED = {
    JobPhase.PENDING.value: "pending_jobs",
    JobPhase.RUNNING.value: "running_jobs",
    JobPhase.FAILED.value: "failed_jobs",
    JobPhase.COMPLETED.value: "completed_jobs",
    JobPhase.TERMINATED.value: "terminated_jobs",
}
_UNLISTED = frozenset({JobPhase.COMPLETING.value, JobPhase.TERMINATING.value})
_LISTS = (*_LISTED.values(), "unknown_jobs")


def phase_of(job: Job) -> str:
    """A Job that no controller has looked at yet is pending."""
    return job.status.state.phase or JobPhase.PENDING.value


def is_open(flow: JobFlow) -> bool:
    """True while Jobs of the flow may still be started."""
    return flow.status.state.phase in _OPEN


def recorded_phases(flow: JobFlow) -> Mapping[str, str]:
    return {name: condition.phase for name, condition in flow.status.conditions.items()}


def status_of(flow: JobFlow, wanted: Iterable[str], jobs: Mapping[str, Job], now: Instant) -> JobFlowStatus:
    """The flow's status as its Jobs make it; `wanted` names all Jobs that it will ever have.

    A Job that has completed and is gone stays as it was written down; one that is gone otherwise will be made again.
    """
    names = list(dict.fromkeys(wanted))
    recorded = recorded_phases(flow)
    conditions: dict[str, FlowCondition] = {}
    histories: list[FlowJobStatus] = []
    earlier = {each.name: each for each in flow.status.job_status_list}
    for name in names:
        job = jobs.get(name)
        if job is not None:
            conditions[name] = _condition(job)
            histories.append(_job_status(name, job, earlier.get(name), now))
        elif recorded.get(name) == JobPhase.COMPLETED.value:
            conditions[name] = flow.status.conditions[name]
            histories += [earlier[name]] if name in earlier else []
    lists: dict[str, list[str]] = {field: [] for field in _LISTS}
    for name, condition in conditions.items():
        if condition.phase not in _UNLISTED:
            lists[_LISTED.get(condition.phase, "unknown_jobs")].append(name)
    return JobFlowStatus(
        **{field: tuple(listed) for field, listed in lists.items()},
        job_status_list=tuple(histories),
        conditions=MappingProxyType(conditions),
        state=JobFlowState(_next_phase(flow.status.state.phase, lists, len(names))),
    )


def _next_phase(phase: str, lists: Mapping[str, list[str]], count: int) -> str:
    if phase not in _OPEN:
        return phase
    if lists["failed_jobs"] or lists["terminated_jobs"]:
        return FAILED
    if phase == RUNNING:
        return SUCCEED if len(lists["completed_jobs"]) == count else RUNNING
    return RUNNING if lists["running_jobs"] or lists["completed_jobs"] else PENDING


def _condition(job: Job) -> FlowCondition:
    return FlowCondition(
        phase=phase_of(job),
        create_time=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration,
        task_status_count=job.status.task_status_count,
    )


def _job_status(name: str, job: Job, before: FlowJobStatus | None, now: Instant) -> FlowJobStatus:
    phase, at = phase_of(job), instant.format_instant(now)
    histories = before.running_histories if before is not None else ()
    if not histories or histories[-1].state != phase:
        if histories:
            histories = (*histories[:-1], replace(histories[-1], end_timestamp=at))
        histories = (*histories, RunningHistory(start_timestamp=at, state=phase))[-HISTORIES_MAX:]
    return FlowJobStatus(
        name=name,
        state=phase,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=_end(job),
        restart_count=job.status.retry_count,
        running_histories=histories,
    )


def _end(job: Job) -> str | None:
    created, lasted = job.metadata.creation_timestamp, job.status.running_duration
    if created is None or lasted is None:
        return None
    return instant.format_instant(instant.parse_instant(created) + instant.parse_duration(lasted))


# ---------------------------------------------------------------------------------------------------------- writing


def status_patch(flow: JobFlow, wanted: JobFlowStatus) -> Patch | None:
    """The write that makes the status so; None where it is. Numbers alone may wait, phases may not."""
    body = difference(_json(flow.status), _json(wanted))
    if not body:
        return None
    # For the version that was looked at: one that arrives late would open a flow again that has succeeded.
    return Patch(
        **target_of(flow),
        body={"status": body},
        version=flow.metadata.resource_version,
        subresource="status",
        hurry=_phases(flow.status) != _phases(wanted),
    )


def _phases(status: JobFlowStatus) -> tuple[str, Mapping[str, str]]:
    return status.state.phase, {name: condition.phase for name, condition in status.conditions.items()}


def _json(status: JobFlowStatus) -> Json:
    result: Json = msgspec.to_builtins(status, enc_hook=dict)
    return result
