"""Several servers on one database: heartbeats, leases, shared rate limits, and the server and progress of a job."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("server_id", sa.String(32)))
    op.add_column("jobs", sa.Column("done", sa.Integer, nullable=False, server_default=sa.text("0")))
    op.add_column("jobs", sa.Column("total", sa.Integer, nullable=False, server_default=sa.text("0")))
    op.add_column("jobs", sa.Column("unit", sa.String(20)))
    op.add_column("jobs", sa.Column("progress", sa.Float, nullable=False, server_default=sa.text("0")))
    op.add_column("jobs", sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_table(
        "servers",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("version", sa.String(40), nullable=False),
        sa.Column("role", sa.String(12), nullable=False),
        sa.Column("has_index", sa.Boolean, nullable=False),
        sa.Column("is_ready", sa.Boolean, nullable=False),
        sa.Column("applied_seq", sa.BigInteger, nullable=False),
        sa.Column("checkpoint_seq", sa.BigInteger, nullable=False),
        sa.Column("model_id", sa.Integer),
        sa.Column("built_model_id", sa.Integer),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("holder", sa.String(32), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "rate_limit_entries",
        sa.Column("key", sa.LargeBinary(16), primary_key=True),
        sa.Column("slice", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("ends", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_rate_limit_entries_ends", "rate_limit_entries", ["ends"])
