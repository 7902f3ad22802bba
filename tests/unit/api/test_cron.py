"""Schedules: what is read, what is refused, and when they fire."""

import pytest

from pumice.api import cron
from pumice.instant import format_instant, parse_instant


def times(text, after, count=3, zone="UTC"):
    schedule = cron.parse(text, zone)
    found = []
    moment = schedule.next_after(parse_instant(after))
    while moment is not None and len(found) < count:
        found.append(format_instant(moment))
        moment = schedule.next_after(moment)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 2 * * *", ["2026-11-16T02:30:00Z", "2026-11-17T02:30:00Z"]),
        ("*/20 12 * * *", ["2026-11-15T12:20:00Z", "2026-11-15T12:40:00Z"]),
        ("5/25 13 ? * ?", ["2026-11-15T13:05:00Z", "2026-11-15T13:30:00Z"]),
        ("0 0 * JAN-mar/2 Mon", ["2027-01-04T00:00:00Z", "2027-01-11T00:00:00Z"]),
        ("0 9-10,18 * * *", ["2026-11-15T18:00:00Z", "2026-11-16T09:00:00Z"]),
        ("0 0 1,,2 * *", ["2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z"]),
        ("@hourly", ["2026-11-15T13:00:00Z", "2026-11-15T14:00:00Z"]),
        ("@daily", ["2026-11-16T00:00:00Z", "2026-11-17T00:00:00Z"]),
        ("@midnight", ["2026-11-16T00:00:00Z", "2026-11-17T00:00:00Z"]),
        ("@weekly", ["2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"]),
        ("@monthly", ["2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"]),
        ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
        ("@every 1h30m", ["2026-11-15T13:30:30Z", "2026-11-15T15:00:30Z"]),
        ("@every 1.9s", ["2026-11-15T12:00:31Z", "2026-11-15T12:00:32Z"]),
        ("@every 10ms", ["2026-11-15T12:00:31Z", "2026-11-15T12:00:32Z"]),
    ],
)
def test_a_schedule_fires(text, expected):
    assert times(text, "2026-11-15T12:00:30.25Z", count=2) == expected


def test_the_next_time_is_later_than_the_instant_even_if_that_is_a_time_itself():
    assert times("0 12 * * *", "2026-11-15T12:00:00Z", count=1) == ["2026-11-16T12:00:00Z"]
    assert times("0 12 * * *", "2026-11-15T11:59:59.999Z", count=1) == ["2026-11-15T12:00:00Z"]


def test_either_field_of_days_suffices_where_both_are_given():
    assert times("0 0 13 * 5", "2026-11-01T00:00:00Z", 4) == [
        "2026-11-06T00:00:00Z",  # a Friday
        "2026-11-13T00:00:00Z",  # both
        "2026-11-20T00:00:00Z",
        "2026-11-27T00:00:00Z",
    ]


def test_a_step_of_days_is_a_given_field_unlike_a_star():
    either = times("0 0 */10 * 5", "2026-11-01T00:00:00Z", 3)
    assert either == ["2026-11-06T00:00:00Z", "2026-11-11T00:00:00Z", "2026-11-13T00:00:00Z"]
    assert times("0 0 */1 * 5", "2026-11-01T00:00:00Z", 2) == ["2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z"]


def test_a_time_that_the_clock_skips_does_not_happen():
    after = "2026-03-07T12:00:00Z"  # New York goes from 2 to 3 o'clock on 8 March
    assert times("30 2 * * *", after, 1, "America/New_York") == ["2026-03-09T06:30:00Z"]


def test_a_time_that_the_clock_shows_twice_happens_twice():
    after = "2026-10-31T12:00:00Z"  # New York goes from 2 back to 1 o'clock on 1 November
    assert times("30 1 * * *", after, 2, "America/New_York") == ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]


def test_a_day_without_midnight_begins_at_one_o_clock():
    after = "2034-03-11T12:00:00Z"  # Havana goes from 0 to 1 o'clock on Sunday 12 March
    assert times("* * * * 0", after, 1, "America/Havana") == ["2034-03-12T05:00:00Z"]
    assert times("0 0 * * 0", after, 1, "America/Havana") == ["2034-03-19T04:00:00Z"]
    assert times("30 5 * * 0", "2027-03-27T12:00:00Z", 1, "Asia/Beirut") == ["2027-03-28T02:30:00Z"]


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_day_that_no_month_has_never_comes(text):
    assert times(text, "2026-01-01T00:00:00Z") == []


def test_the_29th_of_february_comes_even_after_a_century_without_it():
    assert times("0 0 29 2 *", "2097-01-01T00:00:00Z", 1) == ["2104-02-29T00:00:00Z"]


def test_nothing_comes_after_the_last_year_that_can_be_written():
    assert cron.parse("0 0 1 1 *").next_after(parse_instant("9999-06-01T00:00:00Z")) is None


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("* * * *", "4 fields instead of 5"),
        ("0 * * * * *", "6 fields instead of 5"),
        ("60 * * * *", "minute 60 is out of range; use 0 to 59"),
        ("* 24 * * *", "hour 24 is out of range"),
        ("* * 0 * *", "day of month 0 is out of range"),
        ("* * * 13 *", "month 13 is out of range"),
        ("* * * * 7", "day of week 7 is out of range; Sunday is 0"),
        ("30-10 * * * *", "ends before it begins"),
        ("*/0 * * * *", "step of the minute is 0"),
        ("*/x * * * *", "step of the minute has 'x' where a number should be"),
        ("1/2/3 * * * *", "too many slashes or hyphens"),
        ("1-2-3 * * * *", "too many slashes or hyphens"),
        ("*-5 * * * *", "too many slashes or hyphens"),
        (", * * * *", "the minute is empty"),
        ("* * L * *", "has 'L' where a number should be"),
        ("* * * foo *", "one of jan, feb"),
        ("* * * * MON#2", "has 'MON#2'"),
        ("-1 * * * *", "has '' where a number"),
        ("1_0 * * * *", "has '1_0'"),
        ("@reboot", "unknown descriptor"),
        ("@Daily", "unknown descriptor"),
        ("@every 5", "not a duration"),
        ("@every", "unknown descriptor"),
        ("@every 0s", "not positive"),
        ("@every -5m", "not positive"),
        ("TZ=UTC 0 0 * * *", "set spec.timeZone instead"),
        ("0 0 * * * " * 200, "2000 characters, at most 1024"),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_cause(text, cause):
    with pytest.raises(cron.ScheduleError) as refusal:
        cron.parse(text)
    assert cause in str(refusal.value)


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])
def test_a_zone_of_the_database_is_known(name):
    assert cron.parse("0 0 * * *", name).next_after(0) is not None


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("", "not a name of parts"),
        ("Local", "another local time"),
        ("Europe/Atlantis", "unknown"),
        ("Europe", "unknown"),
        ("../../etc/passwd", "not a name of parts"),
        ("/etc/localtime", "not a name of parts"),
        ("Europe//Berlin", "not a name of parts"),
        ("Europe/Berlin;x", "not a name of parts"),
        ("America/AVeryLongPartOfAName", "not a name of parts"),
    ],
)
def test_what_is_no_zone_is_refused_with_its_cause(name, cause):
    with pytest.raises(cron.ScheduleError) as refusal:
        cron.parse("0 0 * * *", name)
    assert cause in str(refusal.value)
    assert "Europe/Berlin" in str(refusal.value), "the next step is an example"
