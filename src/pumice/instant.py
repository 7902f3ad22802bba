"""Instants and durations as integers, read and written as Kubernetes and Go do.

An Instant is a count of nanoseconds since 1970-01-01T00:00:00Z, a Duration a count of nanoseconds: their sums and
differences are plain integers, exact and without a time zone. Kubernetes writes instants with whole seconds
(metav1.Time) or with microseconds (metav1.MicroTime); what is finer is cut off when writing, as there.
"""

import functools
import re
from datetime import date
from typing import Final, TypeAlias

from pumice.errors import BadInput

Instant: TypeAlias = int
Duration: TypeAlias = int

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

DURATION_MAX: Final = 2**63 - 1  # Go's longest, 292 years
TEXT_CHARS_MAX: Final = 256  # far more than an instant or a duration needs
TEXTS_KEPT_MAX: Final = 4096  # instants that were read, some 200 bytes each
DAYS_KEPT_MAX: Final = 64

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

# Go's reader takes one digit for the hour and a comma before the fraction; so do we.
_INSTANT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_PART: Final = re.compile(r"(?=[0-9.])([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_UNITS: Final = {
    "ns": 1,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,  # the micro sign
    "\u03bcs": MICROSECOND,  # the Greek letter mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}


class InstantError(BadInput):
    """A text that is not an instant, or an instant that cannot be written."""


class DurationError(BadInput):
    """A text that is not a duration."""


@functools.lru_cache(TEXTS_KEPT_MAX)  # pods of one gang start and end together
def parse_instant(text: str) -> Instant:
    """The instant of an RFC 3339 text with any zone and any fraction; digits beyond nanoseconds are cut off."""
    match = _INSTANT.fullmatch(text) if len(text) <= TEXT_CHARS_MAX else None
    if match is None:
        raise InstantError(f"time {text[:TEXT_CHARS_MAX]!r}: not RFC 3339; write for example 2026-01-31T12:00:00Z")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    fraction, sign, zone_hour, zone_minute = match.group(7, 8, 9, 10)
    offset_minutes = int(zone_hour) * 60 + int(zone_minute) if sign else 0
    try:
        day_number = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise InstantError(f"time {text!r}: {error}; write a date of the years 1 to 9999") from error
    # Go allows 24 hours and 60 minutes in a zone, and no leap seconds.
    if hour > 23 or minute > 59 or second > 59 or (sign and (int(zone_hour) > 24 or int(zone_minute) > 60)):
        raise InstantError(f"time {text!r}: an hour, minute or second is out of range; write for example 23:59:59Z")
    if sign == "-":
        offset_minutes = -offset_minutes
    seconds = ((day_number * 24 + hour) * 60 + minute - offset_minutes) * 60 + second
    return seconds * SECOND + int((fraction or "")[:9].ljust(9, "0"))


def format_instant(instant: Instant) -> str:
    """The instant with whole seconds in UTC, as metav1.Time is written."""
    day_number, rest = divmod(instant // SECOND, 86_400)
    try:
        day = _day(day_number)
    except (ValueError, OverflowError) as error:
        raise InstantError(
            f"time {instant} ns after 1970: outside of the years 1 to 9999; use an instant within"
        ) from error
    return f"{day}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}Z"


@functools.lru_cache(DAYS_KEPT_MAX)
def _day(number: int) -> str:
    return date.fromordinal(number + _EPOCH_DAY).isoformat()


def format_micro_instant(instant: Instant) -> str:
    """The instant with six digits of a second in UTC, as metav1.MicroTime is written."""
    return f"{format_instant(instant)[:-1]}.{instant % SECOND // MICROSECOND:06}Z"


def parse_duration(text: str) -> Duration:
    """The duration of a Go text: "1h30m", "1.5s", "300ms", "-2m", "0"."""
    negative = text[:1] == "-"
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    if not rest or len(text) > TEXT_CHARS_MAX:
        raise _duration_error(text, "empty" if not rest else f"more than {TEXT_CHARS_MAX} characters")
    total = position = 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or not (match.group(1) or match.group(2)):
            raise _duration_error(text, f"a number should stand at {rest[position:]!r}")
        whole, fraction, unit = match.group(1), match.group(2) or "", match.group(3)
        if unit not in _UNITS:
            raise _duration_error(text, f"unknown unit {unit!r}" if unit else "a unit is missing")
        total += int(whole or "0") * _UNITS[unit] + _fraction(fraction, _UNITS[unit])
        position = match.end()
    if total > DURATION_MAX + negative:
        raise _duration_error(text, "longer than 292 years")
    return -total if negative else total


def _fraction(digits: str, unit: int) -> Duration:
    """The part behind the point, computed in floats and cut off as Go does, so that we agree to the nanosecond."""
    number, scale = 0, 1.0
    for digit in digits:
        longer = number * 10 + int(digit)
        if number > (2**63 - 1) // 10 or longer > 2**63:
            break
        number, scale = longer, scale * 10
    return int(number * (unit / scale))


def _duration_error(text: str, cause: str) -> DurationError:
    return DurationError(
        f"duration {text[:TEXT_CHARS_MAX]!r}: {cause}; write for example 90s, 1h30m or 1.5h; units are h m s ms us ns"
    )


def format_duration(duration: Duration) -> str:
    """The duration as Go writes it: "1h30m0s", "1.5s", "300ms", "0s"."""
    sign, rest = ("-", -duration) if duration < 0 else ("", duration)
    if rest == 0:
        return "0s"
    if rest < MICROSECOND:
        return f"{sign}{rest}ns"
    if rest < MILLISECOND:
        return f"{sign}{_decimal(rest, MICROSECOND)}\u00b5s"
    if rest < SECOND:
        return f"{sign}{_decimal(rest, MILLISECOND)}ms"
    hours, minutes = f"{rest // HOUR}h" if rest >= HOUR else "", f"{rest // MINUTE % 60}m" if rest >= MINUTE else ""
    return f"{sign}{hours}{minutes}{_decimal(rest % MINUTE, SECOND)}s"


def _decimal(duration: Duration, unit: Duration) -> str:
    whole, rest = divmod(duration, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0") if rest else str(whole)


def human_duration(duration: Duration) -> str:
    """An age as kubectl prints it, with two or three significant figures: 90s, 3m12s, 47h, 3d4h, 2y34d."""
    if duration <= -2 * SECOND:  # clocks may differ by less than two seconds
        return "<invalid>"
    seconds = max(duration, 0) // SECOND
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    years = days // 365
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if years < 2:
        return f"{days}d"
    if years < 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(great: int, great_unit: str, small: int, small_unit: str) -> str:
    return f"{great}{great_unit}{small}{small_unit}" if small else f"{great}{great_unit}"
