"""State of web pages between crawls: cache validators, links, and consecutive misses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.row_mapping import make_timestamp

S, D = schema.site_pages.c, schema.documents.c
_DOCUMENT_AT = select(D.id).where(D.collection_id == bindparam("collection_id"), D.source_path == bindparam("name"))


@dataclass(frozen=True, slots=True)
class SitePage:
    name: str
    url: str
    etag: str | None
    last_modified: str | None
    links: tuple[str, ...]
    missing_count: int = 0
    document_id: int | None = None
    """Current document of this page, or None."""


class SitePageStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, collection_id: int, name: str) -> SitePage | None:
        with self._database.read() as connection:
            row = connection.execute(_select_pages(collection_id).where(S.name == name)).first()
        return _make_site_page(row) if row else None

    def list_pages(self, collection_id: int) -> list[SitePage]:
        """Return the pages of a collection that have a document."""
        wanted = _select_pages(collection_id).where(D.id.is_not(None)).order_by(S.seen_at)
        with self._database.read() as connection:
            return [_make_site_page(row) for row in connection.execute(wanted)]

    def find_document_id(self, collection_id: int, name: str) -> int | None:
        """Return the current document of a page."""
        here = {"collection_id": collection_id, "name": name}
        with self._database.read() as connection:
            return connection.execute(_DOCUMENT_AT, here).scalar()

    def forget_validators(self, collection_id: int, name: str) -> None:
        """Delete ETag and Last-Modified, so that the next crawl sends no conditional request."""
        self._update_page(collection_id, name, etag=None, last_modified=None)

    def mark_missing(self, collection_id: int, name: str) -> int:
        """Increment and return the number of consecutive crawls in which a page was missing."""

        def work(connection: Connection) -> int:
            here = (S.collection_id == collection_id) & (S.name == name)
            before = connection.execute(select(S.gone).where(here).with_for_update()).scalar()
            if before is None:
                return 0
            connection.execute(update(schema.site_pages).where(here).values(gone=before + 1))
            return int(before) + 1

        return self._database.write(work)

    def mark_seen(self, collection_id: int, name: str) -> None:
        self._update_page(collection_id, name, gone=0, seen_at=make_timestamp())

    def forget_page(self, collection_id: int, name: str) -> None:
        self._database.write(lambda connection: _delete_page(connection, collection_id, name))

    def _update_page(self, collection_id: int, name: str, **values: Any) -> None:
        here = update(schema.site_pages).where(S.collection_id == collection_id, S.name == name)
        self._database.write(lambda connection: connection.execute(here.values(**values)))


def remember_page(connection: Connection, collection_id: int, page: SitePage) -> None:
    """Store the state of a page that is about to be ingested."""
    _delete_page(connection, collection_id, page.name)
    connection.execute(
        insert(schema.site_pages).values(
            collection_id=collection_id,
            name=page.name,
            url=page.url,
            etag=page.etag,
            last_modified=page.last_modified,
            links=list(page.links),
            gone=0,
            seen_at=make_timestamp(),
        )
    )


def forget_pages(connection: Connection, collection_id: int) -> None:
    connection.execute(delete(schema.site_pages).where(S.collection_id == collection_id))


def _delete_page(connection: Connection, collection_id: int, name: str) -> None:
    connection.execute(delete(schema.site_pages).where(S.collection_id == collection_id, S.name == name))


def _select_pages(collection_id: int) -> Any:
    same = (D.collection_id == S.collection_id) & (D.source_path == S.name)
    return (
        select(schema.site_pages, D.id.label("document_id"))
        .join_from(schema.site_pages, schema.documents, same, isouter=True)
        .where(S.collection_id == collection_id)
    )


def _make_site_page(row: Any) -> SitePage:
    return SitePage(row.name, row.url, row.etag, row.last_modified, tuple(row.links), row.gone, row.document_id)
