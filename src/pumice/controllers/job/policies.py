"""What happened to a Job, read off its objects, and the policy that it meets.

Nothing is remembered between plans: a failed pod still exists, one that is being evicted has a condition, and one that is gone is
noticed because the status lists the pods by name. What a policy has answered is not found again: a whole restart raises the Job's
version, a restart of single pods names them in the status, and in other phases policies are not asked.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.batch import Action, JobEvent, JobPhase, LifecyclePolicy
from pumice.api.run_time import NO_RUN, run_of
from pumice.api.scheduling import PodGroupPhase
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.api.validation.policies import ENDS_A_GANG
from pumice.controllers.job.defaulting import pod_name
from pumice.controllers.job.kill import Judge
from pumice.controllers.job.members import roster_of
from pumice.controllers.job.phases import phase_of
from pumice.controllers.job.progress import in_ranges, progress_of
from pumice.digits import counted
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pumice.api.batch import Job, JobStatus, Task
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.controllers.job.members import Member
    from pumice.controllers.job.progress import Progress
    from pumice.instant import Instant

_STARTED = frozenset({PodGroupPhase.RUNNING.value, PodGroupPhase.UNKNOWN.value, PodGroupPhase.COMPLETED.value})
# Which of two things that happened in the same second came first: an end explains a failure, an eviction explains many.
_RANK = {
    JobEvent.TASK_COMPLETED: 0,
    JobEvent.TIME_LIMIT_EXCEEDED: 1,
    JobEvent.POD_EVICTED: 2,
    JobEvent.POD_FAILED: 3,
    JobEvent.TASK_FAILED: 4,
    JobEvent.UNKNOWN: 5,
    JobEvent.POD_PENDING: 6,
}


_END = LifecyclePolicy(event=JobEvent.TIME_LIMIT_EXCEEDED.value, action=Action.TERMINATE_JOB.value)


class Occurrence(Value):
    """Something that a policy may be waiting for."""

    event: JobEvent
    at: Instant
    why: str
    task: str = ""  # empty: it concerns the Job as a whole
    pod: str = ""
    index: int = 0
    exit_code: int | None = None
    lasting: bool = False  # it can be seen, with its time, for as long as no policy answers it
    is_certain: bool = True  # False: a watch does not show the pod, but it may only be late


class Scene(Value):
    """All that occurrences are read from."""

    job: Job
    status: JobStatus
    progress: Progress
    members: tuple[Member, ...]
    group: PodGroup | None
    now: Instant
    deleted_pods: Mapping[str, Pod]
    doubted: frozenset[str]

    def task(self, name: str) -> Task | None:
        return next((task for task in self.job.spec.tasks if task.name == name), None)

    def judge(self) -> Judge:
        return Judge(self.job, self.status, self.progress)


def occurrences(scene: Scene) -> list[Occurrence]:
    """Everything that policies may answer, in the order in which it happened."""
    judge = scene.judge()
    fresh = [member for member in scene.members if judge.is_fresh(member)]
    found = [
        *_evictions(scene, fresh),
        *_missing(scene),
        *_failures(fresh),
        *_tasks(scene, fresh),
        *_pending(scene, fresh),
        *_unknown(scene),
        *_time_limit(scene),
    ]
    return sorted(found, key=lambda each: (each.at, _RANK[each.event]))


def _evictions(scene: Scene, fresh: Sequence[Member]) -> Iterator[Occurrence]:
    for member in fresh:
        metadata = member.pod.metadata
        if metadata.deletion_timestamp is None or member.is_released:
            continue
        grace = (metadata.deletion_grace_period_seconds or 0) * instant.SECOND
        at = min(instant.parse_instant(metadata.deletion_timestamp) - grace, scene.now)
        yield _of(member, JobEvent.POD_EVICTED, at, _departure(member))


def _missing(scene: Scene) -> Iterator[Occurrence]:
    """Pods that were there at the last write, or were last seen being evicted, and are gone.

    Before the gang has started, one that vanished without a word may have been released by the scheduler: it is made again, and that
    is no failure. Where the cache remembers how the pod was last seen, that says more: whether we look a moment before an evicted pod
    is gone or a moment after, and before or after our first word about the gang, it was evicted.
    """
    has_started = phase_of(scene.status) is JobPhase.RUNNING or _has_started(scene.group)
    present = {(member.task, member.index) for member in scene.members}
    last_seen = {(member.task, member.index): member for member in deleted_members(scene)}
    for task in scene.job.spec.tasks:
        recorded = in_ranges(scene.progress.members.get(task.name, "")) if has_started else frozenset()
        evicted = {index for (name, index), last in last_seen.items() if name == task.name and last.disruption}
        for index in sorted(recorded | evicted):
            if index < task.replicas and (task.name, index) not in present:
                pod = pod_name(scene.job, task.name, index)
                last = last_seen.get((task.name, index))
                if last is None or not last.is_released:
                    why = _departure(last) if last is not None and last.disruption else f"pod {pod} is gone"
                    missed = Occurrence(JobEvent.POD_EVICTED, scene.now, why, task.name, pod, index)
                    yield msgspec.structs.replace(missed, is_certain=index in evicted or pod not in scene.doubted)


def recorded_pods(job: Job) -> Iterator[str]:
    """The names of the pods that were there at the last write."""
    for task, indexes in progress_of(job.status).members.items():
        yield from (pod_name(job, task, index) for index in sorted(in_ranges(indexes)))


def deleted_members(scene: Scene) -> tuple[Member, ...]:
    """Members of the present start that are gone, as they were last seen: those that were there at the last write, and those that
    were made and evicted since the last answer. (An answer to an eviction counts a retry, or starts the Job anew.)
    """
    recorded, status = scene.progress.members, scene.status
    return tuple(
        member
        for member in roster_of(scene.job, scene.deleted_pods.values()).members
        if member.version >= status.version
        and (
            member.index in in_ranges(recorded.get(member.task, ""))
            or (member.disruption is not None and member.retries >= status.retry_count)
        )
    )


def _departure(member: Member) -> str:
    reason, message = member.disruption or ("deleted", "")
    return f"pod {member.name} was evicted ({reason}: {message})" if message else f"pod {member.name} was {reason}"


def _has_started(group: PodGroup | None) -> bool:
    return group is not None and (group.status.phase in _STARTED or names.ATTEMPT in group.metadata.annotations)


def _failures(fresh: Sequence[Member]) -> Iterator[Occurrence]:
    for member in fresh:
        if member.phase == "Failed" and not member.is_leaving:
            why = f"pod {member.name} failed ({member.failure})"
            occurrence = _of(member, JobEvent.POD_FAILED, member.finished_at(), why)
            yield msgspec.structs.replace(occurrence, exit_code=member.exit_code, lasting=True)


def _tasks(scene: Scene, fresh: Sequence[Member]) -> Iterator[Occurrence]:
    by_task: dict[str, list[Member]] = {}
    for member in fresh:
        if not member.is_leaving:
            by_task.setdefault(member.task, []).append(member)
    # What succeeded before the Job was suspended counts, but is no news.
    succeeded = Counter(
        member.task for member in scene.members if member.phase == "Succeeded" and not member.is_leaving
    )
    for task in scene.job.spec.tasks:
        members = by_task.get(task.name, [])
        ended = [member for member in members if member.phase == "Succeeded"]
        if ended and succeeded[task.name] >= task.replicas:
            last = max(ended, key=lambda member: member.finished_at())
            occurrence = _of(last, JobEvent.TASK_COMPLETED, last.finished_at(), f"task {task.name} is complete")
            yield msgspec.structs.replace(occurrence, lasting=True)
        unfinished = [member for member in members if not member.is_finished]
        restarts = sum(member.restarts for member in unfinished)
        if task.max_retry >= 0 and unfinished and restarts >= task.max_retry:
            worst = max(unfinished, key=lambda member: member.restarts)
            why = f"containers of task {task.name} were restarted {counted(restarts, 'time')}, most of them in pod {worst.name}"
            yield _of(worst, JobEvent.TASK_FAILED, scene.now, why)


def _pending(scene: Scene, fresh: Sequence[Member]) -> Iterator[Occurrence]:
    waiting = _tasks_with_patience(scene.job)
    for member in fresh:
        if member.phase == "Pending" and member.task in waiting and not member.is_leaving:
            why = f"pod {member.name} is still pending"
            occurrence = _of(member, JobEvent.POD_PENDING, member.pod.metadata.created_at, why)
            if resolve(scene, occurrence) is not None:
                yield msgspec.structs.replace(occurrence, lasting=True)


def _tasks_with_patience(job: Job) -> set[str]:
    """Tasks whose pods may be pending for a while only: looking at each pod is worth it for these alone."""
    every_task = any(policy.timeout is not None for policy in job.spec.policies)
    return {
        task.name
        for task in job.spec.tasks
        if every_task or any(policy.timeout is not None for policy in task.policies)
    }


def _unknown(scene: Scene) -> Iterator[Occurrence]:
    group = scene.group
    if group is not None and group.status.phase == PodGroupPhase.UNKNOWN and group.metadata.uid != scene.progress.group:
        yield Occurrence(JobEvent.UNKNOWN, scene.now, "the gang runs without some of its members, which find no room")


def _time_limit(scene: Scene) -> Iterator[Occurrence]:
    """The gang's time is up, as its PodGroup says (`controllers/timelimit`); the next attempt has another PodGroup."""
    group = scene.group
    run = run_of(group.metadata.annotations) if group is not None else NO_RUN
    if group is not None and run.ended is not None and group.metadata.uid != scene.progress.group:
        limit = group.metadata.annotations.get(names.TIME_LIMIT, "")
        why = f"the gang has run for its time limit of {limit}, since {run.started}"
        yield Occurrence(JobEvent.TIME_LIMIT_EXCEEDED, instant.parse_instant(run.ended), why, lasting=True)


