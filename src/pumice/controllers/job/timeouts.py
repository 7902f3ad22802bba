"""Policies with a timeout act only if what happened is still so after a while.

What stays visible with its time (a failed, pending or completed pod) needs no timer: its time and the timeout say when to act.
What passes (an eviction) leaves a timer in the Job's status, where it survives a restart of the controller. A timer ends without
an act when its cause is gone: the pod of that name runs again, the gang is whole again, the containers have stopped crashing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.api.batch import JobEvent
from pumice.api.scheduling import PodGroupPhase
from pumice.controllers.job.policies import Occurrence
from pumice.controllers.job.progress import TIMERS_MAX, Timer
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.api.batch import LifecyclePolicy
    from pumice.controllers.job.policies import Scene
    from pumice.instant import Duration, Instant


class Ruling(Value):
    """What is to be done, and why."""

    action: str
    occurrence: Occurrence


class Weighed(Value):
    """What is due now, the timers to keep, those that are new, and when the next thing is due."""

    due: tuple[Ruling, ...]
    timers: tuple[Timer, ...]
    begun: tuple[tuple[Timer, Duration], ...]
    again_at: Instant | None


def weigh(scene: Scene, matched: Iterable[tuple[Occurrence, LifecyclePolicy]]) -> Weighed:
    """Sorts what policies answer into what is due and what must wait."""
    matched = tuple(matched)
    timers = {timer.pod: timer for timer in scene.progress.timers if _holds(timer, scene, matched)}
    due: list[Ruling] = []
    begun: list[tuple[Timer, Duration]] = []
    later: list[Instant] = []
    for occurrence, policy in matched:
        delay = _delay(policy)
        at = occurrence.at + delay
        if delay <= 0 or (occurrence.lasting and at <= scene.now):
            due.append(Ruling(policy.action, occurrence))
        elif occurrence.lasting:
            later.append(at)
        else:
            known = timers.get(occurrence.pod)
            if (known is None or known.action != policy.action) and len(timers) < TIMERS_MAX:
                timer = timers[occurrence.pod] = _timer(occurrence, policy, at)
                begun.append((timer, delay))
    for timer in timers.values():
        if timer.due <= scene.now:
            due.append(Ruling(timer.action, _occurrence(timer)))
        else:
            later.append(timer.due)
    kept = tuple(sorted(timers.values(), key=lambda timer: (timer.due, timer.pod)))
    return Weighed(tuple(due), kept, tuple(begun), min(later, default=None))


def _delay(policy: LifecyclePolicy) -> Duration:
    """The timeout; one that cannot be read is none: better to act too early than never."""
    try:
        return instant.parse_duration(policy.timeout) if policy.timeout else 0
    except instant.DurationError:
        return 0


def _timer(occurrence: Occurrence, policy: LifecyclePolicy, due: Instant) -> Timer:
    return Timer(
        event=occurrence.event.value,
        action=policy.action,
        due=due,
        task=occurrence.task,
        pod=occurrence.pod,
        index=occurrence.index,
        why=occurrence.why,
    )


def _occurrence(timer: Timer) -> Occurrence:
    return Occurrence(JobEvent(timer.event), timer.due, timer.why, timer.task, timer.pod, timer.index)


def _holds(timer: Timer, scene: Scene, matched: Sequence[tuple[Occurrence, LifecyclePolicy]]) -> bool:
    """False once the timer's cause is gone."""
    match timer.event:
        case JobEvent.POD_EVICTED:
            return not any(
                member.name == timer.pod and member.phase == "Running" and not member.is_leaving
                for member in scene.members
            )
        case JobEvent.UNKNOWN:
            return scene.group is not None and scene.group.status.phase == PodGroupPhase.UNKNOWN
        case _:
            return any(each.event == timer.event and each.pod == timer.pod for each, _ in matched)
