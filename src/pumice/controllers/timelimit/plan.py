"""When a gang is told that its end is near, and when it ends.

    started --warning before the end--> told --its time is up--> marked --> its pods go
                                                                   `-----> or its Job decides

What was done is written onto the PodGroup before anything is done about it (`pumice.dev/run`), so another leader goes on where this one
stopped, and a gang that starts again has its whole time again. Conditions say the same for people; where the scheduler, which writes
conditions too, has overtaken one of ours, it is written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from pumice import instant
from pumice.api import names
from pumice.api.native import minimum_of
from pumice.api.pods import ENDED, Pod, is_living
from pumice.api.run_time import NO_RUN, Run, limit_of, run_of, start_time, started_at
from pumice.api.scheduling import PodGroup, PodGroupConditionType
from pumice.controllers.operations import NOTHING_TO_DO, Blame, Delete, Emit, Patch, Plan, target_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job
    from pumice.api.native import NativePodGroup
    from pumice.api.run_time import Limit
    from pumice.controllers.operations import Operation
    from pumice.instant import Instant

WARNING = PodGroupConditionType.TIME_LIMIT_WARNING.value
EXCEEDED = PodGroupConditionType.TIME_LIMIT_EXCEEDED.value


class View(Value):
    """A PodGroup, ours or Kubernetes' own, all pods that name it, and its Job if it has one that is known."""

    group: PodGroup | NativePodGroup
    pods: Sequence[Pod]
    is_jobs: bool = False
    job: Job | None = None


def plan(view: View, now: Instant) -> Plan:
    """What the gang's time limit asks for now, and when to look again."""
    group = view.group
    if group.metadata.deletion_timestamp is not None:
        return NOTHING_TO_DO
    run = run_of(group.metadata.annotations)
    try:
        limit = limit_of(group.metadata.annotations)
    except instant.DurationError as error:
        return _stages(_tell(view, "InvalidTimeLimit", f"the time limit is ignored: {error}"))
    if run.ended is not None and view.is_jobs:
        return _stages((_mark(view, run, limit),))  # its Job is told by that
    leftover = _kills(view, [pod for pod in view.pods if _is_of_ended(pod, run)])  # who marked it did not come to it
    members = _members(view, run)
    recorded = run.started if run.ended is None else None
    minimum = minimum_of(group) - _done_before(view)
    started = started_at((start_time(pod) for pod in members), minimum, recorded)
    if limit is None:
        return _stages((_mark(view, NO_RUN, limit) if run != NO_RUN else None,), leftover)
    if started is None or not any(map(is_living, members)):
        return _stages((_mark(view, run, limit) if run != NO_RUN else None,), leftover)
    return _plan_run(view, _TimedRun(run, limit, started, now), members, leftover)


class _TimedRun(Value):
    """One run of a gang: what is recorded of it, when it is warned and when it ends."""

    recorded: Run
    limit: Limit
    started: Instant
    now: Instant

    @property
    def ends(self) -> Instant:
        return self.started + self.limit.limit

    @property
    def warns(self) -> Instant:
        return self.ends - self.limit.warning

    @property
    def run(self) -> Run:
        """The run as it is recorded. A warning of another end is dropped: a gang that gets more time is warned again."""
        warned = self.recorded.warned if self.recorded.ended is None else None
        if warned is not None and instant.parse_instant(warned) < self.warns:
            warned = None
        return Run(instant.format_instant(self.started), warned)

    @property
    def is_over(self) -> bool:
        return self.now >= self.ends

    @property
    def warns_now(self) -> bool:
        return bool(self.limit.warning) and self.now >= self.warns and self.run.warned is None


def _plan_run(view: View, timed: _TimedRun, members: Sequence[Pod], leftover: tuple[Operation, ...]) -> Plan:
    run, ends = timed.run, instant.format_instant(timed.ends)
    limit = instant.format_duration(timed.limit.limit)
    if timed.is_over:
        text = f"the gang has run for its time limit of {limit}, since {run.started}: it ends"
        kills = () if view.is_jobs else _kills(view, view.pods)
        mark = _mark(view, replace(run, ended=_not_before(timed.now)), timed.limit)
        return _stages((mark,), (*kills, *_tell(view, EXCEEDED, text)))
    told: list[Operation] = []
    if timed.warns_now:
        run = replace(run, warned=_not_before(timed.now))
        told = _tell(view, WARNING, f"the gang has run for almost its time limit of {limit}: it ends at {ends}")
    signals = [_announce(pod, ends) for pod in members if run.warned and _asks(pod, ends)]
    # Of a pod alone, the pod says when it started; of several, some may be replaced.
    keeps = len(view.pods) > 1 or run.warned or timed.recorded != NO_RUN
    mark = _mark(view, run, timed.limit) if keeps else None
    again_at = timed.warns if timed.limit.warning and run.warned is None else timed.ends
    return _stages((mark,), (*leftover, *told, *signals), again_at=again_at)


