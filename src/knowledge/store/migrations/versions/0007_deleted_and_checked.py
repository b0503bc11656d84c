"""Passages get checksums; jobs and crawls keep nothing of documents that are gone, nor do freed pages.

Earlier versions kept names and payloads in the rows of `jobs` and `crawl_pages`, and left the pages that a deletion
freed as they were (`secure_delete=FAST`).
"""

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

BLOCK_BYTES = 1 << 20
ROWS = 5000
ENDED = "status IN ('completed', 'partial', 'failed', 'cancelled')"
GONE = "document_id IS NOT NULL AND document_id NOT IN (SELECT id FROM documents)"


def upgrade() -> None:
    op.add_column("chunks", sa.Column("checksum", sa.LargeBinary(16)))
    fill_checksums(op.get_bind())
    op.create_index("ix_jobs_document_id", "jobs", ["document_id"])
    op.create_index("ix_crawl_pages_document_id", "crawl_pages", ["document_id"])
    op.execute(
        "UPDATE jobs SET payload = '{}' WHERE kind IN ('add', 'update', 'unpack')"
        f" AND {ENDED} AND (status <> 'failed' OR sha256 IS NULL)"
    )
    op.execute(f"UPDATE jobs SET filename = '(removed)', warnings = '[]', error = NULL WHERE {ENDED} AND {GONE}")
    op.execute(
        "UPDATE crawl_pages SET name = 'removed-' || id, url = '(removed)', known_as = NULL, detail = ''"
        f" WHERE state = 'done' AND {GONE}"
    )
    if op.get_bind().dialect.name == "sqlite":
        overwrite_freed_pages(op.get_bind())


def fill_checksums(connection: sa.Connection) -> None:
    chunks = sa.table("chunks", *map(sa.column, ("id", "section", "text", "checksum")))
    fill = chunks.update().where(chunks.c.id == sa.bindparam("chunk")).values(checksum=sa.bindparam("sum"))
    last = 0
    wanted = sa.select(chunks.c.id, chunks.c.section, chunks.c.text).order_by(chunks.c.id).limit(ROWS)
    while rows := connection.execute(wanted.where(chunks.c.id > last)).all():
        connection.execute(fill, [{"chunk": row.id, "sum": checksum(row.section, row.text)} for row in rows])
        last = rows[-1].id


def checksum(section: str, text: str) -> bytes:
    joined = "\x1f".join((*json.loads(section), text))
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def overwrite_freed_pages(connection: sa.Connection) -> None:
    """Give every freed page to a table of zeros, and drop it: VACUUM would write the whole database anew."""
    op.execute("CREATE TABLE zeros (block BLOB)")
    while connection.exec_driver_sql("PRAGMA freelist_count").scalar_one() > 0:
        free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        page_bytes = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        size = max(min(BLOCK_BYTES, free * page_bytes), page_bytes)
        connection.exec_driver_sql("INSERT INTO zeros VALUES (zeroblob(?))", (size,))
    op.execute("DROP TABLE zeros")
