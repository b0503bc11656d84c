"""Backfill: embeds chunks that have no vector of the current or the next model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import numpy as np

from knowledge import failpoints
from knowledge.embed.embedder import Embedder, reads_language
from knowledge.embed.loading import ModelLoader
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.indexing.models import EmbeddingModels
from knowledge.errors import KnowledgeError
from knowledge.split import build_embedding_text
from knowledge.store.chunks import ChunkStore, UnembeddedChunk
from knowledge.store.models import ModelStore, StoredModel

log = logging.getLogger(__name__)

CHUNKS_PER_BATCH = 64
MODEL_POLL_SECONDS = 0.05
RETRY_SECONDS = 30.0
"""Pause after a failure, for example of an embedding service."""


class VectorBackfill:
    """A thread that waits for the models, embeds chunks without a vector, and swaps the index to a new model."""

    def __init__(self, models: EmbeddingModels, store: ModelStore, chunks: ChunkStore, indexer: IndexFollower) -> None:
        self._models, self._store, self._chunks, self._indexer = models, store, chunks, indexer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="vectors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._models.vectors_missing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run_loop(self) -> None:
        while not self._stopping.is_set():
            self._models.vectors_missing.clear()
            try:
                pause = self._run_step()
            except KnowledgeError:
                log.exception("embedding chunks in the background failed; retrying in %.0f s", RETRY_SECONDS)
                pause = RETRY_SECONDS
            self._models.vectors_missing.wait(pause)

    def _run_step(self) -> float | None:
        """Do the next step; return the pause before the next one, None if nothing is left."""
        following = self._models.next
        model = following or self._models.serving
        if model.choice.kind == "none":
            return None
        embedder = model.embedder
        if embedder is None:  # still loading, or a service that is down and may come back
            return MODEL_POLL_SECONDS
        stored = self._store.register(embedder.fingerprint, embedder.name, embedder.dimension)
        if not self._embed_missing(embedder, stored, lambda: self._models.next is not following):
            return 0.0
        if following is not None or self._indexer.model != stored:
            self._activate_model(model, stored)
            return 0.0  # chunks added meanwhile have no vector of this model yet
        self._store.set_spec(model.choice.spec)
        return None

    def _activate_model(self, model: ModelLoader, stored: StoredModel) -> None:
        """Rebuild the index with the vectors of this model, and make it the serving model."""
        # The index is swapped first: a search uses the model of the index, so a crash in between is harmless.
        self._indexer.rebuild(stored)
        failpoints.trigger("vectors.swapped")
        self._store.activate(stored, model.choice.spec)
        if model is self._models.next:
            self._models.swap_models()
            log.info("switched to the embedding model %s", model.name)

    def _embed_missing(self, embedder: Embedder, stored: StoredModel, superseded: Callable[[], bool]) -> bool:
        """Embed all chunks without a vector of this model, except in languages that it does not support."""
        after = 0
        if self._models.next is not None:
            self._models.chunks_left = self._chunks.count_without_vector(stored.id)
        while batch := self._chunks.list_without_vector(stored.id, after, CHUNKS_PER_BATCH):
            if self._stopping.is_set() or superseded():
                return False
            after = batch[-1].chunk_id
            self._embed_batch(embedder, stored, [chunk for chunk in batch if reads_language(embedder, chunk.language)])
            failpoints.trigger("vectors.made")
            self._models.chunks_left = (
                max(0, self._models.chunks_left - len(batch)) if self._models.chunks_left else None
            )
        return True

    def _embed_batch(self, embedder: Embedder, stored: StoredModel, wanted: list[UnembeddedChunk]) -> None:
        if not wanted:
            return
        texts = [build_embedding_text(chunk.title, chunk.section, chunk.text) for chunk in wanted]
        rows = embedder.embed(texts).astype(np.float16)
        pairs = [(chunk.chunk_id, row.tobytes()) for chunk, row in zip(wanted, rows, strict=True)]
        searched = self._indexer.model == stored
        self._chunks.add_vectors(stored.id, pairs, {chunk.document_id for chunk in wanted} if searched else ())
        if searched:
            self._indexer.wake()
