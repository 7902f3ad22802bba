"""What a scenario comes to, as it is told. Apart from the engine, so that a client that reads it need not load the engine."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct


class When(Struct, frozen=True, rename="camel"):
    """When a gang would start: RFC 3339; null: not within a week, or, where it is not complete, not known."""

    p50: str | None = None  # as likely before as after
    p90: str | None = None  # in nine of ten cases by then
    ahead: int = 0  # gangs that run, and are expected to end before
    without_estimate: int = 0  # of those
    complete: bool = True  # false: the look ahead was cut short


class StartTimes(Struct, frozen=True):
    """A gang that would wait, that starts now, or that would be evicted: when it starts as things are, and there."""

    before: When | None = None  # null: it does not wait as things are: it runs, or would be evicted
    after: When | None = None


class Outcome(Struct, frozen=True, rename="camel"):
    """What one cycle would do there that it does not do here, by gang and with numbers of pods."""

    starts: Mapping[str, int] = msgspec.field(default_factory=dict)
    # Gangs that have no pods yet: theirs would be made; with how many must start together.
    admitted: Mapping[str, int] = msgspec.field(default_factory=dict)
    starts_no_more: Mapping[str, int] = msgspec.field(default_factory=dict)  # it starts as things are
    evicted: Mapping[str, int] = msgspec.field(default_factory=dict)
    evicted_no_more: Mapping[str, int] = msgspec.field(default_factory=dict)
    # Gangs that have pods on a drained node; whether each starts again.
    displaced: Mapping[str, bool] = msgspec.field(default_factory=dict)
    waiting: int = 0  # gangs that go on waiting
    at: str = ""  # the moment from which was looked ahead
    # Some of those that wait as things are or there.
    forecasts: Mapping[str, StartTimes] = msgspec.field(default_factory=dict)
    not_forecast: int = 0  # gangs in line that nobody looked ahead for
    no_forecast: str = ""  # why nobody looked ahead at all
