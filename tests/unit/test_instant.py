import pytest

from pumice import instant
from pumice.instant import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, DurationError, InstantError

DAY = 24 * HOUR
YEAR = 365 * DAY
NOON = 1_769_860_800 * SECOND  # 2026-01-31T12:00:00Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T14:00:00+02:00", NOON),
        ("2026-01-31T06:30:00-05:30", NOON),
        ("2026-02-01T12:00:00+24:00", NOON),
        ("2026-01-31T12:00:00.5Z", NOON + 500 * MILLISECOND),
        ("2026-01-31T12:00:00.123456Z", NOON + 123456 * MICROSECOND),
        ("2026-01-31T12:00:00.1234567899Z", NOON + 123456789),
        ("2026-01-31T12:00:00,5Z", NOON + 500 * MILLISECOND),
        ("1969-12-31T23:59:59.9Z", -100 * MILLISECOND),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * SECOND),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * SECOND),
        ("1970-01-01T1:00:00Z", HOUR),
    ],
)
def test_an_instant_is_read_to_the_nanosecond(text, expected):
    assert instant.parse_instant(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31t12:00:00z",
        "2026-01-31T12:00:00.Z",
        "2026-1-31T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2025-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:60Z",
        "2026-01-31T12:00:00+25:00",
        "2026-01-31T12:00:00+01:61",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00Z ",
        "٢026-01-31T12:00:00Z",
        "2026-01-31T12:00:00." + "0" * 300 + "Z",
    ],
)
def test_a_broken_instant_is_refused(text):
    with pytest.raises(InstantError, match=r"(?s)time .*; write "):
        instant.parse_instant(text)


@pytest.mark.parametrize(
    ("value", "seconds", "micros"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (NOON + 1, "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
        (NOON + 999_999_999, "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.999999Z"),
        (-1, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999999Z"),
        (-62_135_596_800 * SECOND, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        (253_402_300_799 * SECOND, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000000Z"),
    ],
)
def test_an_instant_is_written_as_time_and_as_micro_time(value, seconds, micros):
    assert instant.format_instant(value) == seconds
    assert instant.format_micro_instant(value) == micros


@pytest.mark.parametrize("value", [253_402_300_800 * SECOND, -62_135_596_801 * SECOND, 10**40])
def test_an_instant_beyond_the_calendar_cannot_be_written(value):
    with pytest.raises(InstantError, match="outside of the years 1 to 9999"):
        instant.format_instant(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-0", 0),
        ("0s", 0),
        ("1h30m", 90 * MINUTE),
        ("+5s", 5 * SECOND),
        ("-2m", -2 * MINUTE),
        ("1.5s", 1500 * MILLISECOND),
        (".5s", 500 * MILLISECOND),
        ("1.s", SECOND),
        ("300ms", 300 * MILLISECOND),
        ("1us", MICROSECOND),
        ("1\u00b5s", MICROSECOND),
        ("1\u03bcs", MICROSECOND),
        ("7ns", 7),
        ("1m1h", HOUR + MINUTE),
        ("0.3333333333333333333h", 20 * MINUTE),
        ("0.100000000000000000000h", 6 * MINUTE),
        ("0.9ns", 0),
        ("2562047h47m16.854775807s", 2**63 - 1),
        ("-2562047h47m16.854775808s", -(2**63)),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text, expected):
    assert instant.parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "empty"),
        ("-", "empty"),
        ("1", "a unit is missing"),
        ("1h30", "a unit is missing"),
        ("1d", "unknown unit 'd'"),
        ("1H", "unknown unit 'H'"),
        ("1 s", "unknown unit ' s'"),
        (".s", "a number should stand at '.s'"),
        ("s", "a number should stand at 's'"),
        ("1.2.3s", "a unit is missing"),
        ("--1s", "a number should stand at '-1s'"),
        ("2562047h47m16.854775808s", "longer than 292 years"),
        ("9999999999999999999999h", "longer than 292 years"),
        ("1" * 257 + "s", "more than 256 characters"),
        ("٣s", "a number should stand at"),
    ],
)
def test_a_broken_duration_is_refused_with_its_cause(text, cause):
    with pytest.raises(DurationError) as failure:
        instant.parse_duration(text)
    assert cause in str(failure.value)
    assert "; write for example 90s" in str(failure.value)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (300 * MILLISECOND, "300ms"),
        (3_300 * MILLISECOND, "3.3s"),
        (MINUTE, "1m0s"),
        (4 * MINUTE + 5 * SECOND, "4m5s"),
        (4 * MINUTE + 5001 * MILLISECOND, "4m5.001s"),
        (HOUR, "1h0m0s"),
        (5 * HOUR + 6 * MINUTE + 7001 * MILLISECOND, "5h6m7.001s"),
        (8 * MINUTE + 1, "8m0.000000001s"),
        (-90 * MINUTE, "-1h30m0s"),
        (2**63 - 1, "2562047h47m16.854775807s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(duration, text):
    assert instant.format_duration(duration) == text


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (-2 * SECOND, "<invalid>"),
        (-2 * SECOND + 1, "0s"),
        (-1, "0s"),
        (SECOND - 1, "0s"),
        (5 * SECOND, "5s"),
        (119 * SECOND, "119s"),
        (2 * MINUTE, "2m"),
        (3 * MINUTE + 12 * SECOND, "3m12s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 30 * SECOND, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (48 * HOUR - 1, "47h"),
        (48 * HOUR, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 34 * DAY, "2y34d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR + 100 * DAY, "8y"),
    ],
)
def test_an_age_is_printed_as_kubectl_prints_it(age, text):
    assert instant.human_duration(age) == text
