"""Check the rows of a PostgreSQL database: its own reports of damage, and the checksum of every chunk.

PostgreSQL enforces foreign keys itself, and checks its pages when it reads them if it was set up with checksums.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import bindparam, select, text

from knowledge.errors import KnowledgeError
from knowledge.store import schema
from knowledge.store.chunks import compute_checksum
from knowledge.store.database import Database
from knowledge.store.integrity import ShouldStop

D, H = schema.documents.c, schema.chunks.c
_INVALID_INDEXES = text(
    "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
    " WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace ORDER BY 1"
)
_CHECKSUM_FAILURES = text("SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()")
_SELECT_CHUNKS = (
    select(H.text, H.section, H.checksum)
    .join_from(schema.documents, schema.chunks, H.content_id == D.content_id)
    .where(D.id == bindparam("document_id"))
)


def find_table_problems(database: Database) -> Iterator[str]:
    """Yield what PostgreSQL reports about the database as a whole."""
    with database.read() as connection:
        invalid = list(connection.execute(_INVALID_INDEXES).scalars())
        failures = connection.execute(_CHECKSUM_FAILURES).scalar()
    for name in invalid:
        yield f"the index {name} is invalid; 'REINDEX INDEX {name}' builds it again"
    if failures:
        yield f"PostgreSQL has counted {failures} pages with a wrong checksum"


def find_damaged_documents(database: Database, stop: ShouldStop) -> Iterator[tuple[int, str, str]]:
    """Yield id, title and damage of every document whose passages cannot be read or are not what was stored."""
    with database.read() as connection:
        titles = {row.id: row.title for row in connection.execute(select(D.id, D.title).order_by(D.id))}
    for identity, title in titles.items():
        if stop():
            return
        try:
            altered, total = _count_altered_chunks(database, identity)
        except KnowledgeError as error:
            yield identity, title, f"its passages cannot be read: {error}"
            continue
        if altered:
            yield identity, title, f"{altered} of its {total} passages are not what was stored"


def _count_altered_chunks(database: Database, document_id: int) -> tuple[int, int]:
    with database.read() as connection:
        rows = connection.execute(_SELECT_CHUNKS, {"document_id": document_id}).all()
    return sum(compute_checksum(row.section, row.text) != row.checksum for row in rows), len(rows)
