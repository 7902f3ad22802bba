"""Questions to the record: pure, each a statement and how its rows are read. Every listing has a limit."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from pumice.record import usage
from pumice.record.learned import Completed
from pumice.record.model import GangRow, Report, UsageRow
from pumice.record.schema import (
    ALIVE,
    ATTEMPTS,
    CAPACITY,
    EVICTIONS,
    FACTS,
    FORECASTS,
    GANGS,
    GAPS,
    LOGS,
    RUNS,
    USAGE,
    USAGE_DAYS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.record.model import Filter, Period

LIMIT_MAX = 10_000
PODS_MAX = 2_000  # of one gang, in one answer
ACCOUNTS = {"team": "team", "user": "user_name", "queue": "queue", "namespace": "namespace"}
DAY_S = 86_400


def history(connection: sa.Connection, wanted: Filter) -> list[GangRow]:
    """Gangs that have ended, the last first."""
    limit = min(wanted.limit, LIMIT_MAX)
    found = sa.select(GANGS.c.uid).where(*_conditions(wanted)).order_by(GANGS.c.ended.desc(), GANGS.c.uid.desc())
    uids = connection.scalars(found.limit(limit)).all()
    rows: dict[str, Any] = {}
    for first in range(0, len(uids), 500):
        chosen = sa.select(GANGS).where(GANGS.c.uid.in_(uids[first : first + 500]))
        rows |= {row.uid: row for row in connection.execute(chosen)}
    return [_gang(rows[uid]) for uid in uids if uid in rows]


def _conditions(wanted: Filter) -> list[Any]:
    equal = (
        (GANGS.c.user_name, wanted.user),
        (GANGS.c.queue, wanted.queue),
        (GANGS.c.namespace, wanted.namespace),
        (GANGS.c.name, wanted.name),
        (GANGS.c.state, wanted.state),
    )
    found: list[Any] = [column == value for column, value in equal if value]
    found.append(GANGS.c.ended.is_not(None) if wanted.since is None else GANGS.c.ended >= wanted.since)
    if wanted.until is not None:
        found.append(GANGS.c.ended < wanted.until)
    if wanted.before is not None:
        found.append(sa.tuple_(GANGS.c.ended, GANGS.c.uid) < wanted.before)
    return found


def _gang(row: Any) -> GangRow:
    started = row.started if row.started is not None else row.ended
    held = msgspec.json.decode(row.held, type=dict[str, float])
    return GangRow(
        uid=row.uid,
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        user=row.user_name,
        queue=row.queue,
        team=row.team,
        state=row.state,
        reason=row.reason,
        submitted=row.submitted,
        admitted=row.admitted,
        started=row.started,
        ended=row.ended,
        wait_s=max(started - row.submitted, 0),
        run_s=max(row.ended - started, 0),
        attempts=row.attempts,
        evictions=row.evictions,
        lost_s=row.lost_s,
        gpu_hours=row.gpu_s / usage.HOUR,
        lost_gpu_hours=row.lost_gpu_s / usage.HOUR,
        held={name: value / usage.HOUR for name, value in held.items()},
        shapes=msgspec.json.decode(row.shapes),
    )


def finished(connection: sa.Connection, uid: str) -> GangRow | None:
    found = connection.execute(sa.select(GANGS).where(GANGS.c.uid == uid, GANGS.c.ended.is_not(None))).first()
    return _gang(found) if found is not None else None


def attempts(connection: sa.Connection, gang: str) -> list[dict[str, Any]]:
    """A gang's attempts in order; the first has number 1."""
    found = connection.execute(sa.select(ATTEMPTS).where(ATTEMPTS.c.gang == gang).order_by(ATTEMPTS.c.number)).all()
    return [
        {"attempt": place, "version": row.number, "pods": row.pods, "started": row.started, "ended": row.ended, "state": row.state}
        for place, row in enumerate(found, 1)
    ]  # fmt: skip


def evictions(connection: sa.Connection, gang: str, limit: int = 1_000) -> list[dict[str, Any]]:
    columns = (
        EVICTIONS.c.pod,
        EVICTIONS.c.at,
        EVICTIONS.c.rule,
        EVICTIONS.c.claimant,
        EVICTIONS.c.why,
        EVICTIONS.c.lost_s,
    )
    found = sa.select(*columns).where(EVICTIONS.c.gang == gang).order_by(EVICTIONS.c.at, EVICTIONS.c.pod).limit(limit)
    return [dict(row._mapping) for row in connection.execute(found)]  # noqa: SLF001  SQLAlchemy's documented name


# ------------------------------------------------------------------------------------------------------ usage


def report(connection: sa.Connection, wanted: Period, now: int) -> Report:
    """Who used what from `since` to `until`; of one namespace alone where one is given."""
    since, until, namespace = wanted.since, wanted.until, wanted.namespace
    days, rows = _usage(connection, wanted)
    steps: Sequence[Any] = []
    if not namespace:  # what nobody used is nobody's business but the cluster's
        steps = connection.execute(
            sa.select(CAPACITY.c.at, CAPACITY.c.resource, CAPACITY.c.amount)
            .where(CAPACITY.c.at < until)
            .order_by(CAPACITY.c.at)
        ).all()
    alive_at = connection.scalar(sa.select(FACTS.c.value).where(FACTS.c.name == ALIVE))
    capacity = usage.capacity_within([tuple(step) for step in steps], since, min(until, int(alive_at or now)))
    gaps = sa.select(GAPS.c.since, GAPS.c.until, GAPS.c.rows).where(GAPS.c.until >= since, GAPS.c.since < until)
    return Report(
        since=since,
        until=until,
        by=wanted.by,
        rows=[UsageRow(*key, held / usage.HOUR, lost / usage.HOUR) for key, (held, lost) in sorted(rows.items())],
        days=[(*key, held / usage.HOUR) for key, held in sorted(days.items())],
        capacity={name: value / usage.HOUR for name, value in capacity.items()},
        gaps=[tuple(gap) for gap in connection.execute(gaps.order_by(GAPS.c.since))],
        step=wanted.step,
    )


