"""What the record answers: questions put to its database, for the controllers' server and for a command that opens it itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.record import queries
from pumice.record.model import VERSION, Detail, ForecastRecord, History, Lines, Logs, Usage, without_others

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.record.model import Filter, Period
    from pumice.record.store import Store


def history(store: Store, wanted: Filter, prices: Mapping[str, float]) -> History:
    with store.reading() as connection:
        return History(VERSION, dict(prices), queries.history(connection, wanted))


def gang(store: Store, namespace: str, name: str, prices: Mapping[str, float], *, sees_all: bool) -> Detail | None:
    """The last gang of this name. Who took its room is told only to those who may see that gang, too."""
    with store.reading() as connection:
        uid = queries.gang_uid(connection, namespace=namespace, name=name)
        if uid is None:
            return None
        evictions = queries.evictions(connection, uid)
        if not sees_all:
            evictions = [without_others(each, namespace) for each in evictions]
        return Detail(
            version=VERSION,
            prices=dict(prices),
            gang=queries.finished(connection, uid),
            attempts=queries.attempts(connection, uid),
            evictions=evictions,
            runs=queries.runs(connection, uid),
        )


def report(store: Store, wanted: Period, prices: Mapping[str, float], now: int) -> Usage:
    with store.reading() as connection:
        return Usage(VERSION, dict(prices), queries.report(connection, wanted, now))


def forecasts(store: Store, namespace: str, since: int) -> ForecastRecord:
    """How far forecasts have come true."""
    with store.reading() as connection:
        errors = queries.forecast_errors(connection, since=since, namespace=namespace)
    held = sum(late <= 0 for _, late, _ in errors) / len(errors) if errors else None
    off = sorted(abs(early) for early, _, _ in errors)[len(errors) // 2] if errors else None
    return ForecastRecord(VERSION, since, len(errors), held, off)


def logs(store: Store, namespace: str, name: str, attempt: int | None) -> Logs | None:
    """The last lines of an attempt, the last one that has any where none is named; None where there is no such gang."""
    with store.reading() as connection:
        uid = queries.gang_uid(connection, namespace=namespace, name=name)
        if uid is None:
            return None
        places = {each["version"]: each["attempt"] for each in queries.attempts(connection, uid)}
        kept = sorted({places.get(version, 1) for version in queries.logged(connection, uid)})
        chosen = attempt if attempt is not None else (kept[-1] if kept else 0)
        versions = [version for version, place in places.items() if place == chosen]
        found = queries.lines(connection, uid, versions[0]) if versions else []
        return Logs(VERSION, kept, [Lines(*each[:3], chosen, *each[3:]) for each in found])
