"""Sees to it that every passage has a vector of the model that is loaded, also after a change of models."""

from __future__ import annotations

import logging
import threading

import numpy as np

from knowledge.embed.base import Embedder
from knowledge.embed.loading import Model
from knowledge.engine.indexing import Indexer
from knowledge.errors import KnowledgeError
from knowledge.split import passage_text
from knowledge.store.chunks import ChunkStore, Unembedded
from knowledge.store.documents import DocumentStore
from knowledge.store.models import ModelStore, StoredModel

log = logging.getLogger(__name__)

BATCH = 64
GLANCE = 0.05


class VectorKeeper:
    """One thread: it waits for the model, makes what vectors are missing, and swaps the index when models changed."""

    def __init__(
        self, model: Model, models: ModelStore, chunks: ChunkStore, documents: DocumentStore, indexer: Indexer
    ) -> None:
        self._model, self._models, self._chunks = model, models, chunks
        self._documents, self._indexer = documents, indexer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="vectors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        embedder = self._loaded()
        if embedder is None:
            return
        try:
            stored = self._models.register(embedder.fingerprint, embedder.name, embedder.dimension)
            self._fill(embedder, stored)
            if not self._stopping.is_set() and self._indexer.model != stored:
                self._indexer.rebuild(stored)
                self._models.activate(stored)
        except KnowledgeError:
            log.exception("Not every passage could be given a vector")

    def _loaded(self) -> Embedder | None:
        """The model when it is there; one that failed may still come, as a service does that was down."""
        while self._model.choice.kind != "none" and not self._stopping.wait(GLANCE):
            embedder = self._model.ready()
            if embedder is not None:
                return embedder
        return None

    def _fill(self, embedder: Embedder, stored: StoredModel) -> None:
        """Embed what has no vector of this model yet; documents in a language it does not read stay without."""
        touched: set[int] = set()
        after = 0
        while not self._stopping.is_set() and (batch := self._chunks.without_vector(stored.id, after, BATCH)):
            after = batch[-1].chunk_id
            wanted = [chunk for chunk in batch if reads(embedder, chunk)]
            self._embed(embedder, stored, wanted)
            touched.update(chunk.document_id for chunk in wanted)
        if touched and self._indexer.model == stored:
            self._documents.touch(sorted(touched))
            self._indexer.wake()

    def _embed(self, embedder: Embedder, stored: StoredModel, wanted: list[Unembedded]) -> None:
        if not wanted:
            return
        texts = [passage_text(chunk.title, chunk.section, chunk.text) for chunk in wanted]
        rows = embedder.embed(texts).astype(np.float16)
        pairs = [(chunk.chunk_id, row.tobytes()) for chunk, row in zip(wanted, rows, strict=True)]
        self._chunks.add_vectors(stored.id, pairs)


def reads(embedder: Embedder, chunk: Unembedded) -> bool:
    return chunk.language is None or embedder.languages is None or chunk.language in embedder.languages
