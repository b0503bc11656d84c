"""Real parts made small, for tests: an embedder without weights, and an engine on a folder of its own."""

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
    """Texts with the same words point the same way; no weights, the same everywhere."""

    dimension = BAG_OF_WORDS_DIMENSION
    languages: frozenset[str] | None = None

    def __init__(self, salt: str = "") -> None:
        """Another salt makes another model: its vectors have nothing to do with those of this one."""
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
    """A model that is there from the start."""

    def __init__(self, embedder: Embedder, folder: Path, spec: str = DEFAULT_MODEL) -> None:
        super().__init__(ModelChoice(spec=spec, cache_folder=folder))
        self.embedder = embedder

    @property
    def loader(self) -> str | None:
        return "knowledge.testing:load_bag_of_words" if type(self.embedder) is BagOfWordsEmbedder else None

    def start(self) -> None:
        self._settled.set()


def load_bag_of_words(choice: ModelChoice) -> Embedder:
    """What `small_engine` gives a folder of this choice, in another process."""
    return BagOfWordsEmbedder("" if choice.spec == DEFAULT_MODEL else choice.spec)


class SharedParsers(Parsers):
    """Parsers that outlive the engine that borrows them."""

    def close(self) -> None:
        """Whoever made them ends them, by `close_for_good`."""

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
    """The embedded engine with all its parts, but for a model without weights; not yet started."""

    def small_model(spec: str) -> ModelLoader:
        if spec == DEFAULT_MODEL:
            return model or PreloadedModel(embedder or BagOfWordsEmbedder(), settings.data)
        return PreloadedModel(BagOfWordsEmbedder(spec), settings.data, spec)

    options = app.build_options(settings) if crawl is None else replace(app.build_options(settings), crawl=crawl)
    return LocalEngine(
        Runtime(options, parsers or app.build_parsers(settings), open_model or small_model, app.open_index)
    )
