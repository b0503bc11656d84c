"""Accounts, API keys, corpora and grants."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "curations",
        sa.Column("collection_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("category", sa.String(20), nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("is_public", sa.Boolean, nullable=False),
        sa.Column("is_approved", sa.Boolean, nullable=False),
    )
    op.create_index("ix_curations_is_public", "curations", ["is_public", "is_approved"])
    op.create_table(
        "accounts",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("uid", sa.Uuid, nullable=False),
        sa.Column("username", sa.String(64), nullable=False),
        sa.Column("folded", sa.String(64), nullable=False),
        sa.Column("password", sa.Text),
        sa.Column("is_disabled", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("uid", name="uq_accounts_uid"),
        sa.UniqueConstraint("folded", name="uq_accounts_folded"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "api_keys",
        sa.Column("id", BigId, primary_key=True),
        sa.Column(
            "account_id", sa.BigInteger, sa.ForeignKey("accounts.id", name="fk_api_keys_account_id"), nullable=False
        ),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("prefix", sa.String(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
        sa.UniqueConstraint("prefix", name="uq_api_keys_prefix"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_api_keys_account_id", "api_keys", ["account_id"])
    op.create_table(
        "grants",
        sa.Column("collection_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("account_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("permission", sa.String(10), nullable=False),
    )
    op.create_index("ix_grants_account_id", "grants", ["account_id"])
