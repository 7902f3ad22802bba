"""The record in its database: opened and brought up to date, written in transactions, summed up and trimmed. Blocks; belongs to threads.

A batch is one transaction: when `write` returns it is on disk, and when it raises nothing of it is there. All statements are idempotent, so
a batch whose outcome nobody heard is simply written again.
"""

from __future__ import annotations

import contextlib
import pathlib
import zlib
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite

from pumice.errors import BadInput, NotFound, PumiceError
from pumice.record import queries, settings, usage
from pumice.record.rows import TABLES, Attempt, Gang, Run, State
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
    METADATA,
    RUNS,
    STALE_HOURS,
    USAGE,
    USAGE_DAYS,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pumice.record.learned import Completed
    from pumice.record.log_keeper import Lines
    from pumice.record.rows import Gap, Row

SCHEMA = "0002"  # the newest version
BUSY_S = 5.0  # how long a writer of SQLite waits for another
STATEMENT_S = 30  # how long PostgreSQL may take for a statement
CHUNK = 400  # values of one IN
NOTED_S = 10  # how exactly the record knows until when it was kept up to date
HOURS_MAX = 48  # summed up in one transaction
TRIMMED_MAX = 5_000  # rows deleted in one transaction
LOGS_BYTES_MAX = 2**30  # of compressed lines in all; the oldest go first
_CLUSTER, _SUMMED = "cluster", "summed_until"


class Unavailable(PumiceError):
    """The database cannot be reached, or is too slow; what was to be written may be tried again."""


