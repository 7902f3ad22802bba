"""What a scenario comes to, as it is told. Apart from the engine, so that a client that reads it need not load the engine."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct


class Outcome(Struct, frozen=True, rename="camel"):
    """What one cycle would do there that it does not do here, by gang and with numbers of pods."""

    starts: Mapping[str, int] = msgspec.field(default_factory=dict)
    admitted: Mapping[str, int] = msgspec.field(
        default_factory=dict
    )  # had no pods yet: they would be made; with how many must start together
    starts_no_more: Mapping[str, int] = msgspec.field(default_factory=dict)  # it starts as things are
    evicted: Mapping[str, int] = msgspec.field(default_factory=dict)
    evicted_no_more: Mapping[str, int] = msgspec.field(default_factory=dict)
    displaced: Mapping[str, bool] = msgspec.field(
        default_factory=dict
    )  # had pods on a drained node; whether it starts again
    waiting: int = 0  # gangs that go on waiting
