"""Version 2: the last lines that the containers of each attempt wrote."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "logs",
        sa.Column("pod_uid", sa.Text(), primary_key=True),
        sa.Column("container", sa.Text(), primary_key=True),
        sa.Column("gang", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("lines", sa.LargeBinary(), nullable=False),
    )
    op.create_index("logs_by_gang", "logs", ["gang", "attempt"])
    op.create_index("logs_by_time", "logs", ["at"])
