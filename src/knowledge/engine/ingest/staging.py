"""From pages to passages with vectors, a batch at a time, so that no document ever stands in memory as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from knowledge import failpoints
from knowledge.embed.base import PassageEmbedder
from knowledge.split import Piece, passage_text
from knowledge.store.chunks import ChunkStore, StagedChunk

BATCH = 64

Step = Callable[[], None]
"""Called between two batches: it may raise to stop the work."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The model that gives the passages their vectors, under the number it has in the store."""

    embedder: PassageEmbedder
    model_id: int

    def reads(self, language: str | None) -> bool:
        languages = self.embedder.languages
        return language is None or languages is None or language in languages


@dataclass(slots=True)
class Preparation:
    """The passages of one document: all but the last batch are staged in the store."""

    job_id: int
    title: str
    chunks: ChunkStore
    reader: Reader | None
    step: Step
    content_id: int | None = None
    count: int = 0
    last: list[StagedChunk] = field(default_factory=list)
    _waiting: list[Piece] = field(default_factory=list)

    @property
    def model_id(self) -> int | None:
        return self.reader.model_id if self.reader else None

    def add(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self._waiting.append(piece)
            if len(self._waiting) >= BATCH:
                self._work()

    def finish(self) -> None:
        self._work()

    def abandon(self) -> None:
        if self.content_id is not None:
            self.chunks.drop(self.content_id)

    def _work(self) -> None:
        if not self._waiting:
            return
        self.step()
        self._put_away()
        self.last = staged(self._waiting, self.title, self.reader, self.chunks)
        self.count += len(self.last)
        self._waiting = []

    def _put_away(self) -> None:
        """Stage the batch before this one: now we know that it is not the last."""
        if not self.last:
            return
        if self.content_id is None:
            self.content_id = self.chunks.begin(self.job_id)
        first = self.count - len(self.last)
        self.chunks.stage(self.content_id, first, self.last, self.model_id)
        self.last = []
        failpoints.reached("ingest.staged")


def staged(pieces: Sequence[Piece], title: str, reader: Reader | None, chunks: ChunkStore) -> list[StagedChunk]:
    texts = [passage_text(title, piece.section, piece.text) for piece in pieces]
    digests = [digest(text) for text in texts]
    vectors = vectors_for(texts, digests, reader, chunks)
    return [
        StagedChunk(piece.text, piece.page, piece.section, key, vectors.get(key))
        for piece, key in zip(pieces, digests, strict=True)
    ]


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def vectors_for(
    texts: Sequence[str], digests: Sequence[bytes], reader: Reader | None, chunks: ChunkStore
) -> dict[bytes, bytes]:
    """The vector of each text, in half precision; one that was made before is taken from the store."""
    if reader is None:
        return {}
    known = chunks.known_vectors(reader.model_id, list(set(digests)))
    missing = {key: text for key, text in zip(digests, texts, strict=True) if key not in known}
    if missing:
        made = reader.embedder.embed(list(missing.values())).astype(np.float16)
        known.update(zip(missing, (row.tobytes() for row in made), strict=True))
    return known