class Store:
    """One database; any number of threads, one transaction each."""

    def __init__(self, url: str) -> None:
        self.place = settings.without_password(settings.check(url))
        self._engine = _engine(url)
        self._insert = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert
        self._upserts: dict[type[Row], str] = {}
        self._marked = self._insert(STALE_HOURS).on_conflict_do_nothing()
        self._noted = 0  # when it was last noted that the record is kept up to date

    def close(self) -> None:
        self._engine.dispose()

    @contextlib.contextmanager
    def begin(self, **options: Any) -> Iterator[sa.Connection]:
        """A transaction; errors of the database are Unavailable."""
        try:
            with self._engine.execution_options(**options).begin() as connection:
                yield connection
        except sa.exc.DBAPIError as error:
            raise Unavailable(f"the record in {self.place}: {_cause(error)}") from error

    def reading(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """A transaction that writes nothing, and that no writer waits for."""
        return self.begin(reads=True)

    def open(self) -> None:
        """Make the schema, or bring it up to date."""
        if self._engine.url.database and self._engine.dialect.name == "sqlite":
            try:
                pathlib.Path(self._engine.url.database).absolute().parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise Unavailable(f"the record in {self.place}: its folder cannot be made: {error.strerror}") from error
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(resources.files("pumice.record") / "migrations"))
        with self.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7246)"))  # one at a time upgrades
            if _version(connection) == SCHEMA:
                return
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                found = _version(connection)
                raise BadInput(
                    f"the record in {self.place} has schema version {found}, and this program knows up to {SCHEMA}: it was written "
                    "by a newer one; run that one, or give another database"
                ) from error

    def check(self) -> None:
        """Raises NotFound or BadInput where there is no record that could be read."""
        database = self._engine.url.database
        if self._engine.dialect.name == "sqlite" and not (database and pathlib.Path(database).is_file()):
            raise NotFound(
                f"the record in {self.place}: there is no such file; check the path (sqlite:/// and one from this folder, or sqlite://// and one from the root)"
            )
        with self.reading() as connection:
            found = _version(connection)
        if found is None:
            raise NotFound(
                f"the database {self.place} holds no record; the controllers make it: pumice controllers --record ..."
            )
        if found != SCHEMA:
            raise BadInput(
                f"the record in {self.place} has schema version {found}, and this program reads {SCHEMA}: take the program that keeps it"
            )

    # ------------------------------------------------------------------------------------------------- writing

    def write(self, rows: Sequence[Row], *, now: int, gap: Gap | None = None) -> list[Row]:
        """Write rows in one transaction; those that the database refuses for what they hold are left out and returned."""
        try:
            self._write(rows, now, gap)
        except Unavailable as error:
            if not isinstance(error.__cause__, sa.exc.DataError | sa.exc.IntegrityError):
                raise
        else:
            return []
        refused = [row for row in rows if not self._is_writable(row)]
        self._write([row for row in rows if row not in refused], now, gap)
        return refused

    def _is_writable(self, row: Row) -> bool:
        try:
            with self._engine.connect() as connection, connection.begin() as attempt:
                self._put(connection, type(row), [row])
                attempt.rollback()
        except (sa.exc.DataError, sa.exc.IntegrityError):
            return False
        return True

    def _write(self, rows: Sequence[Row], now: int, gap: Gap | None) -> None:
        with self.begin() as connection:
            for kind in TABLES:
                self._put(connection, kind, [row for row in rows if isinstance(row, kind)])
            if gap is not None:
                values = {**msgspec.structs.asdict(gap)}
                statement = self._insert(GAPS).values(values)
                connection.execute(statement.on_conflict_do_update(index_elements=["since"], set_=values))
            runs = [row for row in rows if isinstance(row, Run)]
            self._mark(connection, (hour for run in runs for hour in _hours(run, now)))
            ended = {row.uid for row in rows if isinstance(row, Gang) and row.ended is not None}
            ended |= {row.gang for row in rows if isinstance(row, Attempt | Run) and row.ended is not None}
            self._settle(connection, ended)
            if now - self._noted >= NOTED_S:
                self._note(connection, ALIVE, str(now))
        self._noted = now if now - self._noted >= NOTED_S else self._noted

    def keep_lines(self, lines: Sequence[Lines]) -> None:
        """Keep what containers wrote last, instead of what was kept of them before."""
        values = []
        for each in lines:
            packed = zlib.compress(each.text)
            fields = msgspec.structs.asdict(each)
            fields.pop("text")
            values.append({**fields, "size": len(packed), "lines": packed})
        statement = self._insert(LOGS)
        fresh = {name: statement.excluded[name] for name in ("at", "size", "lines")}
        upsert = statement.on_conflict_do_update(
            index_elements=["pod_uid", "container"], set_=fresh, where=statement.excluded["at"] >= LOGS.c.at
        )
        with self.begin() as connection:
            connection.execute(upsert, values)

    def has_lines(self, pod_uid: str, since: int) -> bool:
        """Whether lines of the pod are kept that were fetched at that time or later."""
        found = sa.select(LOGS.c.at).where(LOGS.c.pod_uid == pod_uid, LOGS.c.at >= since).limit(1)
        with self.reading() as connection:
            return connection.scalar(found) is not None

    def completed(self, *, since: int, limit: int) -> list[Completed]:
        """Gangs that run times can be learned from."""
        with self.reading() as connection:
            return queries.completed(connection, since=since, limit=limit)

    def _put(self, connection: sa.Connection, kind: type[Row], rows: Sequence[Row]) -> None:
        """Write rows of one kind by the driver itself: SQLAlchemy takes longer over the values of a row than SQLite over writing it."""
        if not rows:
            return
        dialect = self._engine.dialect
        if kind not in self._upserts:
            fields = list(kind.__struct_fields__)
            upsert = self._upsert(METADATA.tables[kind.TABLE]).compile(dialect=dialect, column_keys=fields)
            assert upsert.positiontup in (None, fields), "values are given in the order of the fields"
            self._upserts[kind] = str(upsert)
        values = msgspec.structs.astuple if dialect.positional else msgspec.structs.asdict
        connection.exec_driver_sql(self._upserts[kind], [values(row) for row in rows])

    def _upsert(self, target: sa.Table) -> Any:
        """Insert, or replace what an older version of the same object had left."""
        statement = self._insert(target)
        kept = {column.name for column in target.primary_key}
        if target is GANGS:
            kept |= {"attempts", "evictions", "lost_s", "gpu_s", "lost_gpu_s", "held"}  # computed
        fresh: dict[str, Any] = {
            column.name: statement.excluded[column.name] for column in target.columns if column.name not in kept
        }
        for name in ("admitted", "started") if target in {GANGS, ATTEMPTS} else ():
            if name in fresh:
                fresh[name] = _earlier(target.c[name], statement.excluded[name])
        if target is GANGS:  # the end of something that has ended is not moved by who sees it again later
            late = sa.and_(target.c.state == statement.excluded.state, target.c.ended < statement.excluded.ended)
            fresh["ended"] = sa.case((late, target.c.ended), else_=statement.excluded.ended)
        if target is ATTEMPTS:
            fresh["pods"] = sa.case(
                (target.c.pods > statement.excluded.pods, target.c.pods), else_=statement.excluded.pods
            )
        newer = statement.excluded.seen >= target.c.seen if "seen" in target.c else None
        return statement.on_conflict_do_update(index_elements=list(target.primary_key), set_=fresh, where=newer)

    def _note(self, connection: sa.Connection, name: str, value: str) -> None:
        statement = self._insert(FACTS).values(name=name, value=value)
        connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_={"value": value}))

    def _settle(self, connection: sa.Connection, gangs: Collection[str]) -> None:
        """The sums of gangs that have ended, computed anew from all that is known of them."""
        for chunk in _chunks(sorted(gangs)):
            uids = connection.scalars(_ENDED_AMONG, {"uids": chunk}).all()
            if uids:
                sums = usage.by_gang(held for _, held in _held(connection, _HELD_BY, uids=uids))
                connection.execute(_SETTLED, [_sums_of(uid, sums.get(uid, usage.GangSum())) for uid in uids])

    # ------------------------------------------------------------------------------------------------- hours

    def _mark(self, connection: sa.Connection, hours: Iterable[int]) -> None:
        values = [{"hour": hour} for hour in sorted(set(hours))]
        if values:
            connection.execute(self._marked, values)

    def sum_up(self, now: int) -> bool:
        """Bring the hours up to date that something has changed in; whether more are left. To be called when no rows wait."""
        current = now - now % usage.HOUR
        with self.begin() as connection:
            known = _fact(connection, _SUMMED)
            first = int(known or connection.scalar(sa.select(sa.func.min(RUNS.c.bound))) or current)
            marked = connection.scalars(
                sa.select(STALE_HOURS.c.hour).order_by(STALE_HOURS.c.hour).limit(HOURS_MAX)
            ).all()
            passed = range(max(first - first % usage.HOUR, current - 400 * 24 * usage.HOUR), current + 1, usage.HOUR)
            hours = sorted({*marked, *passed[:HOURS_MAX]})[:HOURS_MAX]
            for hour in hours:
                self._sum_hour(connection, hour, now)
            for day in sorted({hour - hour % settings.DAY_S for hour in hours}):
                sum_day(connection, day)
            connection.execute(sa.delete(STALE_HOURS).where(STALE_HOURS.c.hour.in_(hours)))
            is_done = current in hours
            reached = now if is_done else max((hour for hour in hours if hour in passed), default=first)
            self._note(connection, _SUMMED, str(reached))
            self._note(connection, ALIVE, str(now))
        return not is_done or len(marked) == HOURS_MAX

    def _sum_hour(self, connection: sa.Connection, hour: int, now: int) -> None:
        sums = usage.by_hour(hour, _held(connection, _HELD_IN, first=hour, next=hour + usage.HOUR), now)
        connection.execute(sa.delete(USAGE).where(USAGE.c.hour == hour))
        values = [
            {"hour": hour, **account._asdict(), "resource": resource, "held_s": held, "lost_s": lost}
            for (account, resource), (held, lost) in sums.items()
        ]
        if values:
            connection.execute(sa.insert(USAGE), values)

    # ------------------------------------------------------------------------------------------------- who is gone

    def adopt(self, cluster: str, *, adopts: bool) -> None:
        """From now on the record is of that cluster; raises BadInput where it is of another one."""
        with self.begin() as connection:
            known = _fact(connection, _CLUSTER)
            if known not in {None, cluster} and not adopts:
                raise BadInput(
                    f"the record in {self.place} is of another cluster ({known}, and this one is {cluster}); one record a cluster: give "
                    "another database, or another schema of this one"
                )
            self._note(connection, _CLUSTER, cluster)

    def close_missing(self, gangs: Collection[str], runs: Collection[str], *, now: int) -> int:
        """End what the record has as running and the cluster no longer knows, at the last time that the record was kept up to date."""
        with self.begin() as connection:
            alive_at = min(int(_fact(connection, ALIVE) or now), now)
            lost_gangs = _missing(connection, GANGS.c.uid, GANGS.c.ended, gangs)
            lost_runs = _missing(connection, RUNS.c.uid, RUNS.c.ended, runs)
            touched = set(lost_gangs)
            for chunk in _chunks(lost_runs):
                end = sa.case((RUNS.c.bound > alive_at, RUNS.c.bound), else_=alive_at)
                here = RUNS.c.uid.in_(chunk)
                connection.execute(sa.update(RUNS).where(here).values(ended=end, state=State.GONE))
                touched |= set(connection.scalars(sa.select(RUNS.c.gang).where(here)).all())
            self._mark(connection, [alive_at - alive_at % usage.HOUR] if lost_runs else [])
            for chunk in _chunks(lost_gangs):
                end = sa.case((GANGS.c.submitted > alive_at, GANGS.c.submitted), else_=alive_at)
                here = GANGS.c.uid.in_(chunk)
                connection.execute(sa.update(GANGS).where(here).values(ended=end, state=State.GONE))
            for chunk in _chunks(sorted(touched)):
                over = sa.and_(ATTEMPTS.c.gang.in_(chunk), ATTEMPTS.c.ended.is_(None), ~_HAS_OPEN_RUNS)
                connection.execute(sa.update(ATTEMPTS).where(over).values(ended=alive_at, state=State.GONE))
            self._settle(connection, touched)
        return len(lost_gangs) + len(lost_runs)

    # ------------------------------------------------------------------------------------------------- trimming

    def trim(self, kept: settings.RecordSettings, now: int) -> int:
        """Delete some of what is older than it is kept for; how many rows. Nothing that still runs is deleted."""
        old, old_detail = now - kept.keep_days * settings.DAY_S, now - kept.keep_detail_days * settings.DAY_S
        trimmed = 0
        with self.begin() as connection:
            for column, before in ((RUNS.c.ended, old_detail), (LOGS.c.at, old_detail), (EVICTIONS.c.at, old),
                                   (FORECASTS.c.made, old), (USAGE.c.hour, old), (USAGE_DAYS.c.day, old)):  # fmt: skip
                trimmed += _delete_some(connection, column, before)
            uids = connection.scalars(sa.select(GANGS.c.uid).where(GANGS.c.ended < old).limit(TRIMMED_MAX)).all()
            for chunk in _chunks(uids):
                for column in (ATTEMPTS.c.gang, RUNS.c.gang, GANGS.c.uid):
                    trimmed += connection.execute(sa.delete(column.table).where(column.in_(chunk))).rowcount
            connection.execute(sa.delete(GAPS).where(GAPS.c.until < old))
            trimmed += _trim_capacity(connection, old) + _trim_logs(connection)
        return trimmed


