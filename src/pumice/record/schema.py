"""The tables as SQLAlchemy knows them: the newest version. How older ones become it is in `migrations/versions`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

METADATA = MetaData()

GANGS = Table(
    "gangs",
    METADATA,
    Column("uid", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("shapes", Text, nullable=False),
    Column("minimum", Integer, nullable=False),
    Column("submitted", BigInteger, nullable=False),
    Column("admitted", BigInteger),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("seen", BigInteger, nullable=False),
    # Computed from the other tables whenever they change.
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("evictions", Integer, nullable=False, server_default="0"),
    Column("lost_s", BigInteger, nullable=False, server_default="0"),
    Column("gpu_s", Float, nullable=False, server_default="0"),
    Column("lost_gpu_s", Float, nullable=False, server_default="0"),
    Column("held", Text, nullable=False, server_default="{}"),
    # Each holds every column that a listing filters by: whatever is asked for, the newest are found in one index alone.
    Index("gangs_by_end", "ended", "uid", "namespace", "user_name", "queue", "state", "name"),
    Index("gangs_by_namespace", "namespace", "ended", "uid", "user_name", "queue", "state"),
    Index("gangs_by_user", "user_name", "ended", "uid", "namespace", "queue", "state"),
    Index("gangs_by_queue", "queue", "ended", "uid", "namespace", "user_name", "state"),
    Index("gangs_by_state", "state", "ended", "uid", "namespace", "user_name", "queue"),
    Index("gangs_by_name", "name", "namespace", "ended"),
)

ATTEMPTS = Table(
    "attempts",
    METADATA,
    Column("gang", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("pods", Integer, nullable=False),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("state", Text, nullable=False),
    Column("seen", BigInteger, nullable=False),
)

RUNS = Table(
    "runs",
    METADATA,
    Column("uid", Text, primary_key=True),
    Column("gang", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("pod", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("resources", Text, nullable=False),
    Column("bound", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("state", Text, nullable=False),
    Column("exit_code", Integer),
    Column("restarts", Integer, nullable=False),
    Column("checkpointed", BigInteger),
    Column("seen", BigInteger, nullable=False),
    Index("runs_by_gang", "gang", "attempt"),
    Index("runs_by_end", "ended", "bound"),
)

EVICTIONS = Table(
    "evictions",
    METADATA,
    Column("uid", Text, primary_key=True),
    Column("gang", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("pod", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("rule", Text, nullable=False),
    Column("claimant", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("lost_s", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Index("evictions_by_gang", "gang"),
    Index("evictions_by_time", "at"),
)

USAGE = Table(
    "usage",
    METADATA,
    Column("hour", BigInteger, primary_key=True),  # its first second
    Column("namespace", Text, primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("user_name", Text, primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("team", Text, nullable=False),
    Column("held_s", Float, nullable=False),  # amount times seconds
    Column("lost_s", Float, nullable=False),
    sqlite_with_rowid=False,
)

USAGE_DAYS = Table(  # the same, a day at a time: a month's bill reads few rows
    "usage_days",
    METADATA,
    Column("day", BigInteger, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("user_name", Text, primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("team", Text, nullable=False),
    Column("held_s", Float, nullable=False),
    Column("lost_s", Float, nullable=False),
    sqlite_with_rowid=False,
)

CAPACITY = Table(
    "capacity",
    METADATA,
    Column("at", BigInteger, primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("amount", Float, nullable=False),
)

FORECASTS = Table(
    "forecasts",
    METADATA,
    Column("gang", Text, primary_key=True),
    Column("made", BigInteger, primary_key=True),
    Column("p50", BigInteger, nullable=False),
    Column("p90", BigInteger, nullable=False),
    Index("forecasts_by_time", "made"),
)

GAPS = Table(
    "gaps",
    METADATA,
    Column("since", BigInteger, primary_key=True, autoincrement=False),
    Column("until", BigInteger, nullable=False),
    Column("rows", Integer, nullable=False),
)

# Hours that are to be summed up again.
STALE_HOURS = Table("stale_hours", METADATA, Column("hour", BigInteger, primary_key=True, autoincrement=False))

FACTS = Table(  # about the record itself: until when it was kept up to date, and of which cluster
    "facts",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

ALIVE = "alive_at"  # the fact that says until when the record was kept up to date

LOGS = Table(
    "logs",
    METADATA,
    Column("pod_uid", Text, primary_key=True),
    Column("container", Text, primary_key=True),
    Column("gang", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("pod", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),  # of the compressed text
    Column("lines", LargeBinary, nullable=False),  # the last lines, compressed by zlib
    Index("logs_by_gang", "gang", "attempt"),
    Index("logs_by_time", "at"),
)
