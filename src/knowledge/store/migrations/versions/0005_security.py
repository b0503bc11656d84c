"""Expiring login keys, job uids per owner, counts of unclean starts, chunk checksums, and erasure of removed documents.

Earlier versions kept names and payloads of removed documents in `jobs` and `crawl_pages`, and did not overwrite
freed pages (`secure_delete=FAST`).
"""

import hashlib
import json
import time

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

LOGIN_KEY_DAYS = 90
"""Validity of existing login keys, counted from the migration."""
MICROSECONDS_PER_DAY = 86_400_000_000
BLOCK_BYTES = 1 << 20
ROWS = 5000
ENDED = "status IN ('completed', 'partial', 'failed', 'cancelled')"
GONE = "document_id IS NOT NULL AND document_id NOT IN (SELECT id FROM documents)"


def upgrade() -> None:
    expire_login_keys()
    make_job_uids_unique_per_owner()
    op.add_column("jobs", sa.Column("unclean_starts", sa.Integer, nullable=False, server_default=sa.text("0")))
    op.add_column("chunks", sa.Column("checksum", sa.LargeBinary(16)))
    fill_checksums(op.get_bind())
    clear_what_removed_documents_left()
    if op.get_bind().dialect.name == "sqlite":
        overwrite_freed_pages(op.get_bind())


def expire_login_keys() -> None:
    # Before this migration a login key was recognizable only by its name 'login' and never expired. A key created by
    # hand with this name and without expiry cannot be distinguished and is treated as a login key.
    op.add_column("api_keys", sa.Column("is_login", sa.Boolean, nullable=False, server_default=sa.false()))
    until = time.time_ns() // 1000 + LOGIN_KEY_DAYS * MICROSECONDS_PER_DAY
    keys = sa.table("api_keys", sa.column("name"), sa.column("is_login"), sa.column("expires_at"))
    mine = (keys.c.name == "login") & keys.c.expires_at.is_(None)
    op.execute(keys.update().where(mine).values(is_login=sa.true(), expires_at=until))


def make_job_uids_unique_per_owner() -> None:
    last = _last_number("jobs")
    with op.batch_alter_table("jobs", table_kwargs={"sqlite_autoincrement": True}) as jobs:
        jobs.drop_constraint("uq_jobs_uid", type_="unique")
        jobs.create_unique_constraint("uq_jobs_owner_id_uid", ["owner_id", "uid"])
    _keep_last_number("jobs", last)


def clear_what_removed_documents_left() -> None:
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
    """Overwrite the freed pages with a table of zeros, because VACUUM would rewrite the whole database."""
    op.execute("CREATE TABLE zeros (block BLOB)")
    while connection.exec_driver_sql("PRAGMA freelist_count").scalar_one() > 0:
        free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        page_bytes = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        size = max(min(BLOCK_BYTES, free * page_bytes), page_bytes)
        connection.exec_driver_sql("INSERT INTO zeros VALUES (zeroblob(?))", (size,))
    op.execute("DROP TABLE zeros")


def _last_number(table: str) -> int | None:
    """Return the last id that SQLite assigned in a table, because a batch migration recreates the table."""
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        return None
    query = sa.text("SELECT seq FROM sqlite_sequence WHERE name = :name")
    return connection.execute(query, {"name": table}).scalar()


def _keep_last_number(table: str, last: int | None) -> None:
    """Restore the last id, so that ids are never reused even if the newest row was deleted."""
    if last is None:
        return
    connection = op.get_bind()
    connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": table})
    connection.execute(sa.text("INSERT INTO sqlite_sequence VALUES (:name, :last)"), {"name": table, "last": last})
