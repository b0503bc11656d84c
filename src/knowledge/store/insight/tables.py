"""Tables of agents, refused attempts, questions, ratings and measurements; part of the schema like the others."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, LargeBinary, Table, UniqueConstraint, Uuid

from knowledge.store.column_types import String, Text
from knowledge.store.schema import BigId, metadata

agents = Table(
    "agents",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("owner_id", BigInteger, nullable=False),
    Column("identity", LargeBinary(16), nullable=False),
    Column("client", String(120), nullable=False),
    Column("version", String(60), nullable=False),
    Column("transport", String(20), nullable=False),
    Column("toolset", String(120), nullable=False),
    Column("caller", String(20), nullable=False),
    Column("key_prefix", String(40), nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False, index=True),
    Column("calls", BigInteger, nullable=False),
    Column("last_tool", String(80)),
    UniqueConstraint("owner_id", "identity"),
)
"""Agents that used MCP; `identity` is a digest of the columns from `client` to `key_prefix`."""

refused_attempts = Table(
    "refused_attempts",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("identity", LargeBinary(16), nullable=False, unique=True),
    Column("reason", String(20), nullable=False),
    Column("client", String(120), nullable=False),
    Column("address", String(60), nullable=False),
    Column("path", String(120), nullable=False),
    Column("detail", String(120), nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False, index=True),
)
"""Requests to MCP that were refused; equal ones share a row."""

queries = Table(
    "queries",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("owner_id", BigInteger, nullable=False),
    Column("identity", LargeBinary(16), nullable=False),
    Column("text", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("best", Float),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False, index=True),
    UniqueConstraint("owner_id", "identity"),
)
"""The log of questions, if KNOWLEDGE_QUERY_LOG is on; `identity` is a digest of the folded text."""

ratings = Table(
    "ratings",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("owner_id", BigInteger, nullable=False),
    Column("identity", LargeBinary(16), nullable=False),
    Column("text", Text, nullable=False),
    Column("document_id", BigInteger, nullable=False, index=True),
    Column("chunk_uid", Uuid, nullable=False),
    Column("good", Boolean, nullable=False),
    Column("rated_at", BigInteger, nullable=False),
    UniqueConstraint("owner_id", "identity", "chunk_uid"),
)
"""Passages that were marked as right or wrong for a question; the passage itself is not copied."""

measurements = Table(
    "measurements",
    metadata,
    Column("owner_id", BigInteger, primary_key=True, autoincrement=False),
    Column("hour", BigInteger, primary_key=True, autoincrement=False),
    Column("documents", BigInteger),
    Column("queued", BigInteger),
    Column("searches", BigInteger, nullable=False),
    Column("total_ms", Float, nullable=False),
    Column("slowest_ms", Float, nullable=False),
)
"""What an owner had and did in one hour, in hours since 1970; without a row nothing has changed."""
