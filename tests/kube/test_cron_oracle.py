"""Schedules against robfig/cron, which Kubernetes and Volcano use, on random ones and around every change of clocks.

A failure names its seed in the test's id; the same id makes the same inputs again.
"""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from pumice.api import cron
from pumice.instant import SECOND, format_instant, parse_instant

if TYPE_CHECKING:
    from tools.kube.oracle_client import Oracle

ROUNDS = 400
seeds = pytest.mark.parametrize("seed", [1, 2])

# Clocks change at 2 or 3 in the morning in some zones, never in others; one is off by a quarter of an hour.
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Sydney",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Chatham",
]
LIMITS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
WORDS = {
    3: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    4: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}


def written(chance: random.Random, position: int, number: int) -> str:
    names = WORDS.get(position)
    if names and chance.random() < 0.3:
        name = names[number - LIMITS[position][0]]
        return chance.choice([name, name.upper(), name.title()])
    return str(number)


def an_item(chance: random.Random, position: int) -> str:
    low, high = LIMITS[position]
    first, last = sorted((chance.randint(low, high), chance.randint(low, high)))
    start, end = written(chance, position, first), written(chance, position, last)
    step = chance.randint(1, 20)
    return chance.choice(["*", "?", start, f"{start}-{end}", f"{start}-{end}/{step}", f"*/{step}", f"{start}/{step}"])


def a_field(chance: random.Random, position: int) -> str:
    if chance.random() < 0.4:
        return "*"
    return ",".join(an_item(chance, position) for _ in range(chance.choice([1, 1, 2, 3])))


def a_schedule(chance: random.Random) -> str:
    if chance.random() < 0.1:
        return chance.choice(["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"])
    if chance.random() < 0.1:
        return f"@every {chance.choice(['1h30m', '90s', '1.5s', '200ms', '1h0m0.9s', '25h'])}"
    return " ".join(a_field(chance, position) for position in range(5))


def ours(text: str, zone: str, start: str, count: int) -> list[str]:
    schedule = cron.parse(text, zone)
    found: list[str] = []
    moment = schedule.next_after(parse_instant(start))
    while moment is not None and len(found) < count:
        found.append(format_instant(moment))
        moment = schedule.next_after(moment)
    return found


def theirs(oracle: Oracle, text: str, zone: str, start: str, count: int) -> list[str]:
    found: list[str] = oracle.ask("cron", spec=text, tz=zone, **{"from": start, "n": count})["next"]
    return found


@seeds
def test_random_schedules_fire_when_robfig_says(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        text, zone = a_schedule(chance), chance.choice(ZONES)
        start = format_instant(chance.randint(1_577_836_800, 2_200_000_000) * SECOND)
        expected = theirs(oracle, text, zone, start, 8)
        # robfig gives up after five years; we look further, so its list may be shorter.
        got = ours(text, zone, start, 8)
        assert got[: len(expected)] == expected, (text, zone, start)
        assert len(got) == len(expected) or got[len(expected)] > years_later(expected[-1] if expected else start, 5)


def years_later(moment: str, years: int) -> str:
    return f"{int(moment[:4]) + years}{moment[4:]}"


@seeds
def test_random_garbage_is_refused_by_both(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    pieces = [*"0123456789", "*", "/", "-", ",", "?", "mon", "JAN", "L", "W", "#", "7", "60", "+", "x"]
    for _ in range(ROUNDS * 5):
        fields = [
            "".join(chance.choices(pieces, k=chance.randint(1, 3))) for _ in range(chance.choice([5, 5, 5, 5, 4, 6]))
        ]
        text = " ".join(fields)
        answer = oracle.ask_all([{"op": "cron", "spec": text, "from": "2026-01-01T00:00:00Z", "n": 1}])[0]
        try:
            cron.parse(text)
        except cron.ScheduleError:
            deliberate = any(re.search(r"[*?]-", part) or not part.strip(",") for part in fields)
            assert "error" in answer or deliberate, text
        else:
            assert "ok" in answer, (text, answer)


def changes_of_clocks(zone: str, year: int) -> list[datetime]:
    """The hours in which the zone's offset changes."""
    where = ZoneInfo(zone)
    hours = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(366 * 24)]
    offsets = [hour.astimezone(where).utcoffset() for hour in hours]
    return [hour for hour, before, after in zip(hours[1:], offsets, offsets[1:], strict=False) if before != after]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Sydney", "Africa/Casablanca", "Pacific/Chatham"]
)
@pytest.mark.parametrize(
    "text", ["30 2 * * *", "*/20 1-3 * * *", "0 * * * *", "15 3 * * 0", "0 0 * * *", "59 23 31 * 1", "30 1,2 */7 * *"]
)
def test_around_changes_of_clocks_schedules_fire_when_robfig_says(oracle: Oracle, zone: str, text: str) -> None:
    changes = changes_of_clocks(zone, 2027)
    assert changes, "the zone was chosen for its changes"
    for change in changes:
        start = (change - timedelta(hours=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert ours(text, zone, start, 60) == theirs(oracle, text, zone, start, 60)


@pytest.mark.parametrize("zone", ["Asia/Beirut", "America/Havana", "America/Santiago"])
@pytest.mark.parametrize("text", ["0 0 * * *", "20 1 * * *", "*/30 0-1 * * *"])
def test_a_daily_schedule_fires_when_robfig_says_where_clocks_skip_midnight(
    oracle: Oracle, zone: str, text: str
) -> None:
    start = "2027-01-01T12:00:00Z"
    assert ours(text, zone, start, 1400) == theirs(oracle, text, zone, start, 1400)
