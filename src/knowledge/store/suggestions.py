"""Titles and headings of documents by their beginning, for suggestions, and their names as lists are filtered."""

from __future__ import annotations

import unicodedata
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, exists, insert, or_, select

from knowledge.model import Scope
from knowledge.model.suggestions import Suggestion, SuggestionKind
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.prepared_statements import PreparedStatement

T, D, H, C, G = (
    schema.suggestions.c,
    schema.documents.c,
    schema.chunks.c,
    schema.collections.c,
    schema.document_tags.c,
)
MAX_KEY_CHARS, MAX_TEXT_CHARS = 80, 300
MAX_HEADINGS, MAX_READ_CHUNKS = 200, 2000
NAMES, MAX_NAMES_CHARS = "names", 2000
"""Kind of the row with the title and the file name of a document, for `contains_name`."""
MAX_SUGGESTIONS = 8
QUOTAS = {
    SuggestionKind.DOCUMENT: 8,
    SuggestionKind.COLLECTION: 2,
    SuggestionKind.TAG: 2,
    SuggestionKind.SECTION: 8,
}
"""How many of each kind there are at most, in the order in which they are shown."""
_FIND_DOCUMENT = PreparedStatement(
    select(D.title, D.filename, D.owner_id, D.collection_id, D.content_id).where(D.id == bindparam("document_id"))
)
_SELECT_SECTIONS = (
    select(H.position, H.section)
    .where(H.content_id == bindparam("content_id"), H.position < MAX_READ_CHUNKS)
    .order_by(H.position)
)
_DELETE = PreparedStatement(delete(schema.suggestions).where(T.document_id == bindparam("document")))
_INSERT = PreparedStatement(insert(schema.suggestions))


def fold_key(text: str) -> str:
    """Return a text as it is compared: in lower case, without differences of form."""
    return fold_text(text[: 2 * MAX_KEY_CHARS]).strip()[:MAX_KEY_CHARS]


def fold_text(text: str) -> str:
    # Here and not in SQL: lower() of SQLite, and of PostgreSQL with the collation C, changes ASCII letters only.
    return unicodedata.normalize("NFKC", text).casefold()


def contains_name(text: str) -> ColumnElement[bool]:
    """Return the condition for documents whose title or file name contains a text, in upper or lower case."""
    return exists().where(
        T.document_id == D.id, T.kind == NAMES, T.text.contains(fold_text(text).strip("\n"), autoescape=True)
    )


def rewrite_document(connection: Connection, document_id: int) -> None:
    """Store the title and the headings of a document, in place of what was stored of it."""
    _DELETE.run(connection, {"document": document_id})
    row = _FIND_DOCUMENT.fetch_first(connection, {"document_id": document_id})
    if row is None:
        return
    same = {"document_id": document_id, "owner_id": row.owner_id, "collection_id": row.collection_id}
    texts: dict[tuple[str, str], tuple[str, int | None]] = {
        (SuggestionKind.DOCUMENT, fold_key(row.title)): (row.title, None)
    }
    for position, section in connection.execute(_SELECT_SECTIONS, {"content_id": row.content_id}):
        if section and len(texts) <= MAX_HEADINGS:
            texts.setdefault((SuggestionKind.SECTION, fold_key(section[-1])), (section[-1], position))
    rows = [
        {**same, "kind": kind, "sort_key": key, "text": text[:MAX_TEXT_CHARS], "position": position}
        for (kind, key), (text, position) in texts.items()
        if key
    ]
    names = fold_text("\n".join(filter(None, (row.title, row.filename)))[:MAX_NAMES_CHARS])
    rows.append({**same, "kind": NAMES, "sort_key": "", "text": names, "position": None})
    _INSERT.run_many(connection, rows)


class SuggestionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, text: str, scope: Scope) -> list[Suggestion]:
        """Return what begins with a text and is visible in a scope, at most MAX_SUGGESTIONS."""
        key = fold_key(text)
        if not key:
            return []
        with self._database.read() as connection:
            found = {
                SuggestionKind.DOCUMENT: _find_texts(connection, SuggestionKind.DOCUMENT, key, scope),
                SuggestionKind.SECTION: _find_texts(connection, SuggestionKind.SECTION, key, scope),
                SuggestionKind.COLLECTION: _find_collections(connection, text.strip(), scope),
                SuggestionKind.TAG: _find_tags(connection, text.strip(), scope),
            }
        return [each for kind, most in QUOTAS.items() for each in found[kind][:most]][:MAX_SUGGESTIONS]


def has_prefix(connection: Connection, column: ColumnElement[str], prefix: str) -> Any:
    """Return the condition for a prefix that an index answers: a range in SQLite, LIKE in PostgreSQL."""
    if connection.dialect.name == "sqlite":
        return (column >= prefix) & (column < prefix + "\U0010ffff")
    return column.startswith(prefix, autoescape=True)


def _visible(owner: ColumnElement[int], collection: ColumnElement[int], scope: Scope) -> Any:
    return or_(owner == scope.owner, collection.in_(sorted(scope.collections)))


def _find_texts(connection: Connection, kind: SuggestionKind, key: str, scope: Scope) -> list[Suggestion]:
    wanted = (
        select(T.text, D.uid, T.position)
        .join_from(schema.suggestions, schema.documents, T.document_id == D.id)
        .where(_visible(T.owner_id, T.collection_id, scope), T.kind == kind, has_prefix(connection, T.sort_key, key))
    )
    rows = connection.execute(wanted.order_by(T.sort_key, T.document_id).limit(MAX_SUGGESTIONS))
    return [Suggestion(kind, row.text, row.uid, row.position) for row in rows]


def _find_collections(connection: Connection, text: str, scope: Scope) -> list[Suggestion]:
    named = or_(*(has_prefix(connection, column, form) for column in (C.name, C.title) for form in _forms(text)))
    wanted = select(C.name).where(_visible(C.owner_id, C.id, scope), named).order_by(C.name).limit(MAX_SUGGESTIONS)
    names = connection.execute(wanted).scalars()
    return [Suggestion(SuggestionKind.COLLECTION, name) for name in dict.fromkeys(names)]


def _find_tags(connection: Connection, text: str, scope: Scope) -> list[Suggestion]:
    begins = or_(*(has_prefix(connection, G.tag, form) for form in _forms(text)))
    wanted = (
        select(G.tag)
        .join_from(schema.document_tags, schema.documents, G.document_id == D.id)
        .where(begins, _visible(D.owner_id, D.collection_id, scope))
    )
    tags = connection.execute(wanted.group_by(G.tag).order_by(G.tag).limit(MAX_SUGGESTIONS)).scalars()
    return [Suggestion(SuggestionKind.TAG, tag) for tag in tags]


def _forms(text: str) -> list[str]:
    """Return the ways in which a name may be written that is kept as it was given."""
    return list(dict.fromkeys((text, text.lower(), text.capitalize(), text.upper())))
