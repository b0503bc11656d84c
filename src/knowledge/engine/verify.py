"""Integrity check: compares the database, the index and the originals, and yields a finding per difference."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from knowledge.blobs.api import Blobs, StoredBlob
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.errors import DatabaseFailed, KnowledgeError
from knowledge.extract.pages.packed_words import unpack_words
from knowledge.index.api import IndexSnapshot
from knowledge.model import Finding, JsonValue
from knowledge.store import integrity
from knowledge.store.chunks import ChunkStore, IndexableChunk
from knowledge.store.database import DAMAGED_HINT, Database
from knowledge.store.documents import DocumentStore
from knowledge.store.integrity import Reader, ReadError, ShouldStop
from knowledge.store.pages.words import PageWordStore
from knowledge.store.postgres import table_checks

log = logging.getLogger(__name__)

STRAY_CHECKS, STRAY_CHECK_SECONDS = 40, 0.05
DOCUMENTS_PER_BATCH = 200
COSINE_TOLERANCE = 0.01
"""Rounding of float16 on both sides, with a margin."""
MAX_LISTED_FINDINGS = 10
"""Findings listed in an error message; `verify` lists all of them."""
RESTORE_HINT = (
    "Restore a backup: 'knowledge restore BACKUP --data DIR'. Without one, stop the server and copy the data folder."
)
ADD_AGAIN_HINT = "Restore a backup, or remove this document and add it again."
REINDEX_HINT = "Run 'knowledge reindex'."
REREAD_HINT = "Remove this document and add it again, or restore a backup; searches do not need these boxes."
RESTORE_FILE_HINT = "Add the same file again, or restore a backup."
REMOVE_STRAY_HINT = "Restart the server: it removes files that no document refers to."
VERIFY_STEPS = 7
ReportCheck: TypeAlias = Callable[[int, str], None]
"""Receives how many checks are done, and the part that the next one is about: store, index or files."""
READ_ERRORS = (KnowledgeError, OSError, ValueError, RuntimeError, ReadError)


def verify_all(
    database: Database,
    documents: DocumentStore,
    chunks: ChunkStore,
    files: Blobs,
    indexer: IndexFollower,
    words: PageWordStore,
    stop: ShouldStop,
    report: ReportCheck,
) -> Iterator[Finding]:
    """Yield all findings; a check that fails becomes a finding, and the next check runs."""
    steps: tuple[tuple[str, str, Callable[[], Iterator[Finding]]], ...] = (
        ("store", RESTORE_HINT, lambda: _check_store(database, stop)),
        ("index", REINDEX_HINT, lambda: _check_change_log(indexer)),
        ("store", RESTORE_HINT, lambda: _check_counts(documents, chunks)),
        ("store", REREAD_HINT, lambda: _check_page_words(words)),
        ("index", REINDEX_HINT, lambda: _check_index(documents, indexer)),
        ("index", REINDEX_HINT, lambda: _check_vectors(documents, chunks, indexer)),
        ("files", RESTORE_HINT, lambda: _check_files(documents, files)),
    )
    for number, (part, hint, step) in enumerate(steps, 1):
        started = time.monotonic()
        report(number - 1, part)
        try:
            yield from step()
        except READ_ERRORS as error:
            yield Finding(part, f"A check of the {part} failed: {error}", hint)
        log.info("verify: step %d of %d (%s) took %.1f s", number, len(steps), part, time.monotonic() - started)


def _check_store(database: Database, stop: ShouldStop) -> Iterator[Finding]:
    if database.path is not None:
        yield from check_database(database.path, stop)
        return
    for problem in table_checks.find_table_problems(database):
        yield Finding("store", f"The database is damaged: {problem}", RESTORE_HINT)
    for identity, title, damage in table_checks.find_damaged_documents(database, stop):
        yield Finding("store", f"Document {identity} '{title}': {damage}", ADD_AGAIN_HINT, identity)


def check_database(path: Path, stop: ShouldStop | None = None) -> Iterator[Finding]:
    """Run SQLite's integrity check, and compare each chunk with its stored checksum."""
    with integrity.open_read_only(path, stop) as connection:
        for problem in integrity.find_structure_problems(connection):
            yield Finding("store", f"The database is damaged: {problem}", RESTORE_HINT)
        try:
            identities = integrity.list_document_ids(connection)
        except ReadError as error:
            yield Finding("store", f"The list of documents cannot be read: {error}", RESTORE_HINT)
            return
        for identity in identities if integrity.has_checksums(connection) else ():
            damage = _find_document_damage(connection, identity)
            if damage is not None:
                named = integrity.find_document_name(connection, identity)
                title = "(its title cannot be read)" if named is None else f"'{named}'"
                yield Finding("store", f"Document {identity} {title}: {damage}", ADD_AGAIN_HINT, identity)


