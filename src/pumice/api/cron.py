"""Schedules of CronJobs: five fields, descriptors and `@every`, in a time zone, as robfig/cron v3 reads them.

Fields are read here into plain lists of numbers, because the dialects differ in what a star, a step and `7` mean; the
arithmetic is cronsim's, with its field for seconds, which switches off the corrections that Debian's cron makes when clocks
change. What is left is robfig's rule: a time that the clock skips does not happen, a time that it shows twice happens twice.

Where we differ from robfig, on purpose:
- `@every` with nothing or less is refused (to robfig it is one second), and so are a field of commas alone
  (it never fires) and a star as the beginning of a range (the rest would be ignored).
- A schedule may fire later than in five years: 29 February is eight years away around 2100.
- Where clocks skip midnight, or change by half an hour, robfig may miss the day or run a day late; we do neither.
"""

import re
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pumice.errors import BadInput
from pumice.instant import SECOND, Duration, DurationError, Instant, parse_duration
from pumice.values import Value

SCHEDULE_CHARS_MAX: Final = 1_024  # every minute of an hour written out needs 170
ZONE_PART_CHARS_MAX: Final = 14  # Kubernetes' limit for one part of a zone's name

_EXAMPLE: Final = 'write minute, hour, day of month, month and day of week, for example "30 2 * * 1-5"'
_EVERY: Final = "@every "
_NUMBER: Final = re.compile(r"\+?[0-9]{1,18}")
_ZONE_PART: Final = re.compile(r"[A-Za-z._0-9+-]{1,14}")
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class ScheduleError(BadInput):
    """A text that is not a schedule, or not the name of a time zone."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()  # for low, low + 1, ...


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    _Field("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)


class Every(Value):
    """A time that depends only on the one before it."""

    interval: Duration

    def next_after(self, after: Instant) -> Instant | None:
        """One interval after the whole second of the instant."""
        return after - after % SECOND + self.interval


class _WallClock(CronSim):
    """Days begin when they begin: where clocks skip midnight, at one o'clock."""

    def advance_month(self) -> None:
        super().advance_month()
        self.dt = self.dt.astimezone(UTC).astimezone(self.dt.tzinfo)

    def advance_day(self) -> bool:
        moved = super().advance_day()
        self.dt = self.dt.astimezone(UTC).astimezone(self.dt.tzinfo)
        return moved


