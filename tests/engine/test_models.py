"""Switching the embedding model: its vectors are backfilled while the old ones serve, and then swapped in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from safetensors.numpy import save_file

from knowledge import app
from knowledge.config import Settings
from knowledge.embed.embedder import Vectors
from knowledge.embed.loading import ModelLoader
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.errors import EmbeddingFailed, InvalidParameter, ModelUnavailable
from knowledge.model import Document, Query, SearchMode
from knowledge.surfaces.rest import make_rest_app
from knowledge.testing import BagOfWordsEmbedder, PreloadedModel, SharedParsers, make_test_engine
from tests.support import tiny_model
from tests.support.engines import WAIT_SECONDS, add_note


class GatedEmbedder(BagOfWordsEmbedder):
    """A model that embeds no passage until the test opens the gate."""

    def __init__(self, salt: str) -> None:
        super().__init__(salt)
        self.gate, self.asked = threading.Event(), threading.Event()
        self.made, self.broken = 0, False

    def embed(self, passages: Sequence[str]) -> Vectors:
        self.asked.set()
        assert self.gate.wait(WAIT_SECONDS)
        if self.broken:
            raise EmbeddingFailed("The service went away")
        self.made += len(passages)
        return super().embed(passages)


class ModelEngines:
    """Opens engines that share a data folder and a set of gated models."""

    def __init__(self, settings: Settings, parsers: SharedParsers) -> None:
        self._settings, self._parsers = settings, parsers
        self.models = {"default": GatedEmbedder(""), "next": GatedEmbedder("next"), "third": GatedEmbedder("third")}
        self.models["default"].gate.set()
        self._opened: list[LocalEngine] = []

    def start(self) -> LocalEngine:
        engine = make_test_engine(self._settings, parsers=self._parsers, open_model=self._open)
        engine.start()
        self._opened.append(engine)
        return engine

    def stop(self) -> None:
        for model in self.models.values():
            model.gate.set()
        while self._opened:
            self._opened.pop().close()

    def _open(self, spec: str) -> ModelLoader:
        return PreloadedModel(self.models[spec], self._settings.data, spec)


@pytest.fixture
def engines(settings: Settings, parsers: SharedParsers) -> Iterator[ModelEngines]:
    made = ModelEngines(settings, parsers)
    yield made
    made.stop()


async def wait_for_swap(engine: Engine) -> str:
    """Wait until there is no next model, and return the name of the serving one."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (model := (await engine.status()).model).next is not None or not model.loaded:
            await asyncio.sleep(0.01)
    return model.name


async def search_by_meaning(engine: Engine, text: str) -> tuple[str, int]:
    """Return the model that was used and the first document found."""
    answer = await engine.search(Query(text=text, mode=SearchMode.VECTOR, explain=True))
    assert answer.explanation is not None
    return str(answer.explanation["model"]), answer.hits[0].document.id


async def count_vectors(engine: Engine, *documents: Document) -> list[int | None]:
    return [(await engine.document(document.id)).vector_count for document in documents]


async def test_the_old_vectors_serve_until_the_new_ones_are_complete(engines: ModelEngines) -> None:
    engine, following = engines.start(), engines.models["next"]
    tea = await add_note(engine, "tea in the kitchen")
    await engine.reindex("next")
    assert await asyncio.to_thread(following.asked.wait, WAIT_SECONDS)
    late = await add_note(engine, "coffee at noon")
    status = (await engine.status()).model
    assert status.next is not None and (status.next.name, status.next.left) == ("next", 1)
    assert await search_by_meaning(engine, "tea in the kitchen") == ("bag-of-words", tea.id)
    assert await search_by_meaning(engine, "coffee at noon") == ("bag-of-words", late.id)
    assert await count_vectors(engine, tea, late) == [1, 1], "of the model that serves"
    following.gate.set()
    assert await wait_for_swap(engine) == "next"
    assert await count_vectors(engine, tea, late) == [1, 1]
    assert await search_by_meaning(engine, "tea in the kitchen") == ("next", tea.id)
    assert await search_by_meaning(engine, "coffee at noon") == ("next", late.id)
    assert await engine.verify() == []


