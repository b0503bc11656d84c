"""MCP sessions that their clients ended."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "ended_mcp_sessions",
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_ended_mcp_sessions_ended_at", "ended_mcp_sessions", ["ended_at"])
