"""The proof that nothing is lost: truth against itself, against the index and against the files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from knowledge.engine.indexing import Indexer
from knowledge.model import Finding
from knowledge.store.chunks import ChunkStore
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore, digest

LOOKS, GLANCE = 40, 0.05


def verify(documents: DocumentStore, chunks: ChunkStore, files: FileStore, indexer: Indexer) -> Iterator[Finding]:
    indexer.catch_up()
    yield from _store(documents, chunks)
    yield from _index(documents, indexer)
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


def _files(documents: DocumentStore, files: FileStore) -> Iterator[Finding]:
    for sha256, size in documents.originals().items():
        path = files.path(sha256)
        if not path.exists():
            yield Finding("files", f"The original {sha256} is missing")
        elif path.stat().st_size != size:
            yield Finding("files", f"The original {sha256} has {path.stat().st_size} bytes instead of {size}")
        elif digest(path) != sha256:
            yield Finding("files", f"The original {sha256} has other bytes than it came with")
    stray = [path for path in files.all() if not documents.names(path.name)]
    for path in _after_a_moment(stray):
        yield Finding("files", f"No document names the file {path.name}")


def _after_a_moment(stray: list[Path]) -> list[Path]:
    """What a job that has just ended is still letting go is not stray."""
    for _ in range(LOOKS):
        stray = [path for path in stray if path.exists()]
        if not stray:
            break
        time.sleep(GLANCE)
    return stray
