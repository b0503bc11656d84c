"""Another model: its vectors are made while the old ones serve, and then they are swapped."""

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
from knowledge.model import Query, SearchMode
from knowledge.surfaces.rest import make_rest_app
from knowledge.testing import BagOfWordsEmbedder, PreloadedModel, SharedParsers, make_test_engine
from tests.support import tiny_model
from tests.support.engines import WAIT_SECONDS, add_note


class Gated(BagOfWordsEmbedder):
    """A model that makes no passage's vector until it is let."""

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


class Works:
    """The models that an engine of these tests finds, and the engines themselves."""

    def __init__(self, settings: Settings, parsers: SharedParsers) -> None:
        self._settings, self._parsers = settings, parsers
        self.models = {"default": Gated(""), "next": Gated("next"), "third": Gated("third")}
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
def works(settings: Settings, parsers: SharedParsers) -> Iterator[Works]:
    made = Works(settings, parsers)
    yield made
    made.stop()


async def swapped(engine: Engine) -> str:
    """The name of the model that answers, once no other is to follow."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (model := (await engine.status()).model).next is not None or not model.loaded:
            await asyncio.sleep(0.01)
    return model.name


async def by_meaning(engine: Engine, text: str) -> tuple[str, int]:
    """The model that was asked, and the document that it found first."""
    answer = await engine.search(Query(text=text, mode=SearchMode.VECTOR, explain=True))
    assert answer.explanation is not None
    return str(answer.explanation["model"]), answer.hits[0].document.id


async def test_the_old_vectors_serve_until_the_new_ones_are_all_there(works: Works) -> None:
    engine, following = works.start(), works.models["next"]
    tea = await add_note(engine, "tea in the kitchen")
    await engine.reindex("next")
    assert await asyncio.to_thread(following.asked.wait, WAIT_SECONDS)
    late = await add_note(engine, "coffee at noon")
    status = (await engine.status()).model
    assert status.next is not None and (status.next.name, status.next.left) == ("next", 1)
    assert await by_meaning(engine, "tea in the kitchen") == ("bag-of-words", tea.id)
    assert await by_meaning(engine, "coffee at noon") == ("bag-of-words", late.id)
    following.gate.set()
    assert await swapped(engine) == "next"
    assert await by_meaning(engine, "tea in the kitchen") == ("next", tea.id)
    assert await by_meaning(engine, "coffee at noon") == ("next", late.id)
    assert await engine.verify() == []


async def test_the_data_folder_keeps_its_model_and_nothing_is_embedded_again(works: Works) -> None:
    engine, following = works.start(), works.models["next"]
    tea = await add_note(engine, "tea in the kitchen")
    following.gate.set()
    await engine.reindex("next")
    await swapped(engine)
    made = following.made
    works.stop()
    again = works.start()
    assert await by_meaning(again, "tea in the kitchen") == ("next", tea.id)
    assert following.made == made == 1


async def test_a_change_that_was_interrupted_goes_on_at_the_next_start(works: Works) -> None:
    engine, following = works.start(), works.models["next"]
    tea = await add_note(engine, "tea in the kitchen")
    await engine.reindex("next")
    assert await asyncio.to_thread(following.asked.wait, WAIT_SECONDS)
    following.broken = True
    works.stop()
    following.broken = False
    again = works.start()
    assert await swapped(again) == "next"
    assert await by_meaning(again, "tea in the kitchen") == ("next", tea.id)


async def test_the_last_word_counts_when_minds_change(works: Works) -> None:
    engine = works.start()
    tea = await add_note(engine, "tea in the kitchen")
    await engine.reindex("next")
    assert await asyncio.to_thread(works.models["next"].asked.wait, WAIT_SECONDS)
    works.models["third"].gate.set()
    await engine.reindex("third")
    works.models["next"].gate.set()
    assert await swapped(engine) == "third"
    assert await by_meaning(engine, "tea in the kitchen") == ("third", tea.id)


async def test_a_document_that_was_on_its_way_gets_its_vectors_too(works: Works) -> None:
    engine, old, following = works.start(), works.models["default"], works.models["next"]
    await add_note(engine, "tea in the kitchen")
    following.gate.set()
    old.gate.clear()
    old.asked.clear()
    adding = asyncio.create_task(add_note(engine, "coffee at noon"))
    assert await asyncio.to_thread(old.asked.wait, WAIT_SECONDS)
    await engine.reindex("next")
    await swapped(engine)
    old.gate.set()
    late = await adding
    async with asyncio.timeout(WAIT_SECONDS):
        while (await by_meaning(engine, "coffee at noon"))[1] != late.id:
            await asyncio.sleep(0.01)
    assert await engine.verify() == []


async def test_a_setting_does_not_change_the_model_of_a_folder_that_is_in_use(works: Works, settings: Settings) -> None:
    engine = works.start()
    await add_note(engine, "tea in the kitchen")
    await swapped(engine)
    works.stop()
    works._settings = settings.model_copy(update={"embedding": "next"})
    again = works.start()
    assert (await by_meaning(again, "tea"))[0] == "bag-of-words"
    (issue,) = (await again.status()).issues
    assert "knowledge reindex --model next" in issue


def a_model(folder: Path, seed: int) -> str:
    save_file(tiny_model.make_weights(seed), tiny_model.write_model_folder(folder) / "model.safetensors")
    return f"dir:{folder}"


async def test_models_from_folders_follow_each_other_near_and_far(tmp_path: Path, settings: Settings) -> None:
    one, two = a_model(tmp_path / "one", 7), a_model(tmp_path / "two", 8)
    engine = app.open_engine(Settings(data=settings.data, workers=1, embedding=one))
    engine.start()
    try:
        tea = await add_note(engine, "tea kitchen")
        transport = httpx.ASGITransport(app=make_rest_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            far = RemoteEngine(http)
            assert await swapped(far) == "one"
            with pytest.raises(ModelUnavailable):
                await far.reindex(f"dir:{tmp_path / 'nowhere'}")
            with pytest.raises(InvalidParameter):
                await far.reindex("none")
            await far.reindex(two)
            assert await swapped(far) == "two"
            assert await by_meaning(far, "tea kitchen") == ("two", tea.id)
    finally:
        await asyncio.to_thread(engine.close)
