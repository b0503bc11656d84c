"""Clients, grants and tokens of OAuth, and the accounts of another issuer's subjects."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "oauth_clients",
        sa.Column("client_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("redirect_uris", sa.JSON, nullable=False),
        sa.Column("is_document", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_oauth_clients_expires_at", "oauth_clients", ["expires_at"])
    op.create_table(
        "oauth_grants",
        sa.Column("id", BigId, primary_key=True),
        _account_column("oauth_grants"),
        sa.Column("client_id", sa.Text, nullable=False),
        sa.Column("client_name", sa.Text, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    for column in ("account_id", "client_id", "expires_at"):
        op.create_index(f"ix_oauth_grants_{column}", "oauth_grants", [column])
    op.create_table(
        "oauth_tokens",
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("kind", sa.String(10), nullable=False),
        _account_column("oauth_tokens"),
        sa.Column(
            "grant_id",
            sa.BigInteger,
            sa.ForeignKey("oauth_grants.id", name="fk_oauth_tokens_grant_id", ondelete="CASCADE"),
        ),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.BigInteger),
    )
    for column in ("account_id", "grant_id", "expires_at"):
        op.create_index(f"ix_oauth_tokens_{column}", "oauth_tokens", [column])
    op.create_table(
        "oauth_subjects",
        sa.Column("issuer", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, primary_key=True),
        _account_column("oauth_subjects"),
    )
    op.create_index("ix_oauth_subjects_account_id", "oauth_subjects", ["account_id"])


def _account_column(table: str) -> sa.Column[int]:
    reference = sa.ForeignKey("accounts.id", name=f"fk_{table}_account_id", ondelete="CASCADE")
    return sa.Column("account_id", sa.BigInteger, reference, nullable=False)
