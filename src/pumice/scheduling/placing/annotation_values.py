"""What tenants write into annotations and labels: read if it makes sense, else as if it were absent. It can never stop a cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.instant import DurationError, InstantError, parse_duration, parse_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.instant import Duration, Instant


def positive_duration(notes: Mapping[str, str], *keys: str) -> Duration | None:
    """The first of the keys that holds a duration longer than zero."""
    for key in keys:
        text = notes.get(key)
        if text is None:
            continue
        try:
            found = parse_duration(text)
        except DurationError:
            continue
        if found > 0:
            return found
    return None


def instant_of(text: str | None) -> Instant | None:
    """A timestamp of the API server, if there is one."""
    if not text:
        return None
    try:
        return parse_instant(text)
    except InstantError:
        return None
