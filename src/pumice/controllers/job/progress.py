"""What must survive a controller and has no field in Volcano's status: who was there, who must go, what is due, what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.api.meta import NOTHING, Struct
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.digits import whole_number
from pumice.instant import Instant

if TYPE_CHECKING:
    from pumice.api.batch import JobStatus

RESTARTS_KEPT = 5  # the last ones, for people; the sum of what they cost is kept for ever
TIMERS_MAX = 64  # delayed actions of one Job
RANGES_CACHED_MAX = 128  # each may hold as many numbers as a Job has pods


class Target(Struct):
    """Pods of a task that must go if they were made by a retry before `below`."""

    task: str
    indexes: str  # as ranges
    below: int


class Timer(Struct):
    """An action that is due unless its cause goes away first."""

    event: str
    action: str
    due: Instant
    task: str = ""
    pod: str = ""
    index: int = 0
    why: str = ""


class Restart(Struct):
    """What made the Job start over, and what that cost."""

    at: str
    action: str
    why: str
    lost_s: int = 0  # run time of the killed pods, summed


class Progress(Struct):
    """What must survive and has no field in Volcano's status; JSON under `pumice.dev/progress` in status.controlledResources."""

    members: Mapping[str, str] = NOTHING  # task -> indexes (as ranges) of the pods that were there at the last write
    floor: int = 0  # finished pods made by a version before this one must go, too
    targets: tuple[Target, ...] = ()
    group: str = ""  # uid of a PodGroup that must go: its gang was killed whole
    command: str = ""  # uid of the last Command that was carried out
    timers: tuple[Timer, ...] = ()
    hosts: str = ""  # digest of what the svc plugin's ConfigMap holds
    restarts: tuple[Restart, ...] = ()
    lost_s: int = 0  # by all restarts


NO_PROGRESS = Progress()
_DECODER = msgspec.json.Decoder(Progress)
_ENCODER = msgspec.json.Encoder(enc_hook=dict)


def progress_of(status: JobStatus) -> Progress:
    """What the status records; nothing if it records nothing, or what cannot be read."""
    text = status.controlled_resources.get(names.PROGRESS)
    if not text:
        return NO_PROGRESS
    try:
        return _DECODER.decode(text)
    except UNREADABLE:
        return NO_PROGRESS


def record_progress(controlled: Mapping[str, str], progress: Progress) -> Mapping[str, str]:
    """The controlled resources with the progress among them."""
    others = {key: value for key, value in controlled.items() if key != names.PROGRESS}
    if progress != NO_PROGRESS:
        others[names.PROGRESS] = _ENCODER.encode(progress).decode()
    return MappingProxyType(others)


# ------------------------------------------------------------------------------------------------------------ ranges


@lru_cache(RANGES_CACHED_MAX)
def in_ranges(text: str) -> frozenset[int]:
    """The numbers of ranges; what cannot be read as one is none, and neither is what no Job has so many of."""
    numbers: set[int] = set()
    left = JOB_REPLICAS_MAX
    for part in text.split(","):
        low, _, high = part.partition("-")
        first = whole_number(low, most=JOB_REPLICAS_MAX - 1)
        last = whole_number(high or low, most=JOB_REPLICAS_MAX - 1)
        if first is None or last is None or last - first >= left:
            continue
        numbers.update(range(first, last + 1))
        left -= max(last + 1 - first, 0)
    return frozenset(numbers)