def require_undamaged(
    path: Path, files: Blobs, what: str, *, hint: str = DAMAGED_HINT, stop: ShouldStop | None = None
) -> None:
    """Raise DatabaseFailed with the damaged documents unless the database and its originals pass every check."""
    found = [*check_database(path, stop), *_check_originals(path, files)]
    if not found:
        return
    listed = "; ".join(finding.message for finding in found[:MAX_LISTED_FINDINGS])
    more = f"; and {len(found) - MAX_LISTED_FINDINGS} more" if len(found) > MAX_LISTED_FINDINGS else ""
    messages: list[JsonValue] = [finding.message for finding in found[:MAX_LISTED_FINDINGS]]
    raise DatabaseFailed(f"{what}: {listed}{more}", hint=hint, findings=messages)


def _find_document_damage(connection: Reader, document_id: int) -> str | None:
    """Return what is damaged in the chunks of a document, if anything."""
    try:
        altered, total = integrity.count_altered_chunks(connection, document_id)
    except (ReadError, ValueError) as error:
        return f"its passages cannot be read: {error}"
    return f"{altered} of its {total} passages are not what was stored" if altered else None


def _check_originals(database: Path, files: Blobs) -> Iterator[Finding]:
    """Compare each original that the database refers to with its SHA-256."""
    with integrity.open_read_only(database) as connection:
        try:
            named = integrity.list_originals(connection)
        except ReadError:  # already a finding of check_database
            return
        for sha256, (size, identity) in named.items():
            wrong = _find_file_damage(files, sha256, size)
            if wrong is not None:
                title = integrity.find_document_name(connection, identity)
                yield Finding(
                    "files", f"The original of document {identity} '{title}' {wrong}", RESTORE_FILE_HINT, identity
                )


def _check_change_log(indexer: IndexFollower) -> Iterator[Finding]:
    try:
        indexer.catch_up()
    except READ_ERRORS as error:
        yield Finding("index", f"The index is behind the change log: {error}", REINDEX_HINT)


def _check_counts(documents: DocumentStore, chunks: ChunkStore) -> Iterator[Finding]:
    real = chunks.count_by_document()
    for identity, expected in documents.list_chunk_counts().items():
        if real.get(identity, 0) != expected:
            message = f"Document {identity} should have {expected} passages and has {real.get(identity, 0)}"
            yield Finding("store", message, ADD_AGAIN_HINT, identity)


def _check_page_words(words: PageWordStore) -> Iterator[Finding]:
    """Unpack the words of every page, which checks their checksum."""
    for document_id, page, data in words.iterate():
        try:
            unpack_words(data, page)
        except ValueError as error:
            message = f"Document {document_id}: the boxes of page {page} cannot be read: {error}"
            yield Finding("store", message, REREAD_HINT, document_id)


