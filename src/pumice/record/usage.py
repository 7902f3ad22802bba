"""What runs held and what was lost, summed up from rows: by gang, and by hour. Pure; always the whole sum, never a difference."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pumice.api import run_time
from pumice.record import facts
from pumice.record.rows import State
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HOUR = 3_600
CACHED_MAX = 4_096


class Held(NamedTuple):
    """A run, as far as it is charged; `attempt_state` is how its attempt ended."""

    gang: str
    resources: str
    bound: int
    started: int | None
    ended: int | None
    state: str
    checkpointed: int | None
    attempt_state: str = ""

    @property
    def lost_s(self) -> int:
        """Run time that an eviction threw away: of the victim, and of those that had to start over with it."""
        evicted = self.state == State.EVICTED or (self.attempt_state == State.EVICTED and self.state != State.SUCCEEDED)
        if not evicted or self.ended is None:
            return 0
        return run_time.lost(self.started, self.ended, self.checkpointed)


class GangSum(Mutable):
    lost_s: int = 0
    gpu_s: float = 0.0
    lost_gpu_s: float = 0.0
    held: dict[str, float] = msgspec.field(default_factory=lambda: defaultdict(float))


def by_gang(runs: Iterable[Held]) -> dict[str, GangSum]:
    """What each gang held in amount times seconds, over all its attempts."""
    sums: dict[str, GangSum] = defaultdict(GangSum)
    for run in runs:
        if run.ended is None:
            continue
        total = sums[run.gang]
        lost_s = run.lost_s
        total.lost_s += lost_s
        for resource, amount in amounts_of(run.resources).items():
            total.held[resource] += amount * (run.ended - run.bound)
            if facts.is_gpu(resource):
                total.gpu_s += amount * (run.ended - run.bound)
                total.lost_gpu_s += amount * lost_s
    return dict(sums)


class Account(NamedTuple):
    namespace: str
    queue: str
    user_name: str
    team: str


def by_hour(
    hour: int, runs: Iterable[tuple[Account, Held]], now: int
) -> dict[tuple[Account, str], tuple[float, float]]:
    """What was held in this hour and what of it was lost, by account and resource. A loss counts in the hour in which it happened."""
    until = min(hour + HOUR, now)
    sums: dict[tuple[Account, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for account, run in runs:
        end = until if run.ended is None else min(run.ended, until)
        held_s = max(end - max(run.bound, hour), 0)
        ends_here = run.ended is not None and hour <= run.ended < hour + HOUR
        lost_s = run.lost_s if ends_here else 0
        if held_s or lost_s:
            for resource, amount in amounts_of(run.resources).items():
                entry = sums[account, resource]
                entry[0] += amount * held_s
                entry[1] += amount * lost_s
    return {key: (held, lost) for key, (held, lost) in sums.items()}


def capacity_within(steps: Iterable[tuple[int, str, float]], since: int, until: int) -> dict[str, float]:
    """Amount times seconds of what the nodes had from `since` to `until`; steps are (time, resource, amount) in order of time."""
    totals: dict[str, float] = defaultdict(float)
    current: dict[str, tuple[int, float]] = {}
    for at, resource, amount in steps:
        _extend(totals, current, resource, since, min(at, until))
        current[resource] = (at, amount)
    for resource in list(current):
        _extend(totals, current, resource, since, until)
    return dict(totals)


def _extend(
    totals: dict[str, float], current: Mapping[str, tuple[int, float]], resource: str, since: int, until: int
) -> None:
    if resource in current:
        begun, amount = current[resource]
        totals[resource] += amount * max(until - max(begun, since), 0)


@lru_cache(CACHED_MAX)
def amounts_of(text: str) -> Mapping[str, float]:
    return msgspec.json.decode(text, type=dict[str, float])
