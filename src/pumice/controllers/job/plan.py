"""The plan for one Job: from the world as it is to what must be done next. Pure.

A plan either decides (a Command, a policy) and acts on it, or moves on by itself (a phase ends), or makes what has to exist. Each of
these is at most one write of the status, which comes before the deeds that it announces and after those that it reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pumice import instant
from pumice.api.batch import JobEvent, JobPhase
from pumice.api.meta import NOTHING
from pumice.api.pods import Pod
from pumice.controllers.job import decisions, desired_objects
from pumice.controllers.job.dead_nodes import plan_removals
from pumice.controllers.job.defaulting import total_replicas, with_defaults
from pumice.controllers.job.members import roster_of
from pumice.controllers.job.phases import ENDING, FINAL, next_phase, phase_of
from pumice.controllers.job.policies import Scene
from pumice.controllers.job.progress import in_ranges, progress_of
from pumice.controllers.job.status import (
    count,
    enter_phase,
    members_by_task,
    status_patch,
    with_counters,
    with_progress,
)
from pumice.controllers.operations import NOTHING_TO_DO, Blame, Delete, Emit, Look, Plan, consume, target_of
from pumice.digits import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.api.batch import Job, JobStatus
    from pumice.api.bus import Command
    from pumice.api.scheduling import PodGroup
    from pumice.controllers.job.decisions import Decision
    from pumice.controllers.job.members import Member, Roster
    from pumice.controllers.job.progress import Progress
    from pumice.controllers.job.timeouts import Weighed
    from pumice.controllers.job.view import JobView
    from pumice.controllers.operations import Operation
    from pumice.instant import Instant

# A Job that has no phase after so long gets it before anything else: what should come first keeps failing.
PHASELESS_S = 3


def plan(view: JobView) -> Plan:
    """What to do about the Job now; if it is being deleted, only what the API server cannot clean up: pods of dead nodes."""
    found = plan_removals(view.pods, view.nodes, view.now, view.job)
    rest = _plan_job(view) if view.job.metadata.deletion_timestamp is None else NOTHING_TO_DO
    return _plan_of(_earliest(found.again_at, rest.again_at), found.operations, *rest.stages)


def _plan_job(view: JobView) -> Plan:
    job = with_defaults(view.job)
    roster = roster_of(job, view.pods)
    scene = Scene(
        job, job.status, progress_of(job.status), roster.members, view.group, view.now, view.deleted_pods, view.doubted
    )
    heard, command = _commands(scene, view.commands)
    decision = decisions.by_command(scene, command) if command is not None else None
    matched = decisions.matching_policies(scene)
    doubtful = sorted(occurrence.pod for occurrence, _ in matched if not occurrence.is_certain)
    if doubtful and decision is None:
        # Too much hangs on it to believe a watch that may be late.
        return Plan((tuple(Look(kind=Pod, name=pod, namespace=job.metadata.namespace) for pod in doubtful),))
    by_policy, weighed = decisions.by_policies(scene, matched)
    decision = decision or by_policy
    if decision is not None:
        if command is not None and decision.command:
            heard = (*heard, consume(command))
        return _plan_decision(scene, decision, weighed, heard)
    if command is not None:
        heard = (*heard, *_ignore_command(scene, command))
    return _plan_phase(view, scene, roster, weighed, heard)


# ------------------------------------------------------------------------------------------------------------ commands


def _commands(scene: Scene, commands: Iterable[Command]) -> tuple[tuple[Operation, ...], Command | None]:
    """The end of those that were carried out or are meant for a former Job, and the oldest of the others."""
    heard: list[Operation] = []
    fresh: list[Command] = []
    for command in sorted(commands, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name)):
        target = command.target
        is_ours = target is not None and target.uid in {"", scene.job.metadata.uid}
        if command.metadata.deletion_timestamp is not None:
            continue
        if command.metadata.uid == scene.progress.command or not is_ours:
            heard.append(consume(command))
        else:
            fresh.append(command)
    return tuple(heard), next(iter(fresh), None)


def _ignore_command(scene: Scene, command: Command) -> tuple[Operation, ...]:
    phase = phase_of(scene.status)
    text = f"command {command.action} has no effect on a job that is {phase}"
    return consume(command), Emit(scene.job, "Normal", "CommandIssued", text)


# ------------------------------------------------------------------------------------------------------------ deciding


def _plan_decision(scene: Scene, decision: Decision, weighed: Weighed, heard: tuple[Operation, ...]) -> Plan:
    """First the status that says so, then the kills."""
    job = scene.job
    timers = [timer for timer in weighed.timers if timer.due > scene.now]
    recorded = decisions.record(scene, decision, timers)
    patch = status_patch(job, recorded.status)
    assert patch is not None, "a decision always changes the status"
    judge = msgspec.structs.replace(scene, status=recorded.status, progress=recorded.progress).judge()
    deeds: list[Operation] = [*heard, *_kills(job, judge.members_to_delete(scene.members))]
    if scene.group is not None and recorded.progress.group == scene.group.metadata.uid:
        deeds += _without_group(scene.group)
    deeds.append(Emit(job, "Normal", "ExecuteAction", f"Start to execute action {decision.action} "))
    deeds.append(Emit(job, "Normal" if decision.command else "Warning", decision.reason, recorded.message))
    return Plan(((patch,), tuple(deeds)))


def _kills(job: Job, doomed: Iterable[Member]) -> list[Operation]:
    return [Delete(**target_of(member.pod), blame=Blame(job, "FailedDelete")) for member in doomed]


def _without_group(group: PodGroup | None) -> list[Operation]:
    if group is None or group.metadata.deletion_timestamp is not None:
        return []
    return [Delete(**target_of(group))]


# ---------------------------------------------------------------------------------------------------------- continuing


def _plan_phase(view: JobView, scene: Scene, roster: Roster, weighed: Weighed, heard: tuple[Operation, ...]) -> Plan:
    """No policy has decided anything: the phase goes on, or ends by itself."""
    job, status, phase = scene.job, scene.status, phase_of(scene.status)
    doomed = scene.judge().members_to_delete(scene.members)
    counters = count(scene.members, doomed)
    wanted = status if _is_settled(status) else with_counters(status, job, counters)
    progress = _current_progress(scene, weighed, doomed)
    upcoming = next_phase(job, status, counters, killing=bool(doomed))
    if upcoming is not phase:
        return _plan_transition(scene, wanted, progress, upcoming, heard)
    announced = [
        Emit(job, "Normal", "ExecuteAction", f"Execute action {timer.action} after {instant.format_duration(delay)}")
        for timer, delay in weighed.begun
    ]
    first = [*heard, *announced, *_kills(job, doomed)]
    if phase in ENDING:
        return _plan_end(scene, with_progress(wanted, progress), first)
    if _is_outdated(scene):
        first += _without_group(scene.group)
    if phase is JobPhase.RESTARTING:
        patch = status_patch(view.job, with_progress(wanted, progress))
        return _plan_of(weighed.again_at, first, [patch] if patch else [])
    if not status.state.phase:
        wanted = enter_phase(wanted, job, JobPhase.PENDING, view.now)
        if _age_s(view) >= PHASELESS_S:
            patch = status_patch(view.job, with_progress(wanted, progress))
            return _plan_of(view.now, [patch] if patch else [])
    made = desired_objects.plan_objects(view, job, roster, wanted, progress)
    patch = status_patch(view.job, made.status, view.group) if made.status is not None else None
    again_at = _earliest(weighed.again_at, made.again_at)
    return _plan_of(again_at, [*first, *made.first], [*made.second, *([patch] if patch else [])], made.pods)


def _earliest(*moments: Instant | None) -> Instant | None:
    return min((at for at in moments if at is not None), default=None)


def _plan_of(again_at: Instant | None, *stages: Sequence[Operation]) -> Plan:
    return Plan(tuple(tuple(stage) for stage in stages if stage), again_at)


def _is_settled(status: JobStatus) -> bool:
    """True where the Job is over and so are its pods: what it counted then stays, also when the pods are deleted later."""
    return phase_of(status) in FINAL and not (status.pending or status.running or status.terminating)


def _is_outdated(scene: Scene) -> bool:
    """True for the PodGroup of a gang that was killed whole: its successor asks for admission anew."""
    return scene.group is not None and scene.group.metadata.uid == scene.progress.group


def _age_s(view: JobView) -> float:
    created = view.job.metadata.creation_timestamp
    return (view.now - instant.parse_instant(created)) / instant.SECOND if created else 0.0


def _current_progress(scene: Scene, weighed: Weighed, doomed: Sequence[Member]) -> Progress:
    """The progress as of now: who is there, and without what has been done."""
    progress = scene.progress
    if phase_of(scene.status) in ENDING:
        return replace(progress, members=NOTHING, timers=(), targets=(), hosts="")
    targets = tuple(
        target
        for target in progress.targets
        if any(
            member.task == target.task and member.retries < target.below and member.index in in_ranges(target.indexes)
            for member in scene.members
        )
    )
    timers = tuple(timer for timer in weighed.timers if timer.due > scene.now)
    judge = scene.judge()
    fresh = [member for member in scene.members if judge.is_fresh(member)]  # an older one that leaves is not missed
    return replace(progress, members=members_by_task(fresh, doomed), targets=targets, timers=timers)


def _plan_transition(
    scene: Scene, wanted: JobStatus, progress: Progress, upcoming: JobPhase, heard: tuple[Operation, ...]
) -> Plan:
    """One write of the status; before a Job is over, what its plugins made goes."""
    job, state = scene.job, scene.status.state
    reason, message = (state.reason, state.message) if upcoming is not JobPhase.RUNNING else ("", "")
    if upcoming is JobPhase.FAILED and phase_of(scene.status) is JobPhase.RESTARTING:
        message = f"no retry is left of {job.spec.max_retry}; {message}"
    elif upcoming is JobPhase.FAILED:
        reason, message = _failure(scene)
    status = enter_phase(wanted, job, upcoming, scene.now, reason=reason, message=message)
    first: list[Operation] = list(heard)
    if upcoming in FINAL:
        cleanup, status = desired_objects.clean_up(job, status)
        first += cleanup
    if upcoming in ENDING:
        progress = replace(progress, members=NOTHING, timers=(), targets=(), hosts="")
    patch = status_patch(job, with_progress(status, progress))
    return _plan_of(None, first, [patch] if patch else [])


def _failure(scene: Scene) -> tuple[str, str]:
    """Reason and message of a Job that no policy has ended: who failed, and the first of them."""
    failed = [member for member in scene.members if member.phase == "Failed"]
    if not failed:
        return "", "not as many pods have succeeded as must"
    first = min(failed, key=lambda member: (member.finished_at(), member.name))
    count = f"{len(failed)} of {counted(total_replicas(scene.job), 'pod')} failed"
    return JobEvent.POD_FAILED.value, f"{count}, pod {first.name} first: {first.failure}"


def _plan_end(scene: Scene, wanted: JobStatus, first: list[Operation]) -> Plan:
    """What is left goes: unfinished pods, the PodGroup and, at the very end, what plugins made."""
    first += _without_group(scene.group)
    if phase_of(scene.status) in FINAL:
        cleanup, wanted = desired_objects.clean_up(scene.job, wanted)
        first += cleanup
    patch = status_patch(scene.job, wanted)
    return _plan_of(None, first, [patch] if patch else [])
