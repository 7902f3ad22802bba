"""What a CronJob needs: the Job whose time has come, a true status, and no more old Jobs than it wants to keep."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import cron, names
from pumice.api.batch import ConcurrencyPolicy, CronJob, Job, JobPhase
from pumice.api.kinds import type_meta
from pumice.api.meta import Json, ObjectReference
from pumice.controllers.cronjob.times import MISSED_MAX, times
from pumice.controllers.operations import NOTHING_TO_DO, Blame, Create, Delete, Emit, Patch, Plan, target_of
from pumice.controllers.ownership import owned_metadata, with_owners_submitter
from pumice.kube.requests import Propagation
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.api.cron import Schedule
    from pumice.controllers.cronjob.times import Times
    from pumice.controllers.operations import Operation
    from pumice.instant import Instant

UNSAID_ZONE = "UTC"  # every process has another local time
_SUCCEEDED = frozenset({JobPhase.COMPLETED.value})
# Volcano neither prunes Terminated and Aborted Jobs nor lets an Aborted one make room for the next.
_FAILED = frozenset({JobPhase.FAILED.value, JobPhase.TERMINATED.value, JobPhase.ABORTED.value})
_FINISHED = _SUCCEEDED | _FAILED

Stage = tuple["Operation", ...]


class _History(Value):
    """What the CronJob's Jobs tell."""

    active: tuple[Job, ...]
    last: str | None  # the latest time for which a Job was made
    succeeded: str | None  # when one last ended well


def plan(cron_job: CronJob, jobs: Sequence[Job], now: Instant) -> Plan:
    """The status is true, old Jobs go, and the Job whose time has come exists; `jobs` are those that it controls."""
    if cron_job.metadata.deletion_timestamp is not None:
        return NOTHING_TO_DO
    history = _history(cron_job, jobs)
    starts, again_at = _starts(cron_job, history, now)
    is_starting = any(isinstance(operation, Create) for stage in starts for operation in stage)
    before = _status_stages(cron_job, jobs, history, is_starting=is_starting)
    return Plan((*before, *_prune_stages(cron_job, jobs), *starts), again_at)


def _starts(cron_job: CronJob, history: _History, now: Instant) -> tuple[list[Stage], Instant | None]:
    """What starts the Job whose time has come, and when to look again."""
    if cron_job.spec.suspend:
        return [], None
    schedule = _schedule(cron_job)
    if isinstance(schedule, Emit):
        return [(schedule,)], None
    since = history.last or cron_job.metadata.creation_timestamp
    deadline_s = cron_job.spec.starting_deadline_seconds
    deadline = None if deadline_s is None else deadline_s * instant.SECOND
    found = times(schedule, instant.parse_instant(since) if since else now, now, deadline)
    return _start_stages(cron_job, schedule, found, history.active) if found.due is not None else [], found.next


def _schedule(cron_job: CronJob) -> Schedule | Emit:
    """When to run; or what to tell people, who must correct it: no repetition helps."""
    spec = cron_job.spec
    try:
        cron.zone(spec.time_zone or UNSAID_ZONE)
    except cron.ScheduleError as error:
        return Emit(cron_job, "Warning", "InvalidTimeZone", str(error))
    try:
        return cron.parse(spec.schedule, spec.time_zone or UNSAID_ZONE)
    except cron.ScheduleError as error:
        reason = "UnsupportedSchedule" if "TZ" in spec.schedule else "UnParseableCronJobSchedule"
        return Emit(cron_job, "Warning", reason, str(error))


# ---------------------------------------------------------------------------------------------------------- history


def _history(cron_job: CronJob, jobs: Sequence[Job]) -> _History:
    status = cron_job.status
    ended = [job.status.state.last_transition_time for job in jobs if job.status.state.phase in _SUCCEEDED]
    return _History(
        active=tuple(job for job in jobs if job.status.state.phase not in _FINISHED),
        last=_latest((status.last_schedule_time, *map(_scheduled_time, jobs))),
        succeeded=_latest((status.last_successful_time, *ended)),
    )


def _scheduled_time(job: Job) -> str | None:
    """The time that the Job was made for; None if the annotation cannot be read."""
    text = job.metadata.annotations.get(names.CRONJOB_SCHEDULED_TIMESTAMP)
    try:
        return None if text is None else instant.format_instant(instant.parse_instant(text))
    except instant.InstantError:
        return None


def _latest(texts: Iterable[str | None]) -> str | None:
    known = [instant.parse_instant(text) for text in texts if text is not None]
    return instant.format_instant(max(known)) if known else None


