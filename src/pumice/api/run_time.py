"""When a gang started: what its time limit is counted from, and what its expected end follows from.

A gang has started when its minimum has: the k-th of its members, by `status.startTime`, where k is its minimum. What comes later is
growth. A member that is replaced would move that moment, so the controllers write it onto the PodGroup (`pumice.dev/run`); it holds for
as long as one member of that beginning is left. A gang that was taken down whole and starts again starts anew.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.meta import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.instant import Instant

MOMENTS_CACHED_MAX = 4_096  # the members of a gang start in few different seconds


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
    except (msgspec.MsgspecError, instant.InstantError):
        return NO_RUN
    return run


def started_at(start_times: Iterable[str | None], minimum: int, recorded: str | None = None) -> Instant | None:
    """When a gang's minimum was started, from the `status.startTime` of its members; None while too few have started.

    `recorded` is `run_of(group's annotations).started`, where there is a group.
    """
    known = sorted(_moment(text) for text in start_times if text)
    if recorded and known and known[0] <= _moment(recorded):
        return _moment(recorded)
    k = max(minimum, 1)
    return known[k - 1] if len(known) >= k else None


@lru_cache(MOMENTS_CACHED_MAX)
def _moment(text: str) -> Instant:
    return instant.parse_instant(text)
