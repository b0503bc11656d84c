"""Chunks and their vectors, staged under a content row that no document references until it is published."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, exists, func, insert, literal, select, update

from knowledge.model import Chunk, DocumentStatus, new_uid
from knowledge.store import changes, schema
from knowledge.store.column_types import NUL, remove_nul
from knowledge.store.database import Database
from knowledge.store.pages.words import StagedWords, drop_words, store_words
from knowledge.store.prepared_statements import PreparedStatement, upsert
from knowledge.store.row_mapping import make_chunk

H, V, K, D, C = (
    schema.chunks.c,
    schema.vectors.c,
    schema.contents.c,
    schema.documents.c,
    schema.collections.c,
)

CHUNK_COLUMNS = (
    H.id.label("chunk_id"),
    H.uid.label("chunk_uid"),
    H.position.label("chunk_position"),
    H.text.label("chunk_text"),
    H.page.label("chunk_page"),
    H.section.label("chunk_section"),
    H.first_line.label("chunk_first_line"),
    H.last_line.label("chunk_last_line"),
)
_SELECT_OF_DOCUMENT = (
    select(*CHUNK_COLUMNS)
    .join_from(schema.chunks, schema.documents, H.content_id == D.content_id)
    .where(D.id == bindparam("document_id"))
    .order_by(H.position)
)
_INSERT_CONTENT = PreparedStatement(insert(schema.contents))
_INSERT_CHUNK = PreparedStatement(insert(schema.chunks))
_INSERT_VECTORS = PreparedStatement(insert(schema.vectors))
_UPDATE_CONTENT = update(schema.contents).where(K.id == bindparam("content_id"))
_PUBLISH_CONTENT, _RETIRE_CONTENT = PreparedStatement(_UPDATE_CONTENT), PreparedStatement(_UPDATE_CONTENT)
_SELECT_BY_DIGEST = (
    select(H.digest, V.data)
    .join_from(schema.chunks, schema.vectors, V.chunk_id == H.id)
    .where(V.model_id == bindparam("model_id"), H.digest.in_(bindparam("digests", expanding=True)))
)
_SELECT_INDEXABLE = (
    select(
        H.id,
        H.position,
        H.text,
        H.section,
        V.data,
        D.id.label("document_id"),
        D.collection_id,
        D.owner_id,
        D.doc_type,
        D.created_at,
        D.title,
        D.language,
        D.tags,
    )
    .join_from(schema.documents, schema.chunks, H.content_id == D.content_id)
    .join(schema.vectors, (V.chunk_id == H.id) & (V.model_id == bindparam("model_id")), isouter=True)
    .order_by(D.id, H.position)  # the index expects the chunks of a document together, in reading order
)
_SELECT_DOCUMENTS_TO_INDEX = _SELECT_INDEXABLE.where(D.id.in_(bindparam("ids", expanding=True)))
_SELECT_CHUNKS_TO_INDEX = _SELECT_INDEXABLE.where(H.id.in_(bindparam("ids", expanding=True)))
_SELECT_VECTORS = (
    select(H.id, V.data)
    .join_from(schema.documents, schema.chunks, H.content_id == D.content_id)
    .join(schema.vectors, V.chunk_id == H.id)
    .where(D.id.in_(bindparam("ids", expanding=True)), V.model_id == bindparam("model_id"))
    .order_by(D.id, H.position)
)
_SELECT_UNEMBEDDED = (
    select(H.id, H.text, H.section, D.title, D.id.label("document_id"), D.language)
    .join_from(schema.documents, schema.chunks, H.content_id == D.content_id)
    .join(schema.vectors, (V.chunk_id == H.id) & (V.model_id == bindparam("model_id")), isouter=True)
    .where(V.chunk_id.is_(None))
    .limit(bindparam("limit"))
)
_SELECT_WITHOUT_VECTOR = _SELECT_UNEMBEDDED.where(H.id > bindparam("after")).order_by(H.id)
_SELECT_OF_PROCESSING = _SELECT_WITHOUT_VECTOR.where(D.id == bindparam("document_id"))
# The job of a processing document embeds it.
_SELECT_OF_FINISHED = _SELECT_WITHOUT_VECTOR.where(D.status != DocumentStatus.PROCESSING)
_SELECT_OF_FINISHED_BACKWARDS = _SELECT_UNEMBEDDED.where(
    H.id < bindparam("after"), D.status != DocumentStatus.PROCESSING
).order_by(H.id.desc())
CHUNKS_PER_SHARE = 64
"""Neighbouring chunks that are embedded by the same server."""
LAST_CHUNK_ID = 2**62
_COUNT_WITHOUT_VECTOR = select(func.count()).select_from(_SELECT_OF_FINISHED.limit(None).order_by(None).subquery())


@dataclass(frozen=True, slots=True)
class StagedChunk:
    text: str
    page: int | None
    section: tuple[str, ...]
    digest: bytes
    """Hash of the embedded text; chunks with equal digests share a vector."""
    vector: bytes | None
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """The vector of a stored chunk, and the digest of the text that was embedded."""

    chunk_id: int
    digest: bytes
    vector: bytes


@dataclass(frozen=True, slots=True)
class IndexableChunk:
    """A chunk with the fields that the index stores."""

    chunk_id: int
    document_id: int
    position: int
    collection_id: int
    owner: int
    doc_type: str
    created_at: int
    title: str
    language: str | None
    tags: tuple[str, ...]
    section: tuple[str, ...]
    text: str
    vector: bytes | None


@dataclass(frozen=True, slots=True)
class UnembeddedChunk:
    chunk_id: int
    document_id: int
    title: str
    language: str | None
    section: tuple[str, ...]
    text: str


class ChunkStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list_of_document(self, document_id: int, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        wanted = (
            _SELECT_OF_DOCUMENT.offset(offset) if limit is None else _SELECT_OF_DOCUMENT.offset(offset).limit(limit)
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted, {"document_id": document_id}).all()
        return [make_chunk(row, document_id) for row in rows]

    def list_sections(self, document_id: int) -> list[Chunk]:
        """Return the chunks of a document without their texts."""
        wanted = _SELECT_OF_DOCUMENT.with_only_columns(
            *(column for column in CHUNK_COLUMNS if column.key != "chunk_text"), literal("").label("chunk_text")
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted, {"document_id": document_id}).all()
        return [make_chunk(row, document_id) for row in rows]

    def list_on_pages(self, document_id: int, pages: Iterable[int] | None) -> list[Chunk]:
        """Return the chunks of these pages of a document, or all, in reading order."""
        wanted = _SELECT_OF_DOCUMENT if pages is None else _SELECT_OF_DOCUMENT.where(H.page.in_(sorted(pages)))
        with self._database.read() as connection:
            rows = connection.execute(wanted, {"document_id": document_id}).all()
        return [make_chunk(row, document_id) for row in rows]

    # -- staging --------------------------------------------------------------------------------

    def stage_chunks(
        self,
        content_id: int,
        first: int,
        staged: Sequence[StagedChunk],
        model_id: int | None,
        words: Sequence[StagedWords] = (),
    ) -> None:
        def work(connection: Connection) -> None:
            stage_chunks(connection, content_id, first, staged, model_id)
            store_words(connection, content_id, words)

        self._database.write(work)

    def find_known_vectors(self, model_id: int, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return existing vectors for texts with these digests."""
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_BY_DIGEST, {"model_id": model_id, "digests": digests})
            return {row.digest: row.data for row in rows}

    def drop_content(self, content_id: int) -> None:
        self._database.write(lambda connection: drop_contents(connection, [content_id]))

    def drop_stale(self) -> int:
        """Delete staged contents of jobs that are not running; return their number."""
        J = schema.jobs.c

        def work(connection: Connection) -> int:
            is_running = exists().where(J.id == K.job_id, J.status == "processing", J.change_seq.is_(None))
            stale = list(connection.execute(select(K.id).where(~is_running, K.document_id.is_(None))).scalars())
            drop_contents(connection, stale)
            return len(stale)

        return self._database.write(work)

    def drop_retired(self, seq: int) -> None:
        """Delete contents whose replacement the index has applied."""
        retired = select(K.id).where(K.retired_seq <= seq)
        with self._database.read() as connection:
            gone = list(connection.execute(retired).scalars())
        if gone:
            self._database.write(lambda connection: drop_contents(connection, gone))

    # -- for the index --------------------------------------------------------------------------

    def read_indexable(self, document_ids: Sequence[int], model_id: int) -> Iterator[IndexableChunk]:
        """Yield the chunks of these documents for the index."""
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_DOCUMENTS_TO_INDEX, {"ids": document_ids, "model_id": model_id})
            yield from map(_make_indexable, rows)

    def read_indexable_chunks(self, chunk_ids: Sequence[int], model_id: int) -> Iterator[IndexableChunk]:
        """Yield single chunks for the index, without those that no document references."""
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_CHUNKS_TO_INDEX, {"ids": chunk_ids, "model_id": model_id})
            yield from map(_make_indexable, rows)

    def read_vectors(self, document_ids: Sequence[int], model_id: int) -> Iterator[tuple[int, bytes]]:
        """Yield the chunks of these documents that have a vector of this model, with their vectors."""
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_VECTORS, {"ids": document_ids, "model_id": model_id})
            yield from ((row.id, row.data) for row in rows)

    def list_without_vector(
        self,
        model_id: int,
        after: int,
        limit: int,
        *,
        share: tuple[int, int] | None = None,
        backwards: bool = False,
    ) -> list[UnembeddedChunk]:
        """Return chunks without a vector, except those of processing documents.

        A share is its number and the number of shares; `backwards` starts at the newest chunk, before `after`.
        """
        wanted = _SELECT_OF_FINISHED_BACKWARDS if backwards else _SELECT_OF_FINISHED
        if share is not None:
            number, count = share
            wanted = wanted.where((H.id // CHUNKS_PER_SHARE) % count == number)
        return self._list_unembedded(wanted, model_id=model_id, after=after, limit=limit)

    def list_unembedded_of(self, document_id: int, model_id: int, after: int, limit: int) -> list[UnembeddedChunk]:
        """Return chunks of one document without a vector, after a chunk id."""
        return self._list_unembedded(
            _SELECT_OF_PROCESSING, document_id=document_id, model_id=model_id, after=after, limit=limit
        )

    def _list_unembedded(self, statement: Select[Any], **values: int) -> list[UnembeddedChunk]:
        with self._database.read() as connection:
            rows = connection.execute(statement, values)
            return [
                UnembeddedChunk(row.id, row.document_id, row.title, row.language, tuple(row.section), row.text)
                for row in rows
            ]

    def count_without_vector(self, model_id: int) -> int:
        with self._database.read() as connection:
            return connection.execute(_COUNT_WITHOUT_VECTOR, {"model_id": model_id, "after": 0}).scalar_one()

    def add_vectors(self, model_id: int, vectors: Sequence[tuple[int, bytes]], changed: Iterable[int]) -> None:
        """Store vectors of existing chunks and record a change for each document in `changed`."""

        def work(connection: Connection) -> None:
            wanted = [chunk_id for chunk_id, _ in vectors]
            # Chunks may have been deleted while their vectors were computed.
            present = set(connection.execute(select(H.id).where(H.id.in_(wanted))).scalars())
            rows = [
                {"chunk_id": chunk_id, "model_id": model_id, "data": data}
                for chunk_id, data in vectors
                if chunk_id in present
            ]
            if rows:
                connection.execute(upsert(schema.vectors, connection.dialect.name), rows)
            count_vectors(connection, model_id, documents)
            changes.record_changes(connection, documents, vectors_only=True)

        documents = sorted(changed)
        self._database.write(work)

    def count_by_document(self) -> dict[int, int]:
        """Return the number of stored chunks by document."""
        counted = (
            select(D.id, func.count(H.id).label("chunks"))
            .join_from(schema.documents, schema.chunks, H.content_id == D.content_id, isouter=True)
            .group_by(D.id)
        )
        with self._database.read() as connection:
            return {row.id: row.chunks for row in connection.execute(counted)}


def count_vectors(connection: Connection, model_id: int, document_ids: Sequence[int]) -> None:
    """Store in documents how many of their chunks have a vector of the active model."""
    counted = (
        select(func.count())
        .select_from(schema.chunks.join(schema.vectors, V.chunk_id == H.id))
        .where(H.content_id == D.content_id, V.model_id == model_id)
        .scalar_subquery()
    )
    for document_id in document_ids:
        connection.execute(update(schema.documents).where(D.id == document_id).values(vector_count=counted))


def begin_content(connection: Connection, job_id: int) -> int:
    """Insert a content row for a job and delete what an earlier attempt staged."""
    drop_contents(connection, _find_stale(connection, job_id))
    return insert_content(connection, job_id)


def insert_content(connection: Connection, job_id: int) -> int:
    return _INSERT_CONTENT.insert(connection, {"job_id": job_id})


def stage_chunks(
    connection: Connection, content_id: int, first: int, staged: Sequence[StagedChunk], model_id: int | None
) -> None:
    """Insert chunks and vectors under a content, starting at position `first`."""
    rows = [_chunk_row(content_id, first + number, chunk) for number, chunk in enumerate(staged)]
    identities = _INSERT_CHUNK.insert_many(connection, rows)
    vectors = [
        {"chunk_id": identity, "model_id": model_id, "data": chunk.vector}
        for identity, chunk in zip(identities, staged, strict=True)
        if chunk.vector is not None
    ]
    _INSERT_VECTORS.run_many(connection, vectors)


def store_vectors(connection: Connection, model_id: int, embedded: Sequence[EmbeddedChunk]) -> None:
    """Store vectors of existing chunks with their digests, which differ after the document was renamed."""
    by_id = {chunk.chunk_id: chunk for chunk in embedded}
    stored = select(H.id, H.digest).where(H.id.in_(by_id))
    digests = {row.id: row.digest for row in connection.execute(stored)}  # chunks may have been deleted meanwhile
    rows = [{"chunk_id": chunk_id, "model_id": model_id, "data": by_id[chunk_id].vector} for chunk_id in digests]
    if rows:
        connection.execute(upsert(schema.vectors, connection.dialect.name), rows)
    for chunk_id, digest in digests.items():
        if digest != by_id[chunk_id].digest:
            connection.execute(update(schema.chunks).where(H.id == chunk_id).values(digest=by_id[chunk_id].digest))


def publish_content(connection: Connection, content_id: int, document_id: int) -> None:
    _PUBLISH_CONTENT.run(connection, {"content_id": content_id, "document_id": document_id})


def retire_content(connection: Connection, content_id: int, seq: int) -> None:
    """Mark a content as replaced by a change; it stays readable until the index has applied it."""
    _RETIRE_CONTENT.run(connection, {"content_id": content_id, "retired_seq": seq})


def drop_contents(connection: Connection, content_ids: Sequence[int]) -> None:
    """Delete contents with their chunks, vectors and words of pages."""
    for content_id in content_ids:
        drop_words(connection, content_id)
        mine = select(H.id).where(H.content_id == content_id)
        connection.execute(delete(schema.vectors).where(V.chunk_id.in_(mine)))
        connection.execute(delete(schema.chunks).where(H.content_id == content_id))
        connection.execute(delete(schema.contents).where(K.id == content_id))


def compute_checksum(section: Sequence[str], text: str) -> bytes:
    """Return the checksum that `verify` compares; migration 0005 computes the same for older rows."""
    joined = "\x1f".join((*section, text))
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _find_stale(connection: Connection, job_id: int) -> list[int]:
    return list(connection.execute(select(K.id).where(K.job_id == job_id, K.document_id.is_(None))).scalars())


def _chunk_row(content_id: int, position: int, chunk: StagedChunk) -> dict[str, Any]:
    text, section = chunk.text, list(chunk.section)
    if NUL in text or any(NUL in name for name in section):  # the checksum is of what is stored
        text, section = remove_nul(text), remove_nul(section)
    return {
        "uid": new_uid(),
        "content_id": content_id,
        "position": position,
        "text": text,
        "page": chunk.page,
        "section": section,
        "first_line": None if chunk.lines is None else chunk.lines[0],
        "last_line": None if chunk.lines is None else chunk.lines[1],
        "digest": chunk.digest,
        "checksum": compute_checksum(section, text),
    }


def _make_indexable(row: Any) -> IndexableChunk:
    return IndexableChunk(
        chunk_id=row.id,
        document_id=row.document_id,
        position=row.position,
        collection_id=row.collection_id,
        owner=row.owner_id,
        doc_type=row.doc_type,
        created_at=row.created_at,
        title=row.title,
        language=row.language,
        tags=tuple(row.tags),
        section=tuple(row.section),
        text=row.text,
        vector=row.data,
    )
