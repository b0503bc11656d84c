"""Compares the store with itself, with the index and with the files, and names every difference."""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from knowledge.engine.indexing.follower import Indexer
from knowledge.errors import DatabaseFailed, KnowledgeError
from knowledge.index.api import Index
from knowledge.model import Finding, JsonValue
from knowledge.store import integrity
from knowledge.store.chunks import ChunkStore, Indexable
from knowledge.store.database import DAMAGED_HINT
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore, digest, original_path
from knowledge.store.integrity import Stop

log = logging.getLogger(__name__)

LOOKS, GLANCE = 40, 0.05
BATCH = 200
CLOSE = 0.01
"""Half precision on both sides, and a little room."""
MAX_NAMED = 10
"""So many findings are told in an error; `verify` lists all of them."""
RESTORE = (
    "Restore a backup: 'knowledge restore BACKUP --data DIR'. Without one, stop the server and copy the data folder."
)
ADD_AGAIN = "Restore a backup, or remove this document and add it again."
REINDEX = "Run 'knowledge reindex'."
RESTORE_FILE = "Add the same file again, or restore a backup."
REMOVE_STRAY = "Restart the server: it removes files that no document names."
UNREADABLE = (KnowledgeError, OSError, ValueError, RuntimeError, sqlite3.Error)


def verify(
    database: Path, documents: DocumentStore, chunks: ChunkStore, files: FileStore, indexer: Indexer, stop: Stop
) -> Iterator[Finding]:
    """Every difference; each step goes on where another one ended early."""
    steps: tuple[tuple[str, str, Callable[[], Iterator[Finding]]], ...] = (
        ("store", RESTORE, lambda: check_database(database, stop)),
        ("index", REINDEX, lambda: _follow(indexer)),
        ("store", RESTORE, lambda: _counts(documents, chunks)),
        ("index", REINDEX, lambda: _index(documents, indexer)),
        ("index", REINDEX, lambda: _vectors(documents, chunks, indexer)),
        ("files", RESTORE, lambda: _files(documents, files)),
    )
    for number, (part, hint, step) in enumerate(steps, 1):
        began = time.monotonic()
        try:
            yield from step()
        except UNREADABLE as error:  # what is wrong is the answer, not the end
            yield Finding(part, f"A check of the {part} ended early: {error}", hint)
        log.info("verify: step %d of %d (%s) took %.1f s", number, len(steps), part, time.monotonic() - began)


def check_database(path: Path, stop: Stop | None = None) -> Iterator[Finding]:
    """SQLite's integrity check, and each passage against its stored checksum, document by document."""
    with integrity.open_database(path, stop) as connection:
        for problem in integrity.structure_problems(connection):
            yield Finding("store", f"The database is damaged: {problem}", RESTORE)
        try:
            identities = integrity.document_ids(connection)
        except sqlite3.Error as error:
            yield Finding("store", f"The list of documents cannot be read: {error}", RESTORE)
            return
        for identity in identities if integrity.has_checksums(connection) else ():
            damage = _damage(connection, identity)
            if damage is not None:
                named = integrity.document_name(connection, identity)
                title = "(its title cannot be read)" if named is None else f"'{named}'"
                yield Finding("store", f"Document {identity} {title}: {damage}", ADD_AGAIN, identity)


def require_whole(path: Path, files: Path, what: str, *, hint: str = DAMAGED_HINT, stop: Stop | None = None) -> None:
    """Raise DatabaseFailed, with titles, unless a database and the originals that it names pass every check."""
    found = [*check_database(path, stop), *_check_originals(path, files)]
    if not found:
        return
    told = "; ".join(finding.message for finding in found[:MAX_NAMED])
    more = f"; and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    messages: list[JsonValue] = [finding.message for finding in found[:MAX_NAMED]]
    raise DatabaseFailed(f"{what}: {told}{more}", hint=hint, findings=messages)


def _damage(connection: sqlite3.Connection, document_id: int) -> str | None:
    """What is wrong with the passages of a document, if anything is."""
    try:
        altered, total = integrity.altered_passages(connection, document_id)
    except (sqlite3.Error, ValueError) as error:
        return f"its passages cannot be read: {error}"
    return f"{altered} of its {total} passages are not what was stored" if altered else None