def _check_index(documents: DocumentStore, indexer: IndexFollower) -> Iterator[Finding]:
    stored, indexed = documents.list_chunk_counts(), indexer.index.count_document_chunks()
    for identity in sorted(stored.keys() | indexed.keys()):
        expected, found = stored.get(identity, 0), indexed.get(identity, 0)
        if expected != found:
            yield Finding(
                "index", f"The index holds {found} passages of document {identity} instead of {expected}", REINDEX_HINT
            )
    for name in indexer.index.find_damaged_files():
        yield Finding("index", f"The index file {name} is damaged: its checksum does not match", REINDEX_HINT)


def _check_vectors(documents: DocumentStore, chunks: ChunkStore, indexer: IndexFollower) -> Iterator[Finding]:
    """Compare each stored vector with the vector in the index, except of documents whose vectors are incomplete."""
    identities = documents.list_finished()
    for first in range(0, len(identities), DOCUMENTS_PER_BATCH):
        wrong = _find_different_vectors(identities[first : first + DOCUMENTS_PER_BATCH], chunks, indexer)
        if wrong:
            indexer.catch_up()  # the documents may have changed during the comparison
        for identity in _find_different_vectors(wrong, chunks, indexer):
            yield Finding(
                "index", f"The index has different vectors of document {identity} than the store", REINDEX_HINT
            )


def _find_different_vectors(identities: Sequence[int], chunks: ChunkStore, indexer: IndexFollower) -> list[int]:
    """Return the documents whose vectors differ between index and store."""
    index, model = indexer.serving.index.snapshot, indexer.serving.model
    if model is None or not identities:
        return []
    return sorted(
        {row.document_id for row in chunks.read_indexable(identities, model.id) if _has_different_vector(row, index)}
    )


def _has_different_vector(row: IndexableChunk, index: IndexSnapshot) -> bool:
    if row.vector is None:
        return False
    vector = np.frombuffer(row.vector, np.float16).astype(np.float32)
    cosine = float(index.compute_cosines(vector, np.asarray([row.chunk_id]))[0])  # NaN, so different, if it is missing
    return not math.isclose(cosine, float(vector @ vector), abs_tol=COSINE_TOLERANCE)


def _check_files(documents: DocumentStore, files: Blobs) -> Iterator[Finding]:
    for sha256, size in documents.list_originals().items():
        wrong = _find_file_damage(files, sha256, size)
        if wrong is not None and documents.list_with_file(sha256):  # unless the document was removed meanwhile
            yield Finding("files", f"The original {_describe_original(documents, sha256)} {wrong}", RESTORE_FILE_HINT)
    horizon = time.time() - files.grace_seconds
    found = [blob for blob in files.iterate() if not documents.is_file_referenced(blob.sha256)]
    stray = [blob for blob in found if blob.modified <= horizon]
    for blob in _keep_lasting_strays(files, stray):
        yield Finding("files", f"No document refers to the file {blob.sha256}", REMOVE_STRAY_HINT)


def _find_file_damage(files: Blobs, sha256: str, size: int) -> str | None:
    """Return what is wrong with an original, if anything."""
    digest, found = hashlib.sha256(), 0
    try:
        for piece in files.read(sha256):
            digest.update(piece)
            found += len(piece)
    except FileNotFoundError:
        return "is missing"
    if found != size:
        return f"has {found} bytes instead of {size}"
    return "is damaged: its SHA-256 does not match" if digest.hexdigest() != sha256 else None


def _describe_original(documents: DocumentStore, sha256: str) -> str:
    """Return the SHA-256 of an original and the documents that refer to it."""
    owners = (
        f"document {document.id} '{document.title}'{f' ({document.filename})' if document.filename else ''}"
        for document in documents.list_with_file(sha256)
    )
    return f"{sha256} ({'; '.join(owners)})"


def _keep_lasting_strays(files: Blobs, stray: list[StoredBlob]) -> list[StoredBlob]:
    """Wait a moment and drop files that are gone, because a job that has just ended may still delete its file."""
    for _ in range(STRAY_CHECKS):
        stray = [blob for blob in stray if files.find_size(blob.sha256) is not None]
        if not stray:
            break
        time.sleep(STRAY_CHECK_SECONDS)
    return stray
