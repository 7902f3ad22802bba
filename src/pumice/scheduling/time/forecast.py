"""When gangs that wait will start: the real engine run ahead from the cluster as it is, several times with other luck.

In the first run every gang runs for as long as it is expected to. In the others run times are drawn: the estimate, times a factor that was
seen when other gangs ended (`accuracy`). The median of a gang's starts is its p50, the ninth decile its p90, which is stretched by what
past forecasts have taught (`Score.stretch`). Gangs that nobody has submitted yet are in no run: what they delay is part of that stretch.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import instant
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core import cycle
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.time import accuracy
from pumice.scheduling.time.accuracy import Forecast
from pumice.scheduling.time.estimates import Estimates, Source, default_of
from pumice.scheduling.time.forward import Forward
from pumice.scheduling.whatif.trial import EVICTING_ACTIONS
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pumice.cluster.intake import Intake
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.memory import Memory
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.ports import Ports
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.time.estimates import Estimate
    from pumice.scheduling.time.forward import Step

DAY = 24 * instant.HOUR
BLUR = 0.05  # of the time from now to an event: what ends within it is taken together
NAMES_TOLD_MAX = 64  # nodes and victims of one forecast


class Effort(Value):
    """How far, how often and how finely is looked ahead."""

    runs: int = 10
    horizon: Duration = 7 * DAY
    cycles: int = 2_000  # in all runs together
    blur: float = BLUR
    units: int = 10_000  # of work in one cycle: a forecast need not find every victim that the scheduler would


class World(Value):
    """A cluster as it is, and everything else that a cycle depends on. Nothing in it is changed."""

    intake: Intake
    policy: Policy
    now: Instant
    memory: Memory = EMPTY
    ports: Ports | None = None
    extra_plugins: Mapping[str, type[Plugin]] = msgspec.field(default_factory=dict)


def first_in_line(world: World, most: int) -> list[str]:
    """The keys of gangs that wait, the first of each queue before the second of any."""
    session = _session(world)
    lines: dict[str, list[tuple[tuple[object, ...], str]]] = {}
    for key, gang in session.gangs.items():
        if gang.tally[Status.PENDING] and not any(gang.tally[status] for status in OCCUPYING):
            lines.setdefault(gang.queue, []).append(((session.gang_key(gang), gang.spec.created, key), key))
    ranked = [(place, queue, key) for queue, line in lines.items() for place, (_, key) in enumerate(sorted(line))]
    return [key for _, _, key in sorted(ranked)[:most]]


def forecast(
    world: World,
    wanted: Collection[str],
    *,
    chance: np.random.Generator,
    effort: Effort | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> dict[str, Forecast]:
    """When the gangs of these keys will start, or start again where they are evicted at once; nothing of those that run on. `go_on` is asked before each cycle: a budget of time, for those that have a clock."""
    effort = effort or Effort()
    known = _Known(world)
    present, left = _present(world, known, effort), effort.cycles - 1
    at_once, lost = _Run(known, wanted, luck=None), Counter[str]()
    for step in present.run(world.now):
        at_once.note(step)
        lost.update(eviction.task.gang for eviction in step.decisions.evictions)
    at_once.waited_for.difference_update(gang for gang, spare in known.spare.items() if lost[gang] <= spare)
    told = at_once.waited_for.union(at_once.starts)
    runs: list[_Run] = []
    luck = _Luck(chance, max(effort.runs - 1, 1))
    for number in range(effort.runs):
        run = at_once.fork(None if number == 0 else functools.partial(luck.of, number - 1))
        left = run.look_ahead(present, effort, left, go_on)
        runs.append(run)
        if run.cut_short and number > 0:
            runs.pop()  # half a run knows of early starts only
        if run.cut_short:
            break
    stretch = world.memory.of(accuracy.SCORE).stretch
    return {key: _told(key, known, runs, stretch) for key in wanted if key in told}


def _present(world: World, known: _Known, effort: Effort) -> Forward:
    """The engine at this moment, before its cycle; from its future all others fork."""
    present = Forward(
        world.intake.copy(),
        world.policy,
        world.memory,
        now=world.now,
        run_time=lambda _: None,  # the forks know
        blur=effort.blur,
        budget=effort.units,
        ports=world.ports,
        extra_plugins=world.extra_plugins,
    )
    for gang in known.ends:
        present.is_running(gang, until=None)
    return present


def _told(key: str, known: _Known, runs: Sequence[_Run], stretch: float) -> Forecast:
    first, now = runs[0], known.now
    starts = sorted(run.starts.get(key, math.inf) for run in runs)
    p50, p90 = (starts[math.ceil(len(starts) * part) - 1] for part in (0.5, 0.9))
    found = p90
    if math.isfinite(p90):
        p90 = now + (p90 - now) * stretch
        p50 = min(p50, p90)
    front = [gang for gang, at in first.ends.items() if at <= first.starts.get(key, -math.inf)]
    return Forecast(
        gang=key,
        uid=known.uids[key],
        made=now,
        p50=None if math.isinf(p50) else round(p50),
        p90=None if math.isinf(p90) else round(p90),
        found=None if math.isinf(found) else round(found),
        runs=len(runs),
        ahead=len(front),
        unknown=sum(known.estimates[gang].source is Source.POLICY for gang in front),
        nodes=first.nodes.get(key, {}),
        victims=first.victims.get(key, {}),
        cut_short=first.cut_short,
    )


def _session(world: World) -> Session:
    return cycle.open_session(
        world.intake.cluster.snapshot(),
        world.policy,
        world.memory,
        now=world.now,
        ports=world.ports,
        extra_plugins=world.extra_plugins,
    )


class _Known:
    """What is known of every gang at the beginning."""

    def __init__(self, world: World) -> None:
        session = _session(world)
        found = Estimates(session, default_of(world.policy))
        self.now = world.now
        self.errors = world.memory.of(accuracy.SLOT)
        self.uids = {key: gang.uid for key, gang in session.gangs.items()}
        self.estimates: dict[str, Estimate] = {key: found.of(gang) for key, gang in session.gangs.items()}
        self.ends: dict[str, Instant] = {}  # of gangs that run, as expected
        self.spare: dict[str, int] = {}  # pods of those that may leave before the gang has to begin again
        self.ages: dict[str, Duration] = {}
        for key, gang in session.gangs.items():
            if any(gang.tally[status] for status in OCCUPYING):
                self.ends[key] = found.end(gang)
                self.spare[key] = sum(gang.tally[status] for status in OCCUPYING) - gang.minimum
                self.ages[key] = self.now - min(gang.gang.started or self.now, self.now)


class _Luck:
    """By run and gang, from 0 to 1. Each gang has good runs and bad ones in even measure, in an order of its own: chance alone
    would tell something else every minute. A gang's luck does not depend on who else is asked for: two clusters can be compared.
    """

    def __init__(self, chance: np.random.Generator, runs: int) -> None:
        self._seed = int(chance.integers(2**63))
        self._runs = runs
        self._drawn: dict[str, list[float]] = {}

    def of(self, run: int, gang: str) -> float:
        drawn = self._drawn.get(gang)
        if drawn is None:
            own = np.random.default_rng((self._seed, zlib.crc32(gang.encode())))
            drawn = self._drawn[gang] = ((own.permutation(self._runs) + own.random(self._runs)) / self._runs).tolist()
        return drawn[run]


class _Run:
    """One look ahead, with each gang's luck; None: as expected."""

    def __init__(self, known: _Known, wanted: Collection[str], luck: Callable[[str], float] | None) -> None:
        self.known = known
        self.waited_for = {key for key in wanted if key in known.uids}
        self.luck = luck
        self.starts: dict[str, Instant] = {}
        self.ends: dict[str, Instant] = {}  # of gangs that ran at the beginning
        self.nodes: dict[str, dict[str, int]] = {}
        self.victims: dict[str, dict[str, int]] = {}
        self.cut_short = False

    def fork(self, luck: Callable[[str], float] | None) -> _Run:
        """A run that begins with what has started at once."""
        twin = _Run(self.known, self.waited_for, luck)
        twin.starts, twin.nodes, twin.victims = dict(self.starts), dict(self.nodes), dict(self.victims)
        return twin

    def look_ahead(self, present: Forward, effort: Effort, cycles: int, go_on: Callable[[], bool]) -> int:
        """Until everybody has started that is waited for, or the horizon, or the budget; what is left of that.

        Whom the engine would evict, it evicts at once: later cycles leave that out, which makes them many times cheaper.
        """
        actions = tuple(name for name in present.policy.actions if name not in EVICTING_ACTIONS)
        ahead = present.fork(msgspec.structs.replace(present.policy, actions=actions), self._length)
        for gang in sorted(present.running):
            self.ends[gang] = self._end(gang)
            ahead.is_running(gang, until=self.ends[gang])
        steps = ahead.run(present.now + effort.horizon)
        while self.waited_for:
            if cycles <= 0 or not go_on():
                self.cut_short = True
                break
            step = next(steps, None)
            if step is None:
                break
            cycles -= 1
            self.note(step)
        return cycles

    def note(self, step: Step) -> None:
        for eviction in step.decisions.evictions:
            if eviction.claimant in self.waited_for:
                own = self.victims.setdefault(eviction.claimant, {})
                if len(own) < NAMES_TOLD_MAX:
                    own[eviction.task.gang] = own.get(eviction.task.gang, 0) + 1
        started = self.waited_for.intersection(step.started)
        for commit in step.decisions.commits if started else ():
            if commit.gang in started:
                own = self.nodes[commit.gang] = {}
                for bind in commit.binds:
                    if bind.node in own or len(own) < NAMES_TOLD_MAX:
                        own[bind.node] = own.get(bind.node, 0) + 1
        for gang in started:
            self.starts[gang] = step.at
            self.waited_for.discard(gang)

    def _length(self, gang: str) -> Duration:
        estimate = self.known.estimates[gang]
        if self.luck is None:
            return estimate.length
        return round(estimate.length * self.known.errors.drawn(estimate.source, 0.0, self.luck(gang)))

    def _end(self, gang: str) -> Instant:
        """From errors that leave the gang alive so far; where none does, it ends soon, as overdue gangs do."""
        known, now = self.known, self.known.now
        if gang not in known.ends:
            return now + self._length(gang)  # it has started a moment ago
        if self.luck is None:
            return known.ends[gang]
        estimate, age = known.estimates[gang], known.ages[gang]
        factor = known.errors.drawn(estimate.source, age / max(estimate.length, 1), self.luck(gang))
        return now - age + round(estimate.length * factor)