# ------------------------------------------------------------------------------------------------------- the engine


def _engine(url: str) -> sa.Engine:
    if url.startswith("sqlite"):
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_S})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    options = f"-c statement_timeout={STATEMENT_S * 1000}"
    try:
        return sa.create_engine(
            url.replace("postgresql://", "postgresql+psycopg://", 1),
            connect_args={"connect_timeout": 5, "options": options, "tcp_user_timeout": STATEMENT_S * 1000},
            pool_pre_ping=True,
            pool_size=2,
        )
    except ModuleNotFoundError as error:
        raise BadInput("PostgreSQL needs its driver: pip install 'pumice[postgresql]'") from error


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves, around DDL too
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={int(BUSY_S * 1000)}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    """A writer takes the lock at once: one that reads first and writes later could be refused in between."""
    reads = connection.get_execution_options().get("reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _cause(error: sa.exc.DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0] or type(error.orig).__name__


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("schema_version"):
        return None
    found: str | None = connection.scalar(sa.text("SELECT version_num FROM schema_version"))
    return found


# ------------------------------------------------------------------------------------------------------- statements


def _earlier(known: Any, fresh: Any) -> Any:
    return sa.case((sa.or_(known.is_(None), fresh < known), fresh), else_=known)


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(values), CHUNK):
        yield values[first : first + CHUNK]


