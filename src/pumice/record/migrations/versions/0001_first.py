"""Version 1: gangs, attempts, runs, evictions, usage, capacity, forecasts, gaps."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_INT = sa.BigInteger
_GANG_INDEXES = {
    "gangs_by_end": ["ended", "uid", "namespace", "user_name", "queue", "state", "name"],
    "gangs_by_namespace": ["namespace", "ended", "uid", "user_name", "queue", "state"],
    "gangs_by_user": ["user_name", "ended", "uid", "namespace", "queue", "state"],
    "gangs_by_queue": ["queue", "ended", "uid", "namespace", "user_name", "state"],
    "gangs_by_state": ["state", "ended", "uid", "namespace", "user_name", "queue"],
    "gangs_by_name": ["name", "namespace", "ended"],
}


def upgrade() -> None:
    _gangs()
    _attempts()
    _runs()
    _evictions()
    _usage()
    _capacity()
    _forecasts()
    _gaps()
    _about_itself()


def _gangs() -> None:
    op.create_table(
        "gangs",
        sa.Column("uid", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("shapes", sa.Text(), nullable=False),
        sa.Column("minimum", sa.Integer(), nullable=False),
        sa.Column("submitted", _INT(), nullable=False),
        sa.Column("admitted", _INT()),
        sa.Column("started", _INT()),
        sa.Column("ended", _INT()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("seen", _INT(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("evictions", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("lost_s", _INT(), nullable=False, server_default="0"),
        sa.Column("gpu_s", sa.Float(), nullable=False, server_default="0"),
        sa.Column("lost_gpu_s", sa.Float(), nullable=False, server_default="0"),
        sa.Column("held", sa.Text(), nullable=False, server_default="{}"),
    )
    for name, columns in _GANG_INDEXES.items():
        op.create_index(name, "gangs", columns)


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("gang", sa.Text(), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("pods", sa.Integer(), nullable=False),
        sa.Column("started", _INT()),
        sa.Column("ended", _INT()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("seen", _INT(), nullable=False),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("uid", sa.Text(), primary_key=True),
        sa.Column("gang", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("resources", sa.Text(), nullable=False),
        sa.Column("bound", _INT(), nullable=False),
        sa.Column("started", _INT()),
        sa.Column("ended", _INT()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("checkpointed", _INT()),
        sa.Column("seen", _INT(), nullable=False),
    )
    op.create_index("runs_by_gang", "runs", ["gang", "attempt"])
    op.create_index("runs_by_end", "runs", ["ended", "bound"])


def _evictions() -> None:
    op.create_table(
        "evictions",
        sa.Column("uid", sa.Text(), primary_key=True),
        sa.Column("gang", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("at", _INT(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("claimant", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("lost_s", _INT(), nullable=False),
        sa.Column("seen", _INT(), nullable=False),
    )
    op.create_index("evictions_by_gang", "evictions", ["gang"])
    op.create_index("evictions_by_time", "evictions", ["at"])


def _usage() -> None:
    for table, first in (("usage", "hour"), ("usage_days", "day")):
        op.create_table(
            table,
            sa.Column(first, _INT(), primary_key=True),
            sa.Column("namespace", sa.Text(), primary_key=True),
            sa.Column("queue", sa.Text(), primary_key=True),
            sa.Column("user_name", sa.Text(), primary_key=True),
            sa.Column("resource", sa.Text(), primary_key=True),
            sa.Column("team", sa.Text(), nullable=False),
            sa.Column("held_s", sa.Float(), nullable=False),
            sa.Column("lost_s", sa.Float(), nullable=False),
            sqlite_with_rowid=False,
        )


def _capacity() -> None:
    op.create_table(
        "capacity",
        sa.Column("at", _INT(), primary_key=True),
        sa.Column("resource", sa.Text(), primary_key=True),
        sa.Column("amount", sa.Float(), nullable=False),
    )


def _forecasts() -> None:
    op.create_table(
        "forecasts",
        sa.Column("gang", sa.Text(), primary_key=True),
        sa.Column("made", _INT(), primary_key=True),
        sa.Column("p50", _INT(), nullable=False),
        sa.Column("p90", _INT(), nullable=False),
    )
    op.create_index("forecasts_by_time", "forecasts", ["made"])


def _gaps() -> None:
    op.create_table(
        "gaps",
        sa.Column("since", _INT(), primary_key=True, autoincrement=False),
        sa.Column("until", _INT(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
    )


def _about_itself() -> None:
    op.create_table("stale_hours", sa.Column("hour", _INT(), primary_key=True, autoincrement=False))
    op.create_table(
        "facts", sa.Column("name", sa.Text(), primary_key=True), sa.Column("value", sa.Text(), nullable=False)
    )
