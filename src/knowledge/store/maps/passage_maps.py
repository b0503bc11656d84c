"""Stored maps of passages: ids and places, and no words of any document.

A map belongs to an owner and is of all that the owner may read, or of one collection. A reader sees only the
points of documents that are visible now: docs/decisions/0047-a-map-of-the-passages.md.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Integer, cast, func, select

from knowledge.model import LOCAL_OWNER, Scope
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.documents import IDS_PER_STATEMENT
from knowledge.store.library.filters import IS_FINISHED, visible_to
from knowledge.store.prepared_statements import upsert
from knowledge.store.row_mapping import make_timestamp, parse_timestamp

A, D, H, V, C, M = (
    schema.accounts.c,
    schema.documents.c,
    schema.chunks.c,
    schema.vectors.c,
    schema.collections.c,
    schema.maps.c,
)

EVERYTHING = 0
"""The collection id of a map of all that an owner may read; ids of collections start at 1."""
PRIME, MULTIPLIER = 2**31 - 1, 48271
# Lehmer's generator scatters the ids: those with the smallest values are a random sample that stays the same when
# others are added. PostgreSQL raises an error on a larger product.
SAMPLE_ORDER = ((H.id % PRIME) * MULTIPLIER) % PRIME


@dataclass(frozen=True, slots=True)
class MapSubject:
    """Whose map it is, and of which collection."""

    owner: int
    collection: int = EVERYTHING


@dataclass(frozen=True, slots=True)
class UnembeddedCount:
    language: str | None
    is_finished: bool
    chunks: int


@dataclass(frozen=True, slots=True)
class MapCounts:
    """What can be on a map now."""

    passages: int
    """Chunks with a vector."""
    newest_content: int
    unembedded: tuple[UnembeddedCount, ...] = ()


class PlacedChunk(NamedTuple):
    """A point of a stored map."""

    chunk_id: int
    document_id: int
    content_id: int
    position: int
    x: float
    y: float
    cluster: int


StoredWord = tuple[tuple[int, int, int], ...]
"""Places of the same word: number of the point, start and end in its text."""


@dataclass(frozen=True, slots=True)
class StoredMap:
    model_id: int
    newest_content: int
    passages: int
    made_at: datetime
    points: tuple[PlacedChunk, ...]
    """In random order, so that the first of them are a sample too."""
    words: tuple[tuple[StoredWord, ...], ...]
    """The words of each cluster."""


@dataclass(frozen=True, slots=True)
class SampledChunk:
    chunk_id: int
    document_id: int
    content_id: int
    position: int
    language: str | None
    text: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class VisibleDocument:
    id: int
    uid: UUID
    title: str
    content_id: int
    collection_uid: UUID
    collection: str
    collection_title: str


class MapStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- what is there --------------------------------------------------------------------------

    def count(self, subject: MapSubject, scope: Scope) -> MapCounts:
        """Return the numbers of passages that are visible in a scope, and the newest content."""
        finished = cast(IS_FINISHED, Integer)
        counted = (
            select(
                D.language,
                finished.label("is_finished"),
                func.sum(D.vector_count).label("vectors"),
                func.sum(D.chunk_count - D.vector_count).label("lacking"),
                func.max(D.content_id).label("newest"),
            )
            .where(*_conditions(subject, scope))
            .group_by(D.language, finished)
        )
        with self._database.read() as connection:
            rows = connection.execute(counted).all()
        lacking = [
            UnembeddedCount(row.language, bool(row.is_finished), int(row.lacking)) for row in rows if row.lacking > 0
        ]
        return MapCounts(
            passages=sum(int(row.vectors) for row in rows if row.is_finished),
            newest_content=max((row.newest for row in rows if row.is_finished), default=0),
            unembedded=tuple(sorted(lacking, key=lambda each: (-each.chunks, each.language or ""))),
        )

    def count_until(self, subject: MapSubject, scope: Scope, content_id: int) -> int:
        """Return the number of visible passages with a vector in contents that are not newer than this one."""
        counted = select(func.coalesce(func.sum(D.vector_count), 0)).where(
            *_conditions(subject, scope), IS_FINISHED, D.content_id <= content_id
        )
        with self._database.read() as connection:
            return int(connection.execute(counted).scalar_one())

    def sample(self, subject: MapSubject, scope: Scope, model_id: int, limit: int) -> list[SampledChunk]:
        """Return visible chunks with a vector, in random order, at most `limit`."""
        chosen = (
            select(H.id)
            .join_from(schema.documents, schema.chunks, H.content_id == D.content_id)
            .join(schema.vectors, (V.chunk_id == H.id) & (V.model_id == model_id))
            .where(*_conditions(subject, scope), IS_FINISHED)
            .order_by(SAMPLE_ORDER, H.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            identities = list(connection.execute(chosen).scalars())
            found = {
                chunk.chunk_id: chunk
                for start in range(0, len(identities), IDS_PER_STATEMENT)
                for chunk in _read_sampled(connection, identities[start : start + IDS_PER_STATEMENT], model_id)
            }
        return [found[identity] for identity in identities if identity in found]

    def find_documents(self, ids: Sequence[int], subject: MapSubject, scope: Scope) -> dict[int, VisibleDocument]:
        """Return those of the documents that are visible in a scope and belong on the map."""
        wanted = (
            select(
                D.id,
                D.uid,
                D.title,
                D.content_id,
                C.uid.label("collection_uid"),
                C.name.label("collection"),
                C.title.label("collection_title"),
            )
            .join_from(schema.documents, schema.collections, D.collection_id == C.id)
            .where(*_conditions(subject, scope))
        )
        found: dict[int, VisibleDocument] = {}
        with self._database.read() as connection:
            for start in range(0, len(ids), IDS_PER_STATEMENT):
                rows = connection.execute(wanted.where(D.id.in_(ids[start : start + IDS_PER_STATEMENT])))
                found |= {row.id: VisibleDocument(**row._mapping) for row in rows}
        return found

    def read_texts(self, chunk_ids: Sequence[int]) -> dict[int, str]:
        """Return the texts of chunks, whose visibility the caller has checked."""
        with self._database.read() as connection:
            return {
                row.id: row.text
                for start in range(0, len(chunk_ids), IDS_PER_STATEMENT)
                for row in connection.execute(
                    select(H.id, H.text).where(H.id.in_(chunk_ids[start : start + IDS_PER_STATEMENT]))
                )
            }

    # -- stored maps ----------------------------------------------------------------------------

    def find(self, subject: MapSubject) -> StoredMap | None:
        wanted = select(schema.maps).where(M.owner_id == subject.owner, M.collection_id == subject.collection)
        with self._database.read() as connection:
            row = connection.execute(wanted).first()
        if row is None:
            return None
        body = json.loads(zlib.decompress(row.data))
        return StoredMap(
            model_id=row.model_id,
            newest_content=row.newest_content,
            passages=row.passages,
            made_at=parse_timestamp(row.made_at),
            points=tuple(PlacedChunk(*point) for point in body["points"]),
            words=tuple(tuple(tuple(map(tuple, word)) for word in cluster) for cluster in body["words"]),
        )

    def save(self, subject: MapSubject, made: StoredMap) -> None:
        """Store a map in place of the former one, unless its owner is gone."""
        body = json.dumps({"points": made.points, "words": made.words}, separators=(",", ":"))
        values = {
            "owner_id": subject.owner,
            "collection_id": subject.collection,
            "model_id": made.model_id,
            "newest_content": made.newest_content,
            "passages": made.passages,
            "made_at": make_timestamp(made.made_at),
            "data": zlib.compress(body.encode()),
        }

        def work(connection: Connection) -> None:
            if _is_wanted(connection, subject):
                connection.execute(upsert(schema.maps, connection.dialect.name), [values])

        self._database.write(work, is_idempotent=True)


def _conditions(subject: MapSubject, scope: Scope) -> list[Any]:
    conditions = [visible_to(scope)]
    if subject.collection != EVERYTHING:
        conditions.append(D.collection_id == subject.collection)
    return conditions


def _read_sampled(connection: Connection, identities: Sequence[int], model_id: int) -> list[SampledChunk]:
    wanted = (
        select(H.id, D.id.label("document_id"), D.content_id, H.position, D.language, H.text, V.data)
        .join_from(schema.chunks, schema.documents, H.content_id == D.content_id)
        .join(schema.vectors, (V.chunk_id == H.id) & (V.model_id == model_id))
        .where(H.id.in_(identities))
    )
    return [SampledChunk(*row) for row in connection.execute(wanted)]


def _is_wanted(connection: Connection, subject: MapSubject) -> bool:
    accounts = select(A.id).where(A.id == subject.owner).with_for_update()
    collections = select(C.id).where(C.id == subject.collection).with_for_update()
    if subject.owner > LOCAL_OWNER and connection.execute(accounts).first() is None:
        return False
    return subject.collection == EVERYTHING or connection.execute(collections).first() is not None
