"""Embeds and stages the chunks of a document in batches, so that memory use does not grow with its size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from knowledge import failpoints
from knowledge.embed.embedder import PassageEmbedder
from knowledge.split import SplitPassage, build_embedding_text
from knowledge.store.chunks import ChunkStore, EmbeddedChunk, StagedChunk, UnembeddedChunk
from knowledge.store.pages.words import StagedWords
from knowledge.telemetry import metrics

CHUNKS_PER_BATCH = 64

BetweenBatches = Callable[[], None]
"""Called between two batches; raises to cancel the job."""


@dataclass(frozen=True, slots=True)
class VectorModel:
    """An embedder with the id of its model in the store."""

    embedder: PassageEmbedder
    model_id: int


@dataclass(slots=True)
class StagedDocument:
    """The chunks of one document: all batches but the last are staged in the store."""

    begin_content: Callable[[], int]
    title: str
    chunks: ChunkStore
    vector_model: VectorModel | None
    between_batches: BetweenBatches
    content_id: int | None = None
    count: int = 0
    last_batch: list[StagedChunk] = field(default_factory=list)
    words: list[StagedWords] = field(default_factory=list)
    """Words of pages that are not staged yet."""
    _waiting: list[SplitPassage] = field(default_factory=list)

    @property
    def model_id(self) -> int | None:
        return self.vector_model.model_id if self.vector_model else None

    def add_pieces(self, pieces: Iterable[SplitPassage]) -> None:
        for piece in pieces:
            self._waiting.append(piece)
            if len(self._waiting) >= CHUNKS_PER_BATCH:
                self._embed_waiting()

    def finish(self) -> None:
        self._embed_waiting()

    def abandon(self) -> None:
        if self.content_id is not None:
            self.chunks.drop_content(self.content_id)

    def _embed_waiting(self) -> None:
        if not self._waiting:
            return
        self.between_batches()
        self._stage_last_batch()
        self.last_batch = embed_pieces(self._waiting, self.title, self.vector_model, self.chunks)
        self.count += len(self.last_batch)
        self._waiting = []

    def _stage_last_batch(self) -> None:
        """Stage the previous batch, which is now known not to be the last."""
        if not self.last_batch:
            return
        if self.content_id is None:
            self.content_id = self.begin_content()
        first = self.count - len(self.last_batch)
        self.chunks.stage_chunks(self.content_id, first, self.last_batch, self.model_id, self.words)
        self.last_batch, self.words = [], []
        failpoints.trigger("ingest.staged")


def embed_pieces(
    pieces: Sequence[SplitPassage], title: str, vector_model: VectorModel | None, chunks: ChunkStore
) -> list[StagedChunk]:
    texts = [build_embedding_text(title, piece.section, piece.text) for piece in pieces]
    digests = [digest_text(text) for text in texts]
    vectors = get_vectors(texts, digests, vector_model, chunks)
    return [
        StagedChunk(piece.text, piece.page, piece.section, key, vectors.get(key), piece.lines)
        for piece, key in zip(pieces, digests, strict=True)
    ]


def embed_stored(
    stored: Sequence[UnembeddedChunk], title: str, vector_model: VectorModel, chunks: ChunkStore
) -> list[EmbeddedChunk]:
    texts = [build_embedding_text(title, chunk.section, chunk.text) for chunk in stored]
    digests = [digest_text(text) for text in texts]
    vectors = get_vectors(texts, digests, vector_model, chunks)
    return [EmbeddedChunk(chunk.chunk_id, key, vectors[key]) for chunk, key in zip(stored, digests, strict=True)]


def digest_text(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def get_vectors(
    texts: Sequence[str], digests: Sequence[bytes], vector_model: VectorModel | None, chunks: ChunkStore
) -> dict[bytes, bytes]:
    """Return the float16 vector of each text by digest; vectors that the store has are reused."""
    if vector_model is None:
        return {}
    known = chunks.find_known_vectors(vector_model.model_id, list(set(digests)))
    missing = {key: text for key, text in zip(digests, texts, strict=True) if key not in known}
    metrics.CACHE_HITS["vectors"].inc(len(known))
    metrics.CACHE_MISSES["vectors"].inc(len(missing))
    if missing:
        with metrics.INGEST_STAGE_SECONDS["embed"].time():
            made = vector_model.embedder.embed(list(missing.values())).astype(np.float16)
        known.update(zip(missing, (row.tobytes() for row in made), strict=True))
    return known
