"""Backfill: embeds chunks that have no vector of the current or the next model."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import numpy as np

from knowledge import failpoints
from knowledge.embed.embedder import Embedder, reads_language
from knowledge.embed.loading import ModelLoader
from knowledge.engine.cluster.model_change import ModelChange
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.indexing.models import EmbeddingModels
from knowledge.errors import KnowledgeError
from knowledge.split import build_embedding_text
from knowledge.store.chunks import LAST_CHUNK_ID, ChunkStore, UnembeddedChunk
from knowledge.store.models import ModelStore, StoredModel

log = logging.getLogger(__name__)

CHUNKS_PER_BATCH = 64
MODEL_POLL_SECONDS = 0.05
RETRY_SECONDS = 30.0
"""Pause after a failure, for example of an embedding service."""
OTHER_SERVERS_SECONDS = 0.5
"""Pause while other servers embed or build their indexes."""
FIRST_MODEL_SECONDS = 10.0
"""Longest time for which jobs wait for the first model to come into the index; old chunks are embedded before it."""


class VectorBackfill:
    """A thread that waits for the models, embeds chunks without a vector, and swaps the index to a new model."""

    def __init__(
        self,
        models: EmbeddingModels,
        store: ModelStore,
        chunks: ChunkStore,
        indexer: IndexFollower,
        change: ModelChange | None = None,
    ) -> None:
        """`change` is set if other servers use the database."""
        self._models, self._store, self._chunks, self._indexer = models, store, chunks, indexer
        self._change = change
        self._first_loaded_at: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="vectors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def follow(self) -> None:
        """Go on if a model was chosen or activated on another server."""
        if self._change is not None and self._change.has_changed():
            self._models.vectors_missing.set()

    def is_first_model_pending(self) -> bool:
        """Return whether the first model is loaded and embeds new documents, but the index has no vectors yet."""
        if self._indexer.model is not None or self._models.serving.embedder is None:
            return False
        if self._first_loaded_at is None:
            self._first_loaded_at = time.monotonic()
        return time.monotonic() < self._first_loaded_at + FIRST_MODEL_SECONDS

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
        if self._change is not None:
            self._models.follow_spec()
        following = self._models.next
        model = following or self._models.serving
        if model.choice.kind == "none":
            return None
        embedder = model.embedder
        if embedder is None:  # still loading, or a service that is down and may come back
            return MODEL_POLL_SECONDS
        stored = self._store.register(embedder.fingerprint, embedder.name, embedder.dimension)
        pause = self._embed_all(embedder, stored, lambda: self._models.next is not following)
        if pause is not None:
            return pause
        if following is not None or self._indexer.model != stored:
            if self._change is not None:
                return self._activate_together(self._change, model, stored)
            self._activate_model(model, stored)
            return 0.0  # chunks added meanwhile have no vector of this model yet
        self._store.set_spec(model.choice.spec)
        return None

    def _embed_all(self, embedder: Embedder, stored: StoredModel, superseded: Callable[[], bool]) -> float | None:
        """Embed what has no vector, with the other servers; return the pause if that is not done."""
        change = self._change
        if change is None:
            return None if self._embed_missing(embedder, stored, superseded) else 0.0
        if not change.role.has_workers:
            return OTHER_SERVERS_SECONDS if self._misses_vectors(embedder, stored) else None
        # First an own share from its start, then from the end what slower servers have left.
        for share in (change.find_share(), None):
            if not self._embed_missing(embedder, stored, superseded, share=share, backwards=share is None):
                return 0.0
        return None

    def _misses_vectors(self, embedder: Embedder, stored: StoredModel) -> bool:
        after = 0
        while batch := self._chunks.list_without_vector(stored.id, after, CHUNKS_PER_BATCH):
            if any(reads_language(embedder, chunk.language) for chunk in batch):
                return True
            after = batch[-1].chunk_id
        return False

    def _activate_together(self, change: ModelChange, model: ModelLoader, stored: StoredModel) -> float | None:
        """Build the index with the vectors of this model, and use it when all servers have theirs; return the pause."""
        if change.role.has_index and self._indexer.model != stored:
            self._indexer.build_ahead(stored)
        if not change.is_active(stored) and not change.activate(stored, model.choice.spec):
            return OTHER_SERVERS_SECONDS
        self._indexer.use_built()
        failpoints.trigger("vectors.swapped")
        if model is self._models.next:
            self._models.swap_models()
            log.info("switched to the embedding model %s", model.name)
        return 0.0 if change.role.has_index else None

    def _activate_model(self, model: ModelLoader, stored: StoredModel) -> None:
        """Rebuild the index with the vectors of this model, and make it the serving model."""
        # The index is swapped first: a search uses the model of the index, so a crash in between is harmless.
        self._indexer.rebuild(stored)
        failpoints.trigger("vectors.swapped")
        self._store.activate(stored, model.choice.spec)
        if model is self._models.next:
            self._models.swap_models()
            log.info("switched to the embedding model %s", model.name)

    def _embed_missing(
        self,
        embedder: Embedder,
        stored: StoredModel,
        superseded: Callable[[], bool],
        *,
        share: tuple[int, int] | None = None,
        backwards: bool = False,
    ) -> bool:
        """Embed all chunks without a vector of this model, or a share, except in languages that it does not support."""
        after = LAST_CHUNK_ID if backwards else 0
        if self._models.next is not None:
            self._models.chunks_left = self._chunks.count_without_vector(stored.id)
        while batch := self._chunks.list_without_vector(
            stored.id, after, CHUNKS_PER_BATCH, share=share, backwards=backwards
        ):
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
        searched = self._indexer.model == stored if self._change is None else self._change.is_active(stored)
        self._chunks.add_vectors(stored.id, pairs, {chunk.document_id for chunk in wanted} if searched else ())
        if searched:
            self._indexer.wake()
