"""Lengths of time for people who compare policies: `5d` for each of three would say nothing, so each has its two largest units."""

from __future__ import annotations

MINUTE, HOUR, DAY = 60, 3600, 86_400
_SECONDS_ALONE = 120  # up to here
HOURS_MAX = 48  # then days


def span_text(seconds: float | None) -> str:
    """`95s`, `12m30s`, `6h28m`, `27h40m`, `22d9h`; "-" for None."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < _SECONDS_ALONE:
        return f"{whole}s"
    if whole < HOUR:
        return _two(whole, MINUTE, "m", 1, "s")
    if round(whole / MINUTE) * MINUTE <= HOURS_MAX * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    return _two(whole, DAY, "d", HOUR, "h")


def _two(seconds: int, large: int, name: str, small: int, small_name: str) -> str:
    """Rounded to the smaller unit, which is left out where there is none of it."""
    many, few = divmod(round(seconds / small) * small, large)
    return f"{many}{name}{few // small}{small_name}" if few else f"{many}{name}"