def _not_before(moment: Instant) -> str:
    """The first whole second that is not before the moment: texts have no smaller part."""
    return instant.format_instant(moment + instant.SECOND - 1)


def _stages(*stages: Sequence[Operation | None], again_at: Instant | None = None) -> Plan:
    present = (tuple(each for each in stage if each is not None) for stage in stages)
    return Plan(tuple(stage for stage in present if stage), again_at)


# ----------------------------------------------------------------------------------------------------------- members


def _members(view: View, run: Run) -> list[Pod]:
    """Pods of this run: not those that leave, nor those of a run before it."""
    return [
        pod
        for pod in view.pods
        if pod.metadata.deletion_timestamp is None
        and not _is_of_former_attempt(view, pod)
        and not _is_of_ended(pod, run)
    ]


def _done_before(view: View) -> int:
    """How many pods of the Job had finished before this attempt, and count towards its minimum."""
    pods = [pod for pod in view.pods if pod.status.phase in ENDED and pod.metadata.deletion_timestamp is None]
    return sum(_is_of_former_attempt(view, pod) for pod in pods)


def _is_of_former_attempt(view: View, pod: Pod) -> bool:
    """Whether the pod is older than its PodGroup, of which each attempt of a Job has its own, under the same name."""
    since = view.group.metadata.creation_timestamp if view.is_jobs else None
    return since is not None and pod.metadata.created_at < instant.parse_instant(since)


def _is_of_ended(pod: Pod, run: Run) -> bool:
    return run.ended is not None and pod.metadata.created_at <= instant.parse_instant(run.ended)


def _kills(view: View, pods: Sequence[Pod]) -> tuple[Operation, ...]:
    """Deletions, not evictions: a disruption budget protects from others, and the time limit is the owner's own."""
    return tuple(Delete(**target_of(pod), blame=Blame(view.group, "FailedDelete")) for pod in pods if is_living(pod))


def _asks(pod: Pod, ends: str) -> bool:
    """Whether a pod wants its processes to get a signal, and has not been told of this end."""
    annotations = pod.metadata.annotations
    return names.TIME_LIMIT_SIGNAL in annotations and annotations.get(names.TIME_LIMIT_ENDS) != ends and is_living(pod)


def _announce(pod: Pod, ends: str) -> Patch:
    body = {"metadata": {"annotations": {names.TIME_LIMIT_ENDS: ends}}}
    return Patch(**target_of(pod), body=body)


# ------------------------------------------------------------------------------------------------------------ marks


def _tell(view: View, reason: str, text: str) -> list[Operation]:
    """On the group, and on what people look at: the Job, or the pod that the group was made for."""
    owner = view.group.metadata.controller
    alone = [pod for pod in view.pods if owner is not None and pod.metadata.uid == owner.uid]
    job = [view.job] if view.job is not None else []
    return [Emit(each, "Warning", reason, text) for each in (view.group, *job, *alone)]


def _mark(view: View, run: Run, limit: Limit | None) -> Patch | None:
    """The PodGroup says what the run is; None where it does already. Conditions are a list: nobody else may have written since.

    Those of Kubernetes' own groups are Kubernetes': there the annotation and the events have to do.
    """
    metadata = view.group.metadata
    body: dict[str, Any] = {}
    if run_of(metadata.annotations) != run:
        body["metadata"] = {"annotations": {names.RUN: msgspec.json.encode(run).decode() if run != NO_RUN else None}}
    conditions = _conditions(view.group, run, limit) if isinstance(view.group, PodGroup) else None
    if conditions is not None:
        body["status"] = {"conditions": conditions}
    if not body:
        return None
    return Patch(
        **target_of(view.group),
        body=body,
        version=metadata.resource_version if conditions is not None else "",
        blame=Blame(view.group, "PodGroupError"),
    )


def _conditions(group: PodGroup, run: Run, limit: Limit | None) -> list[dict[str, Any]] | None:
    """All conditions, with those about time as the run wants them; None where they are. One that never held is not there."""
    have = {each.type: each for each in group.status.conditions}
    allowed = instant.format_duration(limit.limit) if limit is not None else ""
    changed: dict[str, Any] = {}
    for kind, at, text in (
        (WARNING, run.warned, f"the gang, started at {run.started}, is near the end of its time limit of {allowed}"),
        (EXCEEDED, run.ended, f"the gang, started at {run.started}, has run for its time limit of {allowed}"),
    ):
        old = have.get(kind)
        if (old is not None and old.status == "True") != (at is not None):
            changed[kind] = {
                "type": kind,
                "status": "False" if at is None else "True",
                "reason": kind,
                "message": "the gang has time left" if at is None else text,
                "transitionID": group.metadata.uid,
                "lastTransitionTime": at or run.started or (old.last_transition_time if old is not None else None),
            }
    merged = {kind: msgspec.to_builtins(each) for kind, each in have.items()} | changed
    return [merged[kind] for kind in sorted(merged)] if changed else None
