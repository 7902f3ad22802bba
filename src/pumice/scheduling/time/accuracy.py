"""How wrong estimates are, and how often forecasts held: what makes the next forecast honest. Both are remembered.

When a gang ends, the ratio of its run time to what was expected is kept, by who had said so. When a gang starts that had a forecast, it is
noted whether its p90 held, and how its wait compares to the p90 that was found, before experience changed it. The ninth decile of those
ratios stretches the forecasts that follow. Beside it one that did not hold stretches them more, one that did shrinks them, nine times more
slowly: the decile is right after a few dozen forecasts, and in the long run nine of ten hold, whatever the forecasts leave out and however it changes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.cluster.fingerprints import fingerprint
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core.memory import Slot
from pumice.scheduling.time import run_times
from pumice.scheduling.time.estimates import OVERDUE_PART, Estimates, Source, default_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pumice.instant import Instant
    from pumice.scheduling.core.session import Session

KEPT_MAX = 200  # errors of one source: the last ones
ENOUGH = 20  # before there are as many, experience of others helps out
FORECASTS_MAX = 1_000  # that wait for their gang to start, of about 70 bytes each
RECENT_MAX = 200  # the last ones, by which people judge
HOLDS = 0.9  # of all forecasts
STEP = 0.15  # of the logarithm of the stretch, for one forecast
STRETCH_MAX = 20.0
WAITS_MAX = 60  # of the last gangs that had a forecast, by which the next ones are stretched
WAITS_FEW = 10  # there is no ninth decile of fewer: the largest counts

# What run times are to estimates elsewhere: limits are generous, owners are off both ways, and who says nothing may mean anything.
USUAL: Mapping[Source, tuple[float, ...]] = {
    Source.LIMIT: (0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0),
    Source.DECLARED: (0.2, 0.5, 0.8, 0.95, 1.0, 1.05, 1.2, 1.6, 2.5),
    Source.RECORDED: (0.3, 0.5, 0.7, 0.85, 1.0, 1.0, 1.2, 1.6),
    Source.LEARNED: (0.3, 0.5, 0.7, 0.85, 1.0, 1.0, 1.2, 1.6),
    Source.QUEUE: (0.05, 0.2, 0.5, 1.0, 1.5, 3.0),
    Source.POLICY: (0.02, 0.1, 0.3, 1.0, 2.0, 6.0),
}


class Forecast(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """When a gang will start; instants in nanoseconds, None: not within the horizon."""

    gang: str
    uid: str
    made: int
    p50: int | None = None
    p90: int | None = None
    found: int | None = None  # the p90 of the runs, before experience stretched it
    runs: int = 0
    ahead: int = 0  # gangs that run now and are expected to end before it starts
    unknown: int = 0  # of those: how many of which nobody has said how long they run
    nodes: dict[str, int] = {}  # in the run as expected: pods by node
    victims: dict[str, int] = {}  # in that run: pods that are evicted for it, by gang
    cut_short: bool = False  # the budget ended first


class Errors(msgspec.Struct, frozen=True):
    """Run time / estimate in thousandths, by source, the newest last."""

    ratios: dict[str, tuple[int, ...]] = {}

    def after(self, source: Source, ratio: float) -> Errors:
        kept = (*self.ratios.get(source.value, ()), min(round(ratio * 1000), 10**9))[-KEPT_MAX:]
        return Errors({**self.ratios, source.value: kept})

    def drawn(self, source: Source, beyond: float, luck: float) -> float:
        """One of those that are larger than what has passed already, the larger the luck, from 0 to 1; where none is, a tenth more of that, or a few."""
        seen = [each / 1000 for each in self.ratios.get(source.value, ())]
        known = [*seen, *(USUAL[source] if len(seen) < ENOUGH else ())]
        left = sorted(each for each in known if each > beyond)
        if left:
            return left[int(luck * len(left))]
        return beyond * (1 - math.log(1 - luck) / OVERDUE_PART) + 1e-9


class Open(msgspec.Struct, frozen=True, array_like=True):
    """A forecast that waits for its gang to start; seconds since 1970."""

    gang: str  # its uid
    made: int
    p90: int
    found: int = 0  # seconds from then to the p90 that was found, before it was stretched; 0: not known
    late: bool = False  # it did not hold, and the gang waits on
    p50: int = 0  # for the record; 0: not known


class Score(msgspec.Struct, frozen=True):
    """The record of past forecasts; the interface for a database that keeps more of them is `opened` and `judged`."""

    open: tuple[Open, ...] = ()
    waits: tuple[int, ...] = ()  # in thousandths of what was found, the newest last
    bias: float = 0.0  # of the logarithm of the stretch
    recent: tuple[bool, ...] = ()  # whether they held, the newest last
    total: int = 0

    @property
    def stretch(self) -> float:
        known = sorted(self.waits)
        place = min(math.ceil(HOLDS * (len(known) + 1)), len(known)) - 1
        usual = known[place] if len(known) >= WAITS_FEW else max([1000, *known[-1:]])
        return min(max(usual / 1000 * math.exp(self.bias), 1 / STRETCH_MAX), STRETCH_MAX)

    @property
    def held(self) -> float | None:
        """The part of the recent forecasts whose p90 held."""
        return sum(self.recent) / len(self.recent) if self.recent else None

    def opened(self, made: Iterable[Forecast]) -> Score:
        """With the first forecast of each gang that has a p90; later ones are easier, and do not count."""
        known = {each.gang for each in self.open}
        fresh = [
            Open(
                each.uid,
                each.made // instant.SECOND,
                -(-each.p90 // instant.SECOND),
                _found(each),
                p50=_seconds(each.p50),
            )
            for each in made
            if each.p90 is not None and each.uid not in known
        ]
        if not fresh:
            return self
        return msgspec.structs.replace(self, open=(*self.open, *fresh)[-FORECASTS_MAX:])

    def judged(self, started: Mapping[str, Instant], waiting: Collection[str], now: Instant) -> Score:
        """After a look at the cluster: gangs that have started and when, and gangs that wait, by uid."""
        left, score = list[Open](), self
        for each in self.open:
            start = started.get(each.gang)
            if start is not None:
                score = score.after_wait(each, start)
                score = score if each.late else score.after_verdict(held=start <= each.p90 * instant.SECOND)
            elif each.gang in waiting:
                is_late = now > each.p90 * instant.SECOND
                score = score.after_verdict(held=False) if is_late and not each.late else score
                left.append(msgspec.structs.replace(each, late=is_late))
        return score if left == list(self.open) else msgspec.structs.replace(score, open=tuple(left))

    def after_wait(self, said: Open, start: Instant) -> Score:
        if not said.found:
            return self
        real = max(start // instant.SECOND - said.made, 0) * 1000 // said.found
        return msgspec.structs.replace(self, waits=(*self.waits, min(real, 10**9))[-WAITS_MAX:])

    def after_verdict(self, *, held: bool) -> Score:
        step = STEP * ((HOLDS - 1) if held else HOLDS)
        limit = math.log(STRETCH_MAX)
        return msgspec.structs.replace(
            self,
            bias=min(max(self.bias + step, -limit), limit),
            recent=(*self.recent, held)[-RECENT_MAX:],
            total=self.total + 1,
        )


def _found(told: Forecast) -> int:
    return 0 if told.found is None else max((told.found - told.made) // instant.SECOND, 1)


def _seconds(at: Instant | None) -> int:
    return 0 if at is None else at // instant.SECOND


SLOT = Slot("estimate-errors", Errors, persistent=True)
SCORE = Slot("forecast-score", Score, persistent=True)


def next_errors(session: Session) -> Errors:
    """With the gangs that have ended since the last cycle; remembered only where a policy asks for estimates."""
    errors = session.memory.of(SLOT)
    if session.policy.option(run_times.ASKED_FOR_BY) is None:
        return errors
    over = [state for state in session.restless if run_times.is_over(state.gang)]
    if not over:
        return errors
    counted = set(session.memory.of(run_times.SLOT).counted)
    estimates = Estimates(session, default_of(session.policy))
    for state in over:
        run = run_times.run_of(state.gang, session.now) if fingerprint(state.uid) not in counted else None
        if run is not None:
            said = estimates.of(state)
            errors = errors.after(said.source, run[0] * instant.SECOND / max(said.length, 1))
    return errors


def next_score(session: Session) -> Score:
    """With the forecasts that were made since the last cycle, and those that have come true or not."""
    score = session.memory.of(SCORE).opened(session.ports.forecasts.values())
    if not score.open:
        return score
    started, waiting = dict[str, "Instant"](), set[str]()
    for state in session.gangs.values():
        if any(state.gang.counts[status] for status in OCCUPYING) or run_times.is_over(state.gang):
            started[state.uid] = state.gang.started or session.now
        elif state.gang.counts[Status.PENDING] or not state.gang.tasks:  # or it waits for its admission
            waiting.add(state.uid)
    return score.judged(started, waiting, session.now)