def _check_originals(database: Path, files: Path) -> Iterator[Finding]:
    """Each original that a document of this database names, by its bytes."""
    with integrity.open_database(database) as connection:
        try:
            named = integrity.originals(connection)
        except sqlite3.Error:  # told by the check of the database
            return
        for sha256, (size, identity) in named.items():
            wrong = _wrong_file(original_path(files, sha256), sha256, size)
            if wrong is not None:
                title = integrity.document_name(connection, identity)
                yield Finding("files", f"The original of document {identity} '{title}' {wrong}", RESTORE_FILE, identity)


def _follow(indexer: Indexer) -> Iterator[Finding]:
    try:
        indexer.catch_up()
    except UNREADABLE as error:
        yield Finding("index", f"The index is behind its log: {error}", REINDEX)


def _counts(documents: DocumentStore, chunks: ChunkStore) -> Iterator[Finding]:
    real = chunks.counts()
    for identity, said in documents.chunk_counts().items():
        if real.get(identity, 0) != said:
            message = f"Document {identity} should have {said} passages and has {real.get(identity, 0)}"
            yield Finding("store", message, ADD_AGAIN, identity)


def _index(documents: DocumentStore, indexer: Indexer) -> Iterator[Finding]:
    truth, held = documents.chunk_counts(), indexer.index.document_chunks()
    for identity in sorted(truth.keys() | held.keys()):
        said, found = truth.get(identity, 0), held.get(identity, 0)
        if said != found:
            yield Finding(
                "index", f"The index holds {found} passages of document {identity} instead of {said}", REINDEX
            )
    for name in indexer.index.damage():
        yield Finding("index", f"The file {name} of the index has other bytes than were written", REINDEX)


def _vectors(documents: DocumentStore, chunks: ChunkStore, indexer: Indexer) -> Iterator[Finding]:
    """Each stored vector is the one that the index compares with."""
    identities = sorted(documents.chunk_counts())
    for first in range(0, len(identities), BATCH):
        wrong = _otherwise(identities[first : first + BATCH], chunks, indexer)
        if wrong:
            indexer.catch_up()  # they may have changed while we looked
        for identity in _otherwise(wrong, chunks, indexer):
            yield Finding("index", f"The index holds other vectors of document {identity} than the store", REINDEX)


def _otherwise(identities: Sequence[int], chunks: ChunkStore, indexer: Indexer) -> list[int]:
    """The documents whose vectors in the index are not those of the store."""
    index, model = indexer.serving.index.still(), indexer.serving.model
    if model is None or not identities:
        return []
    return sorted({row.document_id for row in chunks.indexable(identities, model.id) if _differs(row, index)})


def _differs(row: Indexable, index: Index) -> bool:
    if row.vector is None:
        return False
    vector = np.frombuffer(row.vector, np.float16).astype(np.float32)
    place = index.places(np.asarray([row.chunk_id]))
    if place[0] < 0:
        return True
    cosine = float(index.cosines(vector, place)[0])
    return not math.isclose(cosine, float(vector @ vector), abs_tol=CLOSE)


def _files(documents: DocumentStore, files: FileStore) -> Iterator[Finding]:
    for sha256, size in documents.originals().items():
        wrong = _wrong_file(files.path(sha256), sha256, size)
        if wrong is not None and documents.with_file(sha256):  # it may have been removed meanwhile
            yield Finding("files", f"The original {_named(documents, sha256)} {wrong}", RESTORE_FILE)
    stray = [path for path in files.all() if not documents.names(path.name)]
    for path in _after_a_moment(stray):
        yield Finding("files", f"No document names the file {path.name}", REMOVE_STRAY)


def _wrong_file(path: Path, sha256: str, size: int) -> str | None:
    """What is wrong with an original, if anything is."""
    try:
        found = path.stat().st_size
        if found != size:
            return f"has {found} bytes instead of {size}"
        return "has other bytes than it came with" if digest(path) != sha256 else None
    except FileNotFoundError:
        return "is missing"


def _named(documents: DocumentStore, sha256: str) -> str:
    """A file by its name on disk, and by the documents that need it."""
    owners = (
        f"document {document.id} '{document.title}'{f' ({document.filename})' if document.filename else ''}"
        for document in documents.with_file(sha256)
    )
    return f"{sha256} ({'; '.join(owners)})"


def _after_a_moment(stray: list[Path]) -> list[Path]:
    """What a job that has just ended is still letting go is not stray."""
    for _ in range(LOOKS):
        stray = [path for path in stray if path.exists()]
        if not stray:
            break
        time.sleep(GLANCE)
    return stray
