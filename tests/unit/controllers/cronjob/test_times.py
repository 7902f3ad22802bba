"""Which time is due: against a plain walk over all times, and over the days on which clocks change."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice import instant
from pumice.api import cron
from pumice.controllers.cronjob.times import MISSED_MAX, Times, times

SECOND, MINUTE, HOUR = instant.SECOND, instant.MINUTE, instant.HOUR


def at(text):
    return instant.parse_instant(text)


def walked(schedule, since, now):
    """The last time up to now, and the one after it, found step by step."""
    latest, following = None, schedule.next_after(since)
    while following is not None and following <= now:
        latest, following = following, schedule.next_after(following)
    return latest, following


SCHEDULES = ["* * * * *", "*/7 3 * * *", "30 2 * * 0", "0 0 1 * *", "15 10 29 2 *", "0 9-17 * * 1-5"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]


@settings(deadline=None)
@given(
    text=st.sampled_from(SCHEDULES),
    zone=st.sampled_from(ZONES),
    since=st.integers(at("2026-01-01T00:00:00Z") // SECOND, at("2026-12-31T00:00:00Z") // SECOND),
    length_s=st.integers(0, 24 * 3600),
)
def test_the_last_time_is_found_without_walking_to_it(text, zone, since, length_s):
    schedule = cron.parse(text, zone)
    began, now = since * SECOND, (since + length_s) * SECOND
    found = times(schedule, began, now, None)
    assert (found.due, found.next) == walked(schedule, began, now)


@settings(deadline=None)
@given(interval_s=st.integers(1, 10_000), since=st.integers(0, 10**6), length_s=st.integers(0, 10**6))
def test_intervals_are_counted_from_the_last_run(interval_s, since, length_s):
    schedule = cron.parse(f"@every {interval_s}s")
    began, now = since * SECOND, (since + length_s) * SECOND
    found = times(schedule, began, now, None)
    steps = length_s // interval_s
    assert found.due == (began + steps * interval_s * SECOND if steps else None)
    assert found.next == began + (steps + 1) * interval_s * SECOND


def test_a_century_of_minutes_is_no_walk():
    found = times(cron.parse("* * * * *"), at("1926-01-01T00:00:00Z"), at("2026-01-01T00:00:30Z"), None)
    assert found == Times(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:01:00Z"), missed_many=True)


def test_a_hundred_missed_times_are_no_cause_for_alarm_and_one_more_is():
    began = at("2026-01-01T00:00:00Z")
    for text in ("* * * * *", "@every 1m"):
        schedule = cron.parse(text)
        assert not times(schedule, began, began + MISSED_MAX * MINUTE, None).missed_many
        assert times(schedule, began, began + (MISSED_MAX + 1) * MINUTE, None).missed_many


@pytest.mark.parametrize("text", ["0 * * * *", "@every 1h"])
def test_what_is_older_than_the_deadline_is_not_due(text):
    began, schedule = at("2026-01-01T00:00:00Z"), cron.parse(text)
    due = began + HOUR
    assert times(schedule, began, due + 60 * SECOND, 60 * SECOND) == Times(due, due + HOUR)
    assert times(schedule, began, due + 61 * SECOND, 60 * SECOND) == Times(None, due + HOUR)


def test_a_deadline_of_nothing_leaves_the_second_itself():
    began, schedule = at("2026-01-01T00:00:00Z"), cron.parse("0 * * * *")
    assert times(schedule, began, began + HOUR + 5_000_000, 0).due == began + HOUR
    assert times(schedule, began, began + HOUR + SECOND, 0).due is None


def test_a_time_that_never_comes_is_none():
    assert times(cron.parse("0 0 30 2 *"), 0, at("2026-01-01T00:00:00Z"), None) == Times(None, None)


def test_a_clock_that_was_set_back_starts_nothing():
    schedule = cron.parse("0 * * * *")
    assert times(schedule, at("2026-01-01T05:00:00Z"), at("2026-01-01T03:30:00Z"), None).due is None
    assert times(cron.parse("@every 1h"), at("2026-01-01T05:00:00Z"), at("2026-01-01T03:30:00Z"), None).due is None