def _of(member: Member, event: JobEvent, at: Instant, why: str) -> Occurrence:
    return Occurrence(event, at, why, member.task, member.name, member.index)


# -------------------------------------------------------------------------------------------------------- resolution


def resolve(scene: Scene, occurrence: Occurrence) -> LifecyclePolicy | None:
    """The policy that answers: the first that matches among the task's, else among the Job's; None where none does.

    Where no policy ends a gang whose time is up, the Job is terminated.
    """
    task = scene.task(occurrence.task)
    candidates = (*(task.policies if task is not None else ()), *scene.job.spec.policies)
    found = next((policy for policy in candidates if _matches(policy, occurrence)), None)
    is_over = occurrence.event is JobEvent.TIME_LIMIT_EXCEEDED
    return _END if is_over and (found is None or found.action not in ENDS_A_GANG) else found


def _matches(policy: LifecyclePolicy, occurrence: Occurrence) -> bool:
    events = {policy.event, *policy.events}
    if occurrence.event in events or JobEvent.ANY in events:
        return occurrence.event is not JobEvent.POD_PENDING or policy.timeout is not None
    return policy.exit_code is not None and policy.exit_code == occurrence.exit_code


def targets(scene: Scene, action: str, occurrence: Occurrence) -> set[tuple[str, int]]:
    """Which pods a restart of single pods is aimed at, as (task, index); none where the occurrence concerns no task."""
    task = scene.task(occurrence.task)
    if task is None:
        return set()
    replicas = min(task.replicas, JOB_REPLICAS_MAX)
    match action:
        case Action.RESTART_POD:
            return {(task.name, occurrence.index)}
        case Action.RESTART_TASK:
            return {(task.name, index) for index in range(replicas)}
        case Action.RESTART_PARTITION if task.partition_policy is not None:
            size = task.partition_policy.partition_size or 1
            first = occurrence.index // size * size
            return {(task.name, index) for index in range(first, min(first + size, replicas))}
        case _:
            return set()
