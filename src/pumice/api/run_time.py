"""How long a gang may run, and since when it does: what its time limit is counted from, and what its expected end follows from.

A gang has started when its minimum has: the k-th of its members, by `status.startTime`, where k is its minimum. What comes later is
growth. A member that is replaced would move that moment, so the controllers write it onto the PodGroup (`pumice.dev/run`); it holds for
as long as one member of that beginning is left. A gang that was taken down whole and starts again starts anew.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.api.meta import Struct
from pumice.api.pods import ENDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.pods import Pod
    from pumice.instant import Duration, Instant

TIMES = (names.TIME_LIMIT, names.TIME_LIMIT_WARNING, names.RUNNING_ESTIMATE)  # what is handed on from a Job to its gang
HANDED_ON = (*TIMES, names.TIME_LIMIT_SIGNAL, names.CHECKPOINT_SIGNAL)  # ... and from a JobTemplate to its Jobs
SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGTERM")  # that a pod may ask for
MOMENTS_CACHED_MAX = 4_096  # the members of a gang start in few different seconds


class Limit(NamedTuple):
    """How long a gang may run, and how long before the end it is told; 0: it is not told."""

    limit: Duration
    warning: Duration = 0


def limit_of(annotations: Mapping[str, str]) -> Limit | None:
    """The time limit that annotations set; None for none. Raises DurationError where it makes no sense."""
    limit, warning = (duration_of(annotations, key) for key in (names.TIME_LIMIT, names.TIME_LIMIT_WARNING))
    if warning is not None and limit is None:
        raise instant.DurationError(f"there is no time limit to warn of; set {names.TIME_LIMIT}, or remove this")
    if limit is None:
        return None
    if warning is not None and warning >= limit:
        text, whole = (instant.format_duration(each) for each in (warning, limit))
        raise instant.DurationError(
            f"a warning {text} before the end comes too early for a time limit of {whole}; write a shorter one"
        )
    return Limit(limit, warning or 0)


def duration_of(annotations: Mapping[str, str], key: str) -> Duration | None:
    """The duration under a key; None for none. Raises DurationError for what is none, or is not longer than 0."""
    text = annotations.get(key)
    return None if text is None else positive_duration(text)


def positive_duration(text: str) -> Duration:
    """A duration longer than 0; raises DurationError for anything else."""
    duration = instant.parse_duration(text)
    if duration <= 0:
        raise instant.DurationError(f"duration {text!r}: must be longer than 0; write for example 90s, 1h30m or 1.5h")
    return duration


class Run(Struct):
    """What stands in `pumice.dev/run`: one run of a gang, as far as its time limit is concerned. Instants are RFC 3339 texts."""

    started: str | None = None
    warned: str | None = None  # when it was told that its end is near
    ended: str | None = None  # when its time was up


NO_RUN = Run()
_DECODER = msgspec.json.Decoder(Run)


def run_of(annotations: Mapping[str, str]) -> Run:
    """The run that a PodGroup records; none where it records none, or nothing that can be read."""
    text = annotations.get(names.RUN)
    if not text:
        return NO_RUN
    try:
        run = _DECODER.decode(text)
        for each in filter(None, (run.started, run.warned, run.ended)):
            instant.parse_instant(each)
    except (*UNREADABLE, instant.InstantError):
        return NO_RUN
    return run


def start_time(pod: Pod) -> str | None:
    """When a pod was started, as its node says, but not before the server bound it: nodes' clocks may be slow."""
    started = pod.status.start_time
    if started is None:
        return None
    bound = next((each.last_transition_time for each in pod.status.conditions if each.type == "PodScheduled"), None)
    return bound if bound and _moment(bound) > _moment(started) else started


def bound_at(pod: Pod) -> Instant | None:
    """When a pod was bound, as the API server says, else when its kubelet began with it; None where neither is told."""
    for each in pod.status.conditions:
        if each.type == "PodScheduled" and each.status == "True":
            return known_moment(each.last_transition_time) or known_moment(pod.status.start_time)
    return known_moment(pod.status.start_time)


def ended_at(pod: Pod, *, is_gone: bool = False) -> Instant | None:
    """When the last container of a pod ended that has succeeded or failed, or is gone; None for others, and where nothing is told."""
    has_ended = pod.status.phase in ENDED
    if not has_ended and not is_gone:
        return None
    ends = [each.state.terminated for each in pod.status.container_statuses]
    told = [end.finished_at for end in ends if end is not None] if all(ends) else []
    if not any(told) and has_ended:
        told = [each.last_transition_time for each in pod.status.conditions]
    return max(filter(None, map(known_moment, told)), default=None)


@lru_cache(MOMENTS_CACHED_MAX)
def known_moment(text: str | None) -> Instant | None:
    """An API server's time; None for none, and for what no API server writes."""
    try:
        return instant.parse_instant(text) if text else None
    except instant.InstantError:
        return None


def started_at(start_times: Iterable[str | None], minimum: int, recorded: str | None = None) -> Instant | None:
    """When a gang's minimum was started, from the `start_time` of its members; None while too few have started.

    `recorded` is `run_of(group's annotations).started`, where there is a group.
    """
    known = sorted(_moment(text) for text in start_times if text)
    if recorded and known and known[0] <= _moment(recorded):
        return _moment(recorded)
    k = max(minimum, 1)
    return known[k - 1] if len(known) >= k else None


def lost(started: int | None, ended: int, checkpointed: int | None) -> int:
    """What an end by force costs: the time since the start, or since the last checkpoint, in whatever unit all three have.

    A checkpoint later than the end does not count: its clock is ahead, or somebody made it up.
    """
    if started is None:
        return 0
    safe = checkpointed if checkpointed is not None and checkpointed <= ended else started
    return max(ended - max(started, safe), 0)


@lru_cache(MOMENTS_CACHED_MAX)
def _moment(text: str) -> Instant:
    return instant.parse_instant(text)