def _fact(connection: sa.Connection, name: str) -> str | None:
    found: str | None = connection.scalar(sa.select(FACTS.c.value).where(FACTS.c.name == name))
    return found


def _number_of(table: sa.Table) -> Any:
    """How many rows of a table are of the gang that is updated."""
    counted = sa.select(sa.func.count()).select_from(table).where(table.c.gang == GANGS.c.uid)
    return counted.correlate(GANGS).scalar_subquery()


def _sums_of(uid: str, found: usage.GangSum) -> dict[str, Any]:
    return {
        "of": uid,
        "lost_s": found.lost_s,
        "gpu_s": found.gpu_s,
        "lost_gpu_s": found.lost_gpu_s,
        "held": msgspec.json.encode(found.held).decode(),
    }


def _held(connection: sa.Connection, runs: Any, **which: Any) -> Iterator[tuple[usage.Account, usage.Held]]:
    for row in connection.execute(runs, which):
        yield usage.Account(*row[:4]), usage.Held(*row[4:])


def _held_where(condition: Any) -> Any:
    """Runs with whom they are charged to and how their attempts ended."""
    columns = (
        GANGS.c.namespace, GANGS.c.queue, GANGS.c.user_name, GANGS.c.team,
        RUNS.c.gang, RUNS.c.resources, RUNS.c.bound, RUNS.c.started, RUNS.c.ended, RUNS.c.state, RUNS.c.checkpointed,
        ATTEMPTS.c.state,
    )  # fmt: skip
    attempt = sa.and_(ATTEMPTS.c.gang == RUNS.c.gang, ATTEMPTS.c.number == RUNS.c.attempt)
    joined = RUNS.join(GANGS, GANGS.c.uid == RUNS.c.gang).outerjoin(ATTEMPTS, attempt)
    return sa.select(*columns).select_from(joined).where(condition)


