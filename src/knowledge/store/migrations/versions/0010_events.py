"""The log of events, the number of vectors of each document, and titles and headings for suggestions."""

import json
import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
MAX_KEY_CHARS, MAX_TEXT_CHARS, MAX_HEADINGS, MAX_READ_CHUNKS = 80, 300, 200, 2000
MAX_NAMES_CHARS = 2000
BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", BIG_ID, primary_key=True),
        sa.Column("subject", sa.String(12), nullable=False),
        sa.Column("change", sa.String(10), nullable=False),
        sa.Column("subject_id", sa.BigInteger, nullable=False),
        sa.Column("subject_uid", sa.Uuid, nullable=False),
        sa.Column("owner_id", sa.BigInteger, nullable=False),
        sa.Column("collection_id", sa.BigInteger, nullable=False),
        sa.Column("change_seq", sa.BigInteger),
        sa.Column("at", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_completed_at", "jobs", ["owner_id", "completed_at"])
    op.add_column("documents", sa.Column("vector_count", sa.Integer, nullable=False, server_default=sa.text("0")))
    op.execute(
        "UPDATE documents SET vector_count = (SELECT count(*) FROM chunks JOIN vectors ON vectors.chunk_id = chunks.id"
        " JOIN models ON models.id = vectors.model_id WHERE chunks.content_id = documents.content_id AND models.active)"
    )
    create_suggestions()


def create_suggestions() -> None:
    op.create_table(
        "suggestions",
        sa.Column("id", BIG_ID, primary_key=True),
        sa.Column("document_id", sa.BigInteger, nullable=False),
        sa.Column("owner_id", sa.BigInteger, nullable=False),
        sa.Column("collection_id", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("sort_key", sa.String(80).with_variant(sa.String(80, collation="C"), "postgresql"), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("position", sa.Integer),
    )
    op.create_index("ix_suggestions_document_id", "suggestions", ["document_id"])
    op.create_index("ix_suggestions_owner_id", "suggestions", ["owner_id", "kind", "sort_key"])
    op.create_index("ix_suggestions_collection_id", "suggestions", ["collection_id", "kind", "sort_key"])
    fill_suggestions(op.get_bind())


def fill_suggestions(connection: sa.Connection) -> None:
    made = sa.table(
        "suggestions",
        *(
            sa.column(name)
            for name in ("document_id", "owner_id", "collection_id", "kind", "sort_key", "text", "position")
        ),
    )
    documents = connection.execute(
        sa.text("SELECT id, owner_id, collection_id, content_id, title, filename FROM documents")
    ).all()
    for row in documents:
        sections = connection.execute(
            sa.text(
                "SELECT position, section FROM chunks WHERE content_id = :content AND position < :most"
                " ORDER BY position"
            ),
            {"content": row.content_id, "most": MAX_READ_CHUNKS},
        )
        texts = {("document", fold_key(row.title)): (row.title, None)}
        for position, stored in sections:
            section = json.loads(stored) if isinstance(stored, str) else stored
            if section and len(texts) <= MAX_HEADINGS:
                texts.setdefault(("section", fold_key(section[-1])), (section[-1], position))
        same = {"document_id": row.id, "owner_id": row.owner_id, "collection_id": row.collection_id}
        rows = [
            {**same, "kind": kind, "sort_key": key, "text": text[:MAX_TEXT_CHARS], "position": position}
            for (kind, key), (text, position) in texts.items()
            if key
        ]
        names = fold_text("\n".join(filter(None, (row.title, row.filename)))[:MAX_NAMES_CHARS])
        rows.append({**same, "kind": "names", "sort_key": "", "text": names, "position": None})
        connection.execute(made.insert(), rows)


def fold_key(text: str) -> str:
    return fold_text(text[: 2 * MAX_KEY_CHARS]).strip()[:MAX_KEY_CHARS]


def fold_text(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