class Calendar(Value):
    """Times of the clock on a wall in some zone."""

    expression: str  # in cronsim's dialect, with seconds
    zone: tzinfo

    def next_after(self, after: Instant) -> Instant | None:
        """The first time later than the instant; None where there is none, as on 30 February."""
        try:
            start = datetime.fromtimestamp(after // SECOND, self.zone)
            return int(next(_WallClock(self.expression, start)).timestamp()) * SECOND
        except (
            CronSimError,
            StopIteration,
            OverflowError,
        ):
            # No such day in these months; nor in 50 years; nor in 9999.
            return None


Schedule: TypeAlias = Every | Calendar


def parse(text: str, time_zone: str = "UTC") -> Schedule:
    """The schedule of a CronJob's `schedule` and `timeZone`, or ScheduleError."""
    if len(text) > SCHEDULE_CHARS_MAX:
        raise _error(text, f"{len(text)} characters, at most {SCHEDULE_CHARS_MAX}", "write ranges and steps")
    if "TZ" in text:
        raise _error(text, "a time zone inside of a schedule is not supported", "set spec.timeZone instead")
    if text.startswith(_EVERY):
        return Every(_interval(text))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise _error(text, "unknown descriptor", f"use one of {', '.join(_DESCRIPTORS)} or @every 1h30m")
        return Calendar(_expression(text, _DESCRIPTORS[text].split()), zone(time_zone))
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise _error(text, f"{len(parts)} fields instead of {len(_FIELDS)}" if parts else "empty", _EXAMPLE)
    return Calendar(_expression(text, parts), zone(time_zone))


def zone(name: str) -> tzinfo:
    """The time zone of this name, or ScheduleError."""
    if name == "UTC":
        return UTC
    subject = f"time zone {name[:SCHEDULE_CHARS_MAX]!r}"
    advice = "write a name of the IANA database, for example Europe/Berlin"
    if name.lower() == "local":
        raise ScheduleError(f"{subject}: every process has another local time; {advice}")
    if not all(_ZONE_PART.fullmatch(part) and part.strip(".") for part in name.split("/")):
        limit = f"each of at most {ZONE_PART_CHARS_MAX} letters, digits, '.', '-', '_' or '+'"
        raise ScheduleError(f"{subject}: not a name of parts between slashes, {limit}; {advice}")
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # not a zone's file; a folder; unknown
        raise ScheduleError(f"{subject}: unknown; {advice}") from error


def _error(text: str, cause: str, next_step: str) -> ScheduleError:
    return ScheduleError(f"schedule {text[:SCHEDULE_CHARS_MAX]!r}: {cause}; {next_step}")


def _interval(text: str) -> Duration:
    try:
        interval = parse_duration(text.removeprefix(_EVERY))
    except DurationError as error:
        raise _error(text, "what follows @every is not a duration", "write for example @every 1h30m") from error
    if interval <= 0:
        raise _error(text, "the interval is not positive", "write for example @every 1h30m")
    return max(SECOND, interval - interval % SECOND)


def _expression(text: str, parts: list[str]) -> str:
    """The same five fields for cronsim, which reads a star as robfig does only where it stands alone."""
    return " ".join(["0", *(_numbers(text, part, field) for part, field in zip(parts, _FIELDS, strict=True))])


def _numbers(text: str, part: str, field: _Field) -> str:
    numbers: set[int] = set()
    star = False
    for item in filter(None, part.split(",")):
        some, is_star = _item(text, item, field)
        numbers.update(some)
        star |= is_star
    if not numbers:
        raise _error(text, f"the {field.name} is empty", _EXAMPLE)
    return "*" if star else ",".join(map(str, sorted(numbers)))


def _item(text: str, item: str, field: _Field) -> tuple[range, bool]:
    """The numbers of one item, and whether it stands for all of them: then a day need only match the other field of days."""
    span, *steps = item.split("/")
    low, *highs = span.split("-")
    star = low in {"*", "?"}
    if len(steps) > 1 or len(highs) > (not star):
        raise _error(text, f"the {field.name} is {item!r}: too many slashes or hyphens", _EXAMPLE)
    step = _number(text, steps[0], f"step of the {field.name}") if steps else 1
    if step < 1:
        raise _error(text, f"the step of the {field.name} is 0", "use 1 or more")
    if star:
        return range(field.low, field.high + 1, step), step == 1
    start = _number(text, low, field.name, field.words, field.low)
    end = _number(text, highs[0], field.name, field.words, field.low) if highs else field.high if steps else start
    for number in (start, end):
        if not field.low <= number <= field.high:
            hint = "Sunday is 0" if field is _FIELDS[-1] and number == 7 else f"use {field.low} to {field.high}"
            raise _error(text, f"the {field.name} {number} is out of range", hint)
    if start > end:
        raise _error(text, f"the {field.name} {item!r} ends before it begins", "write the lower number first")
    return range(start, end + 1, step), False


def _number(text: str, word: str, name: str, words: tuple[str, ...] = (), first: int = 0) -> int:
    """The number written as such, or as one of the words, which count from the first."""
    if word.lower() in words:
        return words.index(word.lower()) + first
    if not _NUMBER.fullmatch(word):
        allowed = f"a number or one of {', '.join(words)}" if words else "a number"
        raise _error(text, f"the {name} has {word!r} where {allowed} should be", _EXAMPLE)
    return int(word)