# What every batch executes is made once: to make a statement costs more than to run it over some tens of rows.
_UIDS: Any = sa.bindparam("uids", expanding=True)
_ENDED_AMONG = sa.select(GANGS.c.uid).where(GANGS.c.uid.in_(_UIDS), GANGS.c.ended.is_not(None))
_HELD_BY = _held_where(RUNS.c.gang.in_(_UIDS))
_HELD_IN = _held_where(
    sa.and_(RUNS.c.bound < sa.bindparam("next"), sa.or_(RUNS.c.ended >= sa.bindparam("first"), RUNS.c.ended.is_(None)))
)
_HAS_OPEN_RUNS = (
    sa.exists()
    .where(RUNS.c.gang == ATTEMPTS.c.gang, RUNS.c.attempt == ATTEMPTS.c.number, RUNS.c.ended.is_(None))
    .correlate(ATTEMPTS)
)
_SETTLED = (
    sa.update(GANGS)
    .where(GANGS.c.uid == sa.bindparam("of"))
    .values(
        {name: sa.bindparam(name) for name in ("lost_s", "gpu_s", "lost_gpu_s", "held")}
        | {"attempts": _number_of(ATTEMPTS), "evictions": _number_of(EVICTIONS)}
    )
)


def sum_day(connection: sa.Connection, day: int) -> None:
    """A day is what its hours are."""
    connection.execute(sa.delete(USAGE_DAYS).where(USAGE_DAYS.c.day == day))
    account = (USAGE.c.namespace, USAGE.c.queue, USAGE.c.user_name, USAGE.c.resource)
    sums = (sa.func.max(USAGE.c.team), sa.func.sum(USAGE.c.held_s), sa.func.sum(USAGE.c.lost_s))
    found = sa.select(sa.literal(day), *account, *sums).where(USAGE.c.hour >= day, USAGE.c.hour < day + settings.DAY_S)
    connection.execute(sa.insert(USAGE_DAYS).from_select(list(USAGE_DAYS.c.keys()), found.group_by(*account)))


def _hours(run: Run, now: int) -> Iterator[int]:
    """Past hours whose sums a run changes: that in which it began, and those since its end. The current one is summed up in any case."""
    current = now - now % usage.HOUR
    if run.bound < current:
        yield run.bound - run.bound % usage.HOUR
    if run.ended is not None and run.ended < current:
        yield from range(run.ended - run.ended % usage.HOUR, current, usage.HOUR)[:HOURS_MAX]


def _missing(connection: sa.Connection, uid: Any, ended: Any, known: Collection[str]) -> list[str]:
    return [each for each in connection.scalars(sa.select(uid).where(ended.is_(None))) if each not in known]


def _delete_some(connection: sa.Connection, column: Any, before: int) -> int:
    table = column.table
    keys = list(table.primary_key)
    found = connection.execute(sa.select(*keys).where(column < before).limit(TRIMMED_MAX)).all()
    for key in found:
        connection.execute(sa.delete(table).where(*(k == value for k, value in zip(keys, key, strict=True))))
    return len(found)


def _trim_capacity(connection: sa.Connection, before: int) -> int:
    """Old steps but for the last one of each resource, which still holds."""
    last = sa.select(CAPACITY.c.resource, sa.func.max(CAPACITY.c.at)).where(CAPACITY.c.at < before)
    trimmed = 0
    for resource, at in connection.execute(last.group_by(CAPACITY.c.resource)).all():
        older = sa.and_(CAPACITY.c.resource == resource, CAPACITY.c.at < at)
        trimmed += connection.execute(sa.delete(CAPACITY).where(older)).rowcount
    return trimmed


def _trim_logs(connection: sa.Connection) -> int:
    over = (connection.scalar(sa.select(sa.func.sum(LOGS.c.size))) or 0) - LOGS_BYTES_MAX
    trimmed = 0
    oldest = sa.select(LOGS.c.pod_uid, LOGS.c.container, LOGS.c.size).order_by(LOGS.c.at).limit(TRIMMED_MAX)
    for pod, container, size in connection.execute(oldest).all() if over > 0 else ():
        if over <= 0:
            break
        connection.execute(sa.delete(LOGS).where(LOGS.c.pod_uid == pod, LOGS.c.container == container))
        over -= size
        trimmed += 1
    return trimmed
