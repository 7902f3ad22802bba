"""Which time of a schedule is due, and which comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pumice.api.cron import Every
from pumice.instant import SECOND

if TYPE_CHECKING:
    from pumice.api.cron import Calendar, Schedule
    from pumice.instant import Duration, Instant

MISSED_MAX = 100  # more missed times than this are worth a warning


class Times(NamedTuple):
    due: Instant | None  # the latest time that has come and is not too late
    next: Instant | None
    missed_many: bool = False


def times(schedule: Schedule, since: Instant, now: Instant, deadline: Duration | None) -> Times:
    """Of all times after `since` the last that has come; one that came more than `deadline` ago is not due any more.

    Times and deadlines have whole seconds: what came within the second is not late.
    """
    oldest = since if deadline is None else max(since, (now - deadline) // SECOND * SECOND - 1)
    if isinstance(schedule, Every):
        return _every(schedule, since, now, oldest)
    return _calendar(schedule, now, oldest)


def _every(schedule: Every, since: Instant, now: Instant, oldest: Instant) -> Times:
    """Counted from `since` whatever the deadline: an interval has no times of its own."""
    began = since - since % SECOND
    passed = max((now - began) // schedule.interval, 0)
    latest = began + passed * schedule.interval
    following = latest + schedule.interval
    if not passed or latest < oldest:
        return Times(None, following)
    return Times(latest, following, (latest - max(oldest, began) - 1) // schedule.interval >= MISSED_MAX)


def _calendar(schedule: Calendar, now: Instant, oldest: Instant) -> Times:
    latest, following = None, schedule.next_after(oldest)
    for _ in range(MISSED_MAX + 1):
        if following is None or following > now:
            return Times(latest, following)
        latest, following = following, schedule.next_after(following)
    assert latest is not None
    latest = _last(schedule, latest, now)
    return Times(latest, schedule.next_after(latest), missed_many=True)


def _last(schedule: Calendar, early: Instant, now: Instant) -> Instant:
    """The last time up to now, of which `early` is one: found by halving, because there may be millions."""
    late = now
    while late - early > SECOND:
        middle = (early + late) // 2
        found = schedule.next_after(middle)
        if found is not None and found <= now:
            early = found
        else:
            late = middle
    return early
