"""How long runs of the same kind took: same user, same queue, same name but for its digits.

The engine remembers it of gangs that it sees complete, in a slot of the memory, as long as a policy asks for estimates. What the record has
learned of more of them (`record/learned.py`) is handed in through the ports, and asked first.
"""

from __future__ import annotations

import functools
import math
import re
import string
from typing import TYPE_CHECKING, Protocol

import msgspec

from pumice import instant
from pumice.api import names
from pumice.cluster.fingerprints import fingerprint
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core.memory import Slot
from pumice.scheduling.placing import annotation_values
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.gangs import Gang
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.session import Session

RUNS_KEPT = 20  # of one kind: the last ones
RUNS_LEAST = 5  # fewer say nothing
QUANTILE = 0.8  # four of five runs of the past would have ended in time
KINDS_MAX = 2_000  # of about 170 bytes each; beyond it those that were longest without a run are forgotten
COUNTED_MAX = 6_000  # finished gangs that are still there, of about 20 bytes each
ASKED_FOR_BY = "reservation"  # the plugin without which nobody asks, and nothing is remembered
_NO_DIGITS = str.maketrans("", "", string.digits)
_UID = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # controllers name groups after their owners' uids
UID_CHARS = 36


class Past(Value):
    """What past runs say of the next one."""

    length: Duration
    right: float | None = None  # the part of the runs judged so far that took no longer than was said before


class RunTimes(Protocol):
    """A source of learned run times."""

    def of(self, kind: str) -> Past | None:
        """What is known of this kind of run; None where that is too little."""


class Runs(msgspec.Struct, frozen=True, array_like=True):
    """The last runs of one kind, the newest last, in seconds."""

    lengths: tuple[int, ...] = ()
    right: int = 0
    judged: int = 0
    last: int = 0  # when the newest ended, in seconds

    def past(self) -> Past | None:
        if len(self.lengths) < RUNS_LEAST:
            return None
        place = math.ceil(len(self.lengths) * QUANTILE) - 1
        return Past(sorted(self.lengths)[place] * instant.SECOND, self.right / self.judged if self.judged else None)

    def after(self, seconds: int, ended: int) -> Runs:
        """With one run more, held against what was said before it."""
        said = self.past()
        is_right = said is not None and seconds * instant.SECOND <= said.length
        lengths = (*self.lengths, seconds)[-RUNS_KEPT:]
        return Runs(lengths, self.right + is_right, self.judged + (said is not None), max(self.last, ended))


class Remembered(msgspec.Struct, frozen=True):
    """By kind; `counted` are finished gangs that are in it already and still in the cluster."""

    kinds: dict[str, Runs] = {}
    counted: tuple[str, ...] = ()

    def of(self, kind: str) -> Past | None:
        runs = self.kinds.get(kind)
        return runs.past() if runs is not None else None


SLOT = Slot("run-times", Remembered, persistent=True)


def kind_of(gang: Gang) -> str:
    """The kind of run that a gang is; users choose these texts, so only a fingerprint of them is kept."""
    spec = gang.spec
    of_job = gang.tasks[0].pod.metadata.annotations.get(names.JOB_NAME) if gang.tasks else None
    return kind(spec.user, spec.queue, of_job or spec.job or spec.name)


def kind(user: str, queue: str, name: str) -> str:
    """The same, of a gang that is known by these texts alone."""
    stem = name if len(name) < UID_CHARS else _UID.sub("", name)
    return _kind(user, queue, stem.translate(_NO_DIGITS))


@functools.lru_cache(KINDS_MAX)
def _kind(user: str, queue: str, stem: str) -> str:
    return fingerprint(user, queue, stem)


def next_value(session: Session) -> Remembered:
    """With the runs that have ended since the last cycle."""
    before = session.memory.of(SLOT)
    if session.policy.option(ASKED_FOR_BY) is None:
        return before
    kinds, counted = dict(before.kinds), set(before.counted)
    seen: list[str] = []
    for state in session.restless:
        gang = state.gang
        if not is_over(gang):
            continue
        name = fingerprint(state.uid)
        run = run_of(gang, session.now) if name not in counted and len(seen) < COUNTED_MAX else None
        if run is not None:
            own = kind_of(gang)
            kinds[own] = kinds.get(own, Runs()).after(*run)
        seen.append(name)
    if not seen and not before.counted:
        return before
    return Remembered(newest(kinds), tuple(sorted(seen[:COUNTED_MAX])))


def is_over(gang: Gang) -> bool:
    """Whether the gang has done what it came for."""
    succeeded = gang.counts[Status.SUCCEEDED]
    enough = succeeded > 0 and succeeded >= gang.spec.min_member
    return enough and not any(gang.counts[each] for each in OCCUPYING)


def newest(kinds: Mapping[str, Runs]) -> dict[str, Runs]:
    """As many kinds as are kept: those with the newest runs."""
    kept = sorted(kinds.items(), key=lambda each: (-each[1].last, each[0]))[:KINDS_MAX]
    return dict(sorted(kept))


def run_of(gang: Gang, now: Instant) -> tuple[int, int] | None:
    """How long it ran and when it ended, in seconds; None where nobody wrote down when it started."""
    started = gang.started
    if started is None:
        return None
    ends = [
        annotation_values.instant_of(state.finished_at)
        for task in gang.tasks
        for status in task.pod.status.container_statuses
        if (state := status.state.terminated) is not None
    ]
    ended = min(max((each for each in ends if each is not None), default=now), now)
    return max((ended - started) // instant.SECOND, 0), ended // instant.SECOND