async def test_the_data_folder_keeps_its_model_and_nothing_is_embedded_again(engines: ModelEngines) -> None:
    engine, following = engines.start(), engines.models["next"]
    tea = await add_note(engine, "tea in the kitchen")
    following.gate.set()
    await engine.reindex("next")
    await wait_for_swap(engine)
    made = following.made
    engines.stop()
    again = engines.start()
    assert await search_by_meaning(again, "tea in the kitchen") == ("next", tea.id)
    assert following.made == made == 1


async def test_an_interrupted_model_switch_continues_at_the_next_start(engines: ModelEngines) -> None:
    engine, following = engines.start(), engines.models["next"]
    tea = await add_note(engine, "tea in the kitchen")
    await engine.reindex("next")
    assert await asyncio.to_thread(following.asked.wait, WAIT_SECONDS)
    following.broken = True
    engines.stop()
    following.broken = False
    again = engines.start()
    assert await wait_for_swap(again) == "next"
    assert await search_by_meaning(again, "tea in the kitchen") == ("next", tea.id)


async def test_the_last_of_two_model_switches_wins(engines: ModelEngines) -> None:
    engine = engines.start()
    tea = await add_note(engine, "tea in the kitchen")
    await engine.reindex("next")
    assert await asyncio.to_thread(engines.models["next"].asked.wait, WAIT_SECONDS)
    engines.models["third"].gate.set()
    await engine.reindex("third")
    engines.models["next"].gate.set()
    assert await wait_for_swap(engine) == "third"
    assert await search_by_meaning(engine, "tea in the kitchen") == ("third", tea.id)


async def test_a_document_ingested_during_the_swap_gets_vectors_of_the_new_model(engines: ModelEngines) -> None:
    engine, old, following = engines.start(), engines.models["default"], engines.models["next"]
    await add_note(engine, "tea in the kitchen")
    following.gate.set()
    old.gate.clear()
    old.asked.clear()
    adding = asyncio.create_task(add_note(engine, "coffee at noon"))
    assert await asyncio.to_thread(old.asked.wait, WAIT_SECONDS)
    await engine.reindex("next")
    await wait_for_swap(engine)
    old.gate.set()
    late = await adding
    async with asyncio.timeout(WAIT_SECONDS):
        while (await search_by_meaning(engine, "coffee at noon"))[1] != late.id:
            await asyncio.sleep(0.01)
    assert await count_vectors(engine, late) == [1] and (await engine.status()).chunks_without_vectors == 0
    assert await engine.verify() == []


async def test_a_setting_does_not_change_the_model_of_a_used_data_folder(
    engines: ModelEngines, settings: Settings
) -> None:
    engine = engines.start()
    await add_note(engine, "tea in the kitchen")
    await wait_for_swap(engine)
    engines.stop()
    engines._settings = settings.model_copy(update={"embedding": "next"})
    again = engines.start()
    assert (await search_by_meaning(again, "tea"))[0] == "bag-of-words"
    (issue,) = (await again.status()).issues
    assert "knowledge reindex --model next" in issue


def write_model(folder: Path, seed: int) -> str:
    save_file(tiny_model.make_weights(seed), tiny_model.write_model_folder(folder) / "model.safetensors")
    return f"dir:{folder}"


async def test_models_from_folders_are_switched_over_rest(tmp_path: Path, settings: Settings) -> None:
    one, two = write_model(tmp_path / "one", 7), write_model(tmp_path / "two", 8)
    engine = app.open_engine(Settings(data=settings.data, workers=1, embedding=one))
    engine.start()
    try:
        tea = await add_note(engine, "tea kitchen")
        transport = httpx.ASGITransport(app=make_rest_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            far = RemoteEngine(http)
            assert await wait_for_swap(far) == "one"
            with pytest.raises(ModelUnavailable):
                await far.reindex(f"dir:{tmp_path / 'nowhere'}")
            with pytest.raises(InvalidParameter):
                await far.reindex("none")
            await far.reindex(two)
            assert await wait_for_swap(far) == "two"
            assert await search_by_meaning(far, "tea kitchen") == ("two", tea.id)
    finally:
        await asyncio.to_thread(engine.close)
