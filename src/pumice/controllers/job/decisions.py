"""Decisions: a Command or a policy that moves the Job to another phase, and the status that records it.

The status is written before anything is done about it. It says enough for the rest to be done by the next leader: the version
or the targets by which pods must go, the PodGroup that must go, and the Command that has been heard.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec.structs import replace

from pumice import instant
from pumice.api.batch import LIVE_PHASES, JobPhase, LifecyclePolicy
from pumice.api.meta import NOTHING
from pumice.controllers.job import policies, timeouts
from pumice.controllers.job.phases import Kill, is_exhausted, move_for, phase_of
from pumice.controllers.job.policies import Occurrence
from pumice.controllers.job.progress import RESTARTS_KEPT, Restart, Target, in_ranges
from pumice.controllers.job.status import count, enter_phase, with_counters, with_progress
from pumice.digits import ranges
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.batch import JobStatus
    from pumice.api.bus import Command
    from pumice.controllers.job.phases import Move
    from pumice.controllers.job.policies import Scene
    from pumice.controllers.job.progress import Progress, Timer
    from pumice.controllers.job.timeouts import Weighed


class Decision(Value):
    action: str
    move: Move
    reason: str  # one word: the event, or that a Command was issued
    why: str
    targets: frozenset[tuple[str, int]] = frozenset()
    command: str = ""  # uid


def by_command(scene: Scene, command: Command) -> Decision | None:
    """What the Command asks for; None where it has no effect in this phase, or is aimed at pods and names none."""
    move = move_for(phase_of(scene.status), command.action)
    if move is None or move.kill is Kill.TARGETS:
        return None
    why = "a command asked for it" + (
        f": {command.message or command.reason}" if command.message or command.reason else ""
    )
    return Decision(command.action, move, "CommandIssued", why, command=command.metadata.uid)


PolicyMatch: TypeAlias = tuple[Occurrence, LifecyclePolicy]


def matching_policies(scene: Scene) -> list[PolicyMatch]:
    """What happened and meets a policy, with that policy; nothing in phases that end."""
    if phase_of(scene.status) not in LIVE_PHASES:
        return []
    found = [(occurrence, policies.resolve(scene, occurrence)) for occurrence in policies.occurrences(scene)]
    return [(occurrence, policy) for occurrence, policy in found if policy is not None]


def by_policies(scene: Scene, matched: Sequence[PolicyMatch]) -> tuple[Decision | None, Weighed]:
    """What the policies make of what happened, and the timers that this leaves."""
    weighed = timeouts.weigh(scene, matched)
    for ruling in weighed.due:
        move = move_for(phase_of(scene.status), ruling.action)
        if move is None:
            continue
        reason, why = ruling.occurrence.event.value, ruling.occurrence.why
        if move.kill is not Kill.TARGETS:
            return Decision(ruling.action, move, reason, why), weighed
        same = [each for each in weighed.due if each.action == ruling.action]
        aims = frozenset(aim for each in same for aim in policies.targets(scene, each.action, each.occurrence))
        if aims:
            return Decision(ruling.action, move, reason, why, aims), weighed
    return None, weighed


# ------------------------------------------------------------------------------------------------------------ recording


class Loss(Value):
    """Run time that a restart throws away."""

    pods: int = 0
    longest_s: int = 0
    total_s: int = 0

    def __str__(self) -> str:
        if not self.pods:
            return "no run time is lost"
        longest, total = (instant.format_duration(each * instant.SECOND) for each in (self.longest_s, self.total_s))
        pods = "1 pod loses" if self.pods == 1 else f"{self.pods} pods lose up to"
        return f"{pods} {longest} of run time" + (f", {total} in all" if self.pods > 1 else "")


class Recorded(Value):
    """The status that a decision leads to, and what people are told of it."""

    status: JobStatus
    progress: Progress
    message: str


def record(scene: Scene, decision: Decision, timers: Iterable[Timer]) -> Recorded:
    job, old, move = scene.job, scene.status, decision.move
    retries = old.retry_count + move.costs_retry
    is_whole = move.kill is not Kill.TARGETS
    status = replace(old, retry_count=retries, version=old.version + is_whole)
    progress = _progress(scene, decision, status, timers)
    loss = _loss(scene, decision, status, progress)
    message = f"{decision.action}: {decision.why}"
    if move.to is JobPhase.RESTARTING:
        message += f"; {loss}; retry {retries} of {job.spec.max_retry}" if move.costs_retry else f"; {loss}"
        restart = Restart(instant.format_instant(scene.now), decision.action, decision.why, loss.total_s)
        kept = (*progress.restarts, restart)[-RESTARTS_KEPT:]
        progress = replace(progress, restarts=kept, lost_s=progress.lost_s + loss.total_s)
    if phase_of(old) is move.to:
        status = replace(status, state=replace(old.state, reason=decision.reason, message=message))
    else:
        status = enter_phase(status, job, move.to, scene.now, reason=decision.reason, message=message)
    judge = msgspec.structs.replace(scene, status=status, progress=progress).judge()
    status = with_counters(status, job, count(scene.members, judge.members_to_delete(scene.members)))
    return Recorded(with_progress(status, progress), progress, message)


def _progress(scene: Scene, decision: Decision, status: JobStatus, timers: Iterable[Timer]) -> Progress:
    old = replace(scene.progress, command=decision.command or scene.progress.command)
    if decision.move.kill is Kill.TARGETS:
        by_task: dict[str, set[int]] = {}
        for task, index in decision.targets:
            by_task.setdefault(task, set()).add(index)
        targets = [Target(task, ranges(indexes), status.retry_count) for task, indexes in sorted(by_task.items())]
        kept = tuple(timer for timer in timers if (timer.task, timer.index) not in decision.targets)
        members = _without(old.members, by_task)
        return replace(old, targets=(*old.targets, *targets), members=members, timers=kept)
    group = scene.group.metadata.uid if scene.group is not None else old.group
    floor = old.floor
    if decision.move.kill is Kill.ALL and not is_exhausted(scene.job, status):
        floor = status.version
    return replace(old, members=NOTHING, targets=(), timers=(), group=group, floor=floor)


def _without(members: Mapping[str, str], gone: Mapping[str, set[int]]) -> Mapping[str, str]:
    left = {task: ranges(in_ranges(text) - gone.get(task, set())) for task, text in members.items()}
    present = {task: text for task, text in left.items() if text}
    return MappingProxyType(present) if present else NOTHING


def _loss(scene: Scene, decision: Decision, status: JobStatus, progress: Progress) -> Loss:
    """The run time of the pods that are killed or have just been taken away; who has left already has lost as much."""
    restarted = replace(status, state=replace(status.state, phase=decision.move.to.value))
    judge = msgspec.structs.replace(scene, status=restarted, progress=progress).judge()
    ended = [(member, scene.now) for member in scene.members if member.version >= scene.status.version]
    ended += [(member, min(scene.now, member.gone_by() or scene.now)) for member in policies.deleted_members(scene)]
    times = [
        (member.finished_at() if member.is_finished else end) - started
        for member, end in ended
        if judge.must_go(member) and (started := member.started_at()) is not None
    ]
    seconds = [max(time, 0) // instant.SECOND for time in times]
    return Loss(len(seconds), max(seconds, default=0), sum(seconds))