def _usage(
    connection: sa.Connection, wanted: Period
) -> tuple[dict[tuple[int, str], float], dict[tuple[str, str], tuple[float, float]]]:
    """GPU seconds by step and account; and seconds held and lost by account and resource. Whole days are read as such."""
    since, until, namespace, step = wanted.since, wanted.until, wanted.namespace, wanted.step
    is_whole = since % DAY_S == until % DAY_S == step % DAY_S == 0
    table, at = (USAGE_DAYS, USAGE_DAYS.c.day) if is_whole else (USAGE, USAGE.c.hour)
    day, account = at - at % step, table.c[ACCOUNTS[wanted.by]]
    within = [at >= since, at < until, *([table.c.namespace == namespace] if namespace else [])]
    totals = (
        sa.select(account, table.c.resource, sa.func.sum(table.c.held_s), sa.func.sum(table.c.lost_s))
        .where(*within)
        .group_by(account, table.c.resource)
    )
    gpus = (
        sa.select(day, account, sa.func.sum(table.c.held_s))
        .where(*within, table.c.resource.like("%/gpu"))
        .group_by(day, account)
    )
    sums = {(name, resource): (held, lost) for name, resource, held, lost in connection.execute(totals)}
    return {(first, name): held for first, name, held in connection.execute(gpus)}, sums


# ------------------------------------------------------------------------------------------------------ learning


def completed(connection: sa.Connection, *, since: int, limit: int) -> list[Completed]:
    """The newest gangs that completed in one attempt, since a time, in the order of their ends."""
    wanted = GANGS.c.uid, GANGS.c.user_name, GANGS.c.queue, GANGS.c.name, GANGS.c.started, GANGS.c.ended
    found = (
        sa.select(*wanted)
        .where(
            GANGS.c.state == "Completed", GANGS.c.ended >= since, GANGS.c.started.is_not(None), GANGS.c.attempts == 1
        )
        .order_by(GANGS.c.ended.desc(), GANGS.c.uid.desc())
        .limit(limit)
    )
    return [Completed(*row) for row in connection.execute(found)][::-1]


def forecast_errors(connection: sa.Connection, *, since: int, namespace: str) -> list[tuple[int, int, int]]:
    """The newest forecasts that have come true or not: how much later than p50 and p90 the gang started, and how far ahead that was made."""
    found = (
        sa.select(
            GANGS.c.started - FORECASTS.c.p50, GANGS.c.started - FORECASTS.c.p90, GANGS.c.started - FORECASTS.c.made
        )
        .select_from(FORECASTS.join(GANGS, GANGS.c.uid == FORECASTS.c.gang))
        .where(FORECASTS.c.made >= since, GANGS.c.started.is_not(None))
        .where(GANGS.c.namespace == namespace if namespace else sa.true())
        .order_by(FORECASTS.c.made.desc())
        .limit(LIMIT_MAX)
    )
    return [tuple(row) for row in connection.execute(found)]


def gang_uid(connection: sa.Connection, *, namespace: str, name: str) -> str | None:
    """The last gang of this name, whether it has ended or not."""
    newest = sa.select(GANGS.c.uid).where(GANGS.c.namespace == namespace, GANGS.c.name == name)
    found: str | None = connection.scalar(newest.order_by(GANGS.c.submitted.desc(), GANGS.c.uid).limit(1))
    return found


def logged(connection: sa.Connection, gang: str) -> list[int]:
    """The versions of the attempts that lines are kept of."""
    found = sa.select(LOGS.c.attempt).where(LOGS.c.gang == gang).distinct()
    return list(connection.scalars(found))


def lines(connection: sa.Connection, gang: str, attempt: int) -> list[tuple[str, str, str, int, str]]:
    """Pod, task, container, when, and the last lines, of one attempt."""
    columns = (LOGS.c.pod, LOGS.c.task, LOGS.c.container, LOGS.c.at, LOGS.c.lines)
    found = sa.select(*columns).where(LOGS.c.gang == gang, LOGS.c.attempt == attempt)
    ordered = connection.execute(found.order_by(LOGS.c.task, LOGS.c.pod, LOGS.c.at, LOGS.c.container).limit(PODS_MAX))
    return [(*row[:4], zlib.decompress(row[4]).decode(errors="replace")) for row in ordered]


def runs(connection: sa.Connection, gang: str) -> list[dict[str, Any]]:
    """What is kept of a gang's pods, by attempt."""
    found = sa.select(RUNS).where(RUNS.c.gang == gang).order_by(RUNS.c.attempt, RUNS.c.task, RUNS.c.pod, RUNS.c.bound)
    found = found.limit(PODS_MAX)
    return [dict(row._mapping) for row in connection.execute(found)]  # noqa: SLF001
