"""Browser sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "browser_sessions",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", name="fk_browser_sessions_account_id")),
        sa.Column("api_key_id", sa.BigInteger),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("operator_proof", sa.LargeBinary(32)),
        sa.Column("stay", sa.Boolean, nullable=False),
        sa.Column("user_agent", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("digest", name="uq_browser_sessions_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_browser_sessions_account_id", "browser_sessions", ["account_id"])
    op.create_index("ix_browser_sessions_expires_at", "browser_sessions", ["expires_at"])
