"""Agents, refused attempts, questions, ratings and measurements."""

import sqlalchemy as sa
from alembic import op

from knowledge.store.column_types import String, Text

revision = "0014"
down_revision = "0013"

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("owner_id", sa.BigInteger, nullable=False),
        sa.Column("identity", sa.LargeBinary(16), nullable=False),
        sa.Column("client", String(120), nullable=False),
        sa.Column("version", String(60), nullable=False),
        sa.Column("transport", String(20), nullable=False),
        sa.Column("toolset", String(120), nullable=False),
        sa.Column("caller", String(20), nullable=False),
        sa.Column("key_prefix", String(40), nullable=False),
        sa.Column("first_seen", sa.BigInteger, nullable=False),
        sa.Column("last_seen", sa.BigInteger, nullable=False),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("last_tool", String(80)),
        sa.UniqueConstraint("owner_id", "identity", name="uq_agents_owner_id_identity"),
    )
    op.create_index("ix_agents_last_seen", "agents", ["last_seen"])
    op.create_table(
        "refused_attempts",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("identity", sa.LargeBinary(16), nullable=False),
        sa.Column("reason", String(20), nullable=False),
        sa.Column("client", String(120), nullable=False),
        sa.Column("address", String(60), nullable=False),
        sa.Column("path", String(120), nullable=False),
        sa.Column("detail", String(120), nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("identity", name="uq_refused_attempts_identity"),
    )
    op.create_index("ix_refused_attempts_last_at", "refused_attempts", ["last_at"])
    op.create_table(
        "queries",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("owner_id", sa.BigInteger, nullable=False),
        sa.Column("identity", sa.LargeBinary(16), nullable=False),
        sa.Column("text", Text, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("best", sa.Float),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("owner_id", "identity", name="uq_queries_owner_id_identity"),
    )
    op.create_index("ix_queries_last_at", "queries", ["last_at"])
    op.create_table(
        "ratings",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("owner_id", sa.BigInteger, nullable=False),
        sa.Column("identity", sa.LargeBinary(16), nullable=False),
        sa.Column("text", Text, nullable=False),
        sa.Column("document_id", sa.BigInteger, nullable=False),
        sa.Column("chunk_uid", sa.Uuid, nullable=False),
        sa.Column("good", sa.Boolean, nullable=False),
        sa.Column("rated_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("owner_id", "identity", "chunk_uid", name="uq_ratings_owner_id_identity_chunk_uid"),
    )
    op.create_index("ix_ratings_document_id", "ratings", ["document_id"])
    op.create_table(
        "measurements",
        sa.Column("owner_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hour", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("documents", sa.BigInteger),
        sa.Column("queued", sa.BigInteger),
        sa.Column("searches", sa.BigInteger, nullable=False),
        sa.Column("total_ms", sa.Float, nullable=False),
        sa.Column("slowest_ms", sa.Float, nullable=False),
    )
