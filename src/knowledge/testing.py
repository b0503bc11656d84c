"""Test helpers: an embedder without weights and a local engine that uses it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from knowledge import app
from knowledge.config import Settings
from knowledge.embed.embedder import Embedder, Vectors
from knowledge.embed.loading import ModelChoice, ModelLoader
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.indexing.models import DEFAULT_MODEL, OpenModel
from knowledge.engine.local import LocalEngine
from knowledge.engine.runtime import Runtime
from knowledge.extract.process.parsers import Parsers
from knowledge.text import analyzer

BAG_OF_WORDS_DIMENSION = 64


class BagOfWordsEmbedder:
    """A deterministic embedder: hashes terms into 64 dimensions, so texts with the same words are similar."""

    dimension = BAG_OF_WORDS_DIMENSION
    languages: frozenset[str] | None = None

    def __init__(self, salt: str = "") -> None:
        """A different salt makes a different model with unrelated vectors."""
        self._salt = salt
        self.name, self.fingerprint = salt or "bag-of-words", f"bag-of-words/1{salt}"

    def embed(self, passages: Sequence[str]) -> Vectors:
        return (
            np.stack([self._embed_text(text) for text in passages])
            if passages
            else np.empty((0, BAG_OF_WORDS_DIMENSION), np.float32)
        )

    def embed_question(self, question: str) -> Vectors:
        return self._embed_text(question)[None]

    def _embed_text(self, text: str) -> Vectors:
        vector = np.full(BAG_OF_WORDS_DIMENSION, 0.01, np.float32)
        for term in analyzer.extract_terms(text, None):
            vector[zlib.crc32((self._salt + term).encode()) % BAG_OF_WORDS_DIMENSION] += 1.0
        unit: Vectors = vector / np.linalg.norm(vector)
        return unit


class PreloadedModel(ModelLoader):
    """A model loader whose embedder is already loaded."""

    def __init__(self, embedder: Embedder, folder: Path, spec: str = DEFAULT_MODEL) -> None:
        super().__init__(ModelChoice(spec=spec, cache_folder=folder))
        self.embedder = embedder

    @property
    def loader(self) -> str | None:
        return "knowledge.testing:load_bag_of_words" if type(self.embedder) is BagOfWordsEmbedder else None

    def start(self) -> None:
        self._settled.set()


def load_bag_of_words(choice: ModelChoice) -> Embedder:
    """Return the embedder that `make_test_engine` uses for this choice; child processes load it by this name."""
    return BagOfWordsEmbedder("" if choice.spec == DEFAULT_MODEL else choice.spec)


class SharedParsers(Parsers):
    """Parsers that several engines share: an engine's `close` leaves them open."""

    def close(self) -> None:
        """Do nothing; the owner calls `shut_down`."""

    def shut_down(self) -> None:
        super().close()


def make_test_engine(
    settings: Settings,
    *,
    parsers: Parsers | None = None,
    embedder: Embedder | None = None,
    model: ModelLoader | None = None,
    crawl: CrawlOptions | None = None,
    open_model: OpenModel | None = None,
) -> LocalEngine:
    """Build a local engine with real parts and a model without weights, without starting it."""

    def open_small_model(spec: str) -> ModelLoader:
        if spec == DEFAULT_MODEL:
            return model or PreloadedModel(embedder or BagOfWordsEmbedder(), settings.data)
        return PreloadedModel(BagOfWordsEmbedder(spec), settings.data, spec)

    options = app.build_options(settings) if crawl is None else replace(app.build_options(settings), crawl=crawl)
    return LocalEngine(
        Runtime(options, parsers or app.build_parsers(settings), open_model or open_small_model, app.open_index)
    )
