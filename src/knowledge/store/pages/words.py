"""Packed words with boxes of the pages that OCR has read, one row per page, stored with the content of a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, literal, select

from knowledge.store import schema
from knowledge.store.database import Database

W, D = schema.page_words.c, schema.documents.c
_OF_DOCUMENT = select(W.page, W.data).join_from(schema.page_words, schema.documents, W.content_id == D.content_id)


@dataclass(frozen=True, slots=True)
class StagedWords:
    """The packed words of a page."""

    page: int
    data: bytes


class PageWordStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, document_id: int, pages: Sequence[int]) -> dict[int, bytes]:
        """Return the packed words of these pages of a document that has them."""
        wanted = _OF_DOCUMENT.where(D.id == document_id, W.page.in_(pages))
        with self._database.read() as connection:
            return {row.page: row.data for row in connection.execute(wanted)}

    def has_any(self, document_id: int) -> bool:
        wanted = _OF_DOCUMENT.where(D.id == document_id).limit(1)
        with self._database.read() as connection:
            return connection.execute(wanted).first() is not None

    def iterate(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield document, page and packed words of all documents."""
        wanted = select(D.id, W.page, W.data).join_from(
            schema.page_words, schema.documents, W.content_id == D.content_id
        )
        with self._database.read() as connection:
            for row in connection.execute(wanted.order_by(D.id, W.page)):
                yield row.id, row.page, row.data


def store_words(connection: Connection, content_id: int, words: Sequence[StagedWords]) -> None:
    """Insert the words of pages under a content; words that a page has already are replaced."""
    by_page = {staged.page: staged.data for staged in words}
    if not by_page:
        return
    connection.execute(delete(schema.page_words).where(W.content_id == content_id, W.page.in_([*by_page])))
    rows = [{"content_id": content_id, "page": page, "data": data} for page, data in by_page.items()]
    connection.execute(insert(schema.page_words), rows)


def copy_words(connection: Connection, old_content: int, new_content: int) -> None:
    """Copy the words to another content with the same pages."""
    columns = select(literal(new_content), W.page, W.data).where(W.content_id == old_content)
    connection.execute(insert(schema.page_words).from_select(["content_id", "page", "data"], columns))


def drop_words(connection: Connection, content_id: int) -> None:
    connection.execute(delete(schema.page_words).where(W.content_id == content_id))
