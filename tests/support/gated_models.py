"""Engines whose models wait at a gate, so that a test decides when documents are embedded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from knowledge.config import Settings
from knowledge.embed.embedder import Vectors
from knowledge.embed.loading import ModelLoader
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import EmbeddingFailed, JobCrashed
from knowledge.model import Document, Query, SearchMode
from knowledge.testing import BagOfWordsEmbedder, PreloadedModel, SharedParsers, make_test_engine
from tests.support.engines import WAIT_SECONDS


class Gate:
    """Lets batches pass while it is open, or a number of them while it is closed."""

    def __init__(self) -> None:
        self._changed, self._open, self._permits = threading.Condition(), False, 0

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._open = False

    def let_pass(self, batches: int) -> None:
        with self._changed:
            self._permits += batches
            self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._open or self._permits > 0, WAIT_SECONDS)
            self._permits -= not self._open


class GatedEmbedder(BagOfWordsEmbedder):
    """A model that embeds only the batches that its gate lets pass, and records their order."""

    def __init__(self, salt: str = "") -> None:
        super().__init__(salt)
        self.gate, self.asked = Gate(), threading.Event()
        self.broken = self.crashes = False
        self.embedded: list[str] = []

    def embed(self, passages: Sequence[str]) -> Vectors:
        self.asked.set()
        self.gate.wait()
        if self.broken:
            raise EmbeddingFailed("The service went away")
        if self.crashes:
            raise JobCrashed("The process that embedded has died")
        self.embedded += passages
        return super().embed(passages)


class Engines:
    """Opens engines on one data folder whose models are gated."""

    def __init__(self, settings: Settings, parsers: SharedParsers) -> None:
        self.settings, self._parsers = settings, parsers
        self.models = {"default": GatedEmbedder(), "next": GatedEmbedder("next")}
        self.model = self.models["default"]
        self._opened: list[LocalEngine] = []

    def open(self, *, start: bool = True) -> LocalEngine:
        """Open an engine; one that is not started accepts documents and runs no job."""
        engine = make_test_engine(self.settings, parsers=self._parsers, open_model=self._open_model)
        if start:
            engine.start()
        self._opened.append(engine)
        return engine

    @property
    def opened(self) -> LocalEngine:
        """The engine that was opened last."""
        return self._opened[-1]

    def close(self) -> None:
        for model in self.models.values():
            model.gate.open()
        while self._opened:
            self._opened.pop().close()

    def _open_model(self, spec: str) -> ModelLoader:
        return PreloadedModel(self.models[spec], self.settings.data, spec)


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


async def wait_until_found(engine: Engine, text: str) -> Document:
    """Wait until a search by words finds a passage, and return its document."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (hits := (await engine.search(Query(text=text, mode=SearchMode.TEXT))).hits):
            await asyncio.sleep(0.005)
    return hits[0].document


async def find_texts(engine: Engine, text: str, mode: SearchMode = SearchMode.TEXT) -> list[str]:
    return [hit.text for hit in (await engine.search(Query(text=text, mode=mode))).hits]
