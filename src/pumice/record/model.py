"""Questions to the record and its answers, as data: what travels over HTTP and what commands print. Imports no database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pumice.errors import BadInput
from pumice.record import rows
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
LIMIT = 50
BY = ("team", "user", "queue", "namespace")
FILTERS = ("namespace", "user", "queue", "name", "state", "since", "until", "limit", "before")
PERIOD = ("by", "since", "until", "namespace", "step")
STEPS = {"day": 86_400, "hour": 3_600}  # of what is told over time
STEPS_MAX = 400  # of one answer


class Filter(Value):
    """Which gangs; empty is any. Times are those of their end."""

    user: str = ""
    queue: str = ""
    namespace: str = ""
    name: str = ""
    state: str = ""
    since: int | None = None
    until: int | None = None
    limit: int = 50
    before: tuple[int, str] | None = None  # end and uid of the last one that was shown: the page after it


class Period(Value):
    by: str
    since: int
    until: int
    namespace: str = ""
    step: int = STEPS["day"]


def number(query: Mapping[str, str], name: str) -> int | None:
    """A whole number of a question; None where it is not asked."""
    text = query.get(name, "")
    if not text:
        return None
    if len(text) > 12 or not (text.isascii() and text.isdecimal()):
        raise BadInput(f"{name}={text[:40]!r}: not a whole number")
    return int(text)


def filter_of(query: Mapping[str, str]) -> Filter:
    state = query.get("state", "")
    if state and state not in rows.FINISHED:
        raise BadInput(f"state={state[:40]!r}: there are {', '.join(rows.FINISHED)}")
    ended, _, uid = query.get("before", "").partition(",")
    before = (number({"before": ended}, "before") or 0, uid) if ended else None
    texts = {name: query.get(name, "") for name in ("namespace", "user", "queue", "name")}
    limit = number(query, "limit") or LIMIT
    return Filter(
        **texts, state=state, since=number(query, "since"), until=number(query, "until"), limit=limit, before=before
    )


def period_of(query: Mapping[str, str]) -> Period:
    by, since, until = query.get("by", ""), number(query, "since"), number(query, "until")
    if by not in BY:
        raise BadInput(f"by={by[:40]!r}: there are {', '.join(BY)}")
    if since is None or until is None or since >= until:
        raise BadInput("since and until: give both, in seconds since 1970, the earlier one first")
    step = STEPS.get(query.get("step") or "day")
    if step is None:
        raise BadInput(f"step={query['step'][:40]!r}: there are {', '.join(STEPS)}")
    if step != STEPS["day"] and until - since > step * STEPS_MAX:
        raise BadInput(f"step={query['step']} from since to until: more than {STEPS_MAX}; ask for a shorter time")
    return Period(by, since, until, query.get("namespace", ""), step)


# ------------------------------------------------------------------------------------------------------ answers


class GangRow(msgspec.Struct, frozen=True):
    """A finished gang as it is listed; the names are stable."""

    uid: str
    kind: str
    namespace: str
    name: str
    user: str
    queue: str
    team: str
    state: str
    reason: str
    submitted: int
    admitted: int | None
    started: int | None
    ended: int
    wait_s: int
    run_s: int
    attempts: int
    evictions: int
    lost_s: int
    gpu_hours: float
    lost_gpu_hours: float
    held: dict[str, float]  # resource -> amount times hours
    shapes: list[dict[str, Any]]


class UsageRow(msgspec.Struct, frozen=True):
    """What an account used of a resource in a time, in amount times hours."""

    name: str
    resource: str
    used_hours: float
    lost_hours: float


class Report(msgspec.Struct, frozen=True):
    since: int
    until: int
    by: str
    rows: list[UsageRow]
    days: list[tuple[int, str, float]]  # the first second of a day (or hour, by `step`), an account, GPU hours
    capacity: dict[str, float]  # resource -> amount times hours of what the nodes had, as far as that is known
    gaps: list[tuple[int, int, int]]  # from, to, rows that were given up
    step: int = STEPS["day"]


class History(msgspec.Struct, frozen=True):
    version: int
    prices: dict[str, float]  # dollars per hour of one card, core or GiB
    gangs: list[GangRow]


class Detail(msgspec.Struct, frozen=True):
    version: int
    prices: dict[str, float]
    gang: GangRow | None  # once it has ended
    attempts: list[dict[str, Any]]
    evictions: list[dict[str, Any]]
    runs: list[dict[str, Any]]


class ForecastRecord(msgspec.Struct, frozen=True):
    """What came of the forecasts that were given since a time, of gangs that have started."""

    version: int
    since: int
    forecasts: int
    held: float | None  # the part of the gangs that had started by the second time; None without any
    # Half of them started no further than this from the likely time.
    off_s: int | None = msgspec.field(name="offSeconds")


class Usage(msgspec.Struct, frozen=True):
    version: int
    prices: dict[str, float]
    report: Report


class Lines(msgspec.Struct, frozen=True):
    """The last lines of one container of one pod."""

    pod: str
    task: str
    container: str
    attempt: int
    at: int
    text: str


class Logs(msgspec.Struct, frozen=True):
    version: int
    attempts: list[int]  # that any lines are kept of
    lines: list[Lines]


def dollars(held_hours: Mapping[str, float], prices: Mapping[str, float]) -> float | None:
    """What it cost at today's prices; None where nothing of it has one."""
    priced = [hours * prices[name] for name, hours in held_hours.items() if name in prices]
    return sum(priced) if priced else None


def without_others(eviction: dict[str, Any], namespace: str) -> dict[str, Any]:
    """For whoever may see one namespace only: a claimant of another one is not named."""
    is_own = not eviction["claimant"] or eviction["claimant"].startswith(f"{namespace}/")
    return eviction if is_own else {**eviction, "claimant": "", "why": ""}
