"""Crawls: frontier, outcomes, and page state between crawls."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "crawls",
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("collection_id", sa.BigInteger, nullable=False),
        sa.Column("collection_uid", sa.Uuid, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("recursive", sa.Boolean, nullable=False),
        sa.Column("max_pages", sa.Integer, nullable=False),
        sa.Column("exclude", sa.JSON, nullable=False),
        sa.Column("site", sa.Text),
        sa.Column("seeded", sa.Boolean, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "crawl_pages",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("known_as", sa.Text),
        sa.Column("page_job_uid", sa.Uuid),
        sa.Column("outcome", sa.String(12)),
        sa.Column("reason", sa.String(40)),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("http_status", sa.Integer),
        sa.Column("document_id", sa.BigInteger),
        sa.Column("document_uid", sa.Uuid),
        sa.Column("chunk_count", sa.Integer, nullable=False),
        sa.UniqueConstraint("job_id", "name", name="uq_crawl_pages_job_id_name"),
    )
    op.create_index("ix_crawl_pages_frontier", "crawl_pages", ["job_id", "state", "depth", "id"])
    op.create_table(
        "site_pages",
        sa.Column("collection_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("etag", sa.Text),
        sa.Column("last_modified", sa.Text),
        sa.Column("links", sa.JSON, nullable=False),
        sa.Column("gone", sa.Integer, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
    )
