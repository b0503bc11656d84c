"""The proof that nothing is lost: truth against itself, against the index and against the files."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from knowledge.engine.indexing import Indexer
from knowledge.index.api import Index
from knowledge.model import Finding
from knowledge.store.chunks import ChunkStore, Indexable
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore, digest

LOOKS, GLANCE = 40, 0.05
BATCH = 200
CLOSE = 0.01
"""Half precision on both sides, and a little room."""


def verify(documents: DocumentStore, chunks: ChunkStore, files: FileStore, indexer: Indexer) -> Iterator[Finding]:
    try:
        indexer.catch_up()
    except (OSError, ValueError, RuntimeError) as error:  # what is wrong is our answer, not our end
        yield Finding("index", f"The index is behind its log: {error}")
    yield from _store(documents, chunks)
    yield from _index(documents, indexer)
    yield from _vectors(documents, chunks, indexer)
    yield from _files(documents, files)


def _store(documents: DocumentStore, chunks: ChunkStore) -> Iterator[Finding]:
    real = chunks.counts()
    for identity, said in documents.chunk_counts().items():
        if real.get(identity, 0) != said:
            yield Finding("store", f"Document {identity} should have {said} passages and has {real.get(identity, 0)}")


def _index(documents: DocumentStore, indexer: Indexer) -> Iterator[Finding]:
    truth, held = documents.chunk_counts(), indexer.index.document_chunks()
    for identity in sorted(truth.keys() | held.keys()):
        said, found = truth.get(identity, 0), held.get(identity, 0)
        if said != found:
            yield Finding("index", f"The index holds {found} passages of document {identity} instead of {said}")
    for name in indexer.index.damage():
        yield Finding("index", f"The file {name} of the index has other bytes than were written")


def _vectors(documents: DocumentStore, chunks: ChunkStore, indexer: Indexer) -> Iterator[Finding]:
    """Each stored vector is the one that the index compares with."""
    identities = sorted(documents.chunk_counts())
    for first in range(0, len(identities), BATCH):
        wrong = _otherwise(identities[first : first + BATCH], chunks, indexer)
        if wrong:
            indexer.catch_up()  # they may have changed while we looked
        for identity in _otherwise(wrong, chunks, indexer):
            yield Finding("index", f"The index holds other vectors of document {identity} than the store")


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
        path = files.path(sha256)
        if not path.exists():
            yield Finding("files", f"The original {_named(documents, sha256)} is missing")
        elif path.stat().st_size != size:
            had = f"has {path.stat().st_size} bytes instead of {size}"
            yield Finding("files", f"The original {_named(documents, sha256)} {had}")
        elif digest(path) != sha256:
            yield Finding("files", f"The original {_named(documents, sha256)} has other bytes than it came with")
    stray = [path for path in files.all() if not documents.names(path.name)]
    for path in _after_a_moment(stray):
        yield Finding("files", f"No document names the file {path.name}")


def _named(documents: DocumentStore, sha256: str) -> str:
    """A file by its name on disk, and by the documents that need it."""
    owners = (
        f"document {document.id}, {document.filename or document.title}" for document in documents.with_file(sha256)
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