def _status_stages(
    cron_job: CronJob, jobs: Sequence[Job], history: _History, *, is_starting: bool = False
) -> list[Stage]:
    """The status as the Jobs make it. Where one has ended and the next is being made, the plan after that lists the next one in
    its place: a watcher sees no moment without any.
    """
    status = cron_job.status
    active = tuple(_reference(job) for job in history.active)
    listed = {reference.uid for reference in status.active}
    same = listed == {reference.uid for reference in active}
    if same and (history.last, history.succeeded) == (status.last_schedule_time, status.last_successful_time):
        return []
    ended = [job for job in jobs if job.metadata.uid in listed and job.status.state.phase in _FINISHED]
    words = tuple(_saw(cron_job, job) for job in ended)
    body: Json = {}
    if active or not is_starting:
        body["active"] = [msgspec.to_builtins(reference) for reference in active]
    body |= {"lastScheduleTime": history.last} if history.last else {}
    body |= {"lastSuccessfulTime": history.succeeded} if history.succeeded else {}
    if not body:
        return [words] if words else []
    version = cron_job.metadata.resource_version  # a patch that arrives late would bring back an earlier time
    patch = Patch(**target_of(cron_job), body={"status": body}, version=version, subresource="status")
    return [(patch,), words] if words else [(patch,)]


def _saw(cron_job: CronJob, job: Job) -> Emit:
    text = f"Saw completed job: {job.metadata.name}, condition: {job.status.state.phase}"
    return Emit(cron_job, "Normal", "SawCompletedJob", text)


def _reference(job: Job) -> ObjectReference:
    metadata = job.metadata
    return ObjectReference(
        api_version="batch.volcano.sh/v1alpha1",
        kind="Job",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
    )


def _prune_stages(cron_job: CronJob, jobs: Sequence[Job]) -> list[Stage]:
    """Behind the status: a Job's time is recorded before the Job goes."""
    spec = cron_job.spec
    limits = ((_SUCCEEDED, spec.successful_jobs_history_limit), (_FAILED, spec.failed_jobs_history_limit))
    old: list[Job] = []
    for phases, limit in limits:
        ended = [job for job in jobs if job.status.state.phase in phases]
        ended.sort(key=lambda job: (job.metadata.creation_timestamp or "", job.metadata.name))
        old += ended[: max(len(ended) - limit, 0)]
    return _delete_stages(cron_job, old)


def _delete_stages(cron_job: CronJob, jobs: Iterable[Job]) -> list[Stage]:
    deletes: list[Operation] = []
    words: list[Operation] = []
    for job in jobs:
        metadata = job.metadata
        if metadata.deletion_timestamp is None:
            deletes.append(
                Delete(**target_of(job), propagation=Propagation.BACKGROUND, blame=Blame(cron_job, "FailedDelete"))
            )
            words.append(Emit(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {metadata.name}"))
    return [tuple(deletes), tuple(words)] if deletes else []


# ------------------------------------------------------------------------------------------------------------ start


def _start_stages(cron_job: CronJob, schedule: Schedule, found: Times, active: Sequence[Job]) -> list[Stage]:
    assert found.due is not None
    stages: list[Stage] = []
    if found.missed_many:
        text = (
            f"more than {MISSED_MAX} start times were missed, and only the last one is run: "
            "set or lower spec.startingDeadlineSeconds, or check the clock"
        )
        stages.append((Emit(cron_job, "Warning", "TooManyMissedTimes", text),))
    policy = cron_job.spec.concurrency_policy
    if policy == ConcurrencyPolicy.FORBID and active:
        running = ", ".join(job.metadata.name for job in active)
        text = f"no job was started: {running} has not ended, and spec.concurrencyPolicy forbids a second one"
        return [*stages, (Emit(cron_job, "Warning", "ForbidConcurrent", text),)]
    if policy == ConcurrencyPolicy.REPLACE:
        stages += _delete_stages(cron_job, active)
    create = Create(kind=Job, body=_job(cron_job, schedule, found.due), blame=Blame(cron_job, "FailedCreate"))
    word = Emit(cron_job, "Normal", "SuccessfulCreate", f"Created job {create.name}")
    return [*stages, (create,), (word,)]


def job_name(cron_job: CronJob, schedule: Schedule, at: Instant) -> str:
    """Named after its minute, as Kubernetes does; after its second too where a minute may have several."""
    name = f"{cron_job.metadata.name}-{at // instant.MINUTE}"
    is_frequent = isinstance(schedule, cron.Every) and schedule.interval < instant.MINUTE
    return f"{name}-{at // instant.SECOND % 60:02}" if is_frequent else name


def _job(cron_job: CronJob, schedule: Schedule, at: Instant) -> Json:
    template = cron_job.spec.job_template
    zone = cron.zone(cron_job.spec.time_zone or UNSAID_ZONE)
    local = datetime.fromtimestamp(at // instant.SECOND, zone)
    text = instant.format_instant(at) if zone is UTC else local.isoformat(timespec="seconds")
    metadata = owned_metadata(cron_job, job_name(cron_job, schedule, at))
    metadata["labels"] = dict(template.metadata.labels)
    annotations = {**template.metadata.annotations, names.CRONJOB_SCHEDULED_TIMESTAMP: text}
    metadata["annotations"] = with_owners_submitter(cron_job, annotations)
    return {
        **type_meta(Job),
        "metadata": metadata,
        "spec": msgspec.json.decode(template.spec),
    }
