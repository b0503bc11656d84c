"""Search with a failing embedding service: falls back to words, or raises the error without fallback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from knowledge.app import build_model_choice
from knowledge.config import Settings
from knowledge.embed.loading import ModelLoader
from knowledge.embed.openai import EmbeddingEndpoint, OpenAIEmbedder
from knowledge.engine.local import LocalEngine
from knowledge.errors import EmbeddingFailed, EmbeddingRateLimited, KnowledgeError
from knowledge.model import NewNote, Query, SearchMode
from knowledge.testing import SharedParsers, make_test_engine
from knowledge.wire import SearchBody, dump_query
from tests.support.embedding_service import DIMENSION, EmbeddingReply, EmbeddingService, serve_embeddings

WAIT_SECONDS = 30.0


@pytest.fixture
def service() -> Iterator[EmbeddingService]:
    with serve_embeddings(EmbeddingService()) as running:
        yield running


@pytest.fixture
def engine(service: EmbeddingService, settings: Settings, parsers: SharedParsers) -> Iterator[LocalEngine]:
    model = OpenAIEmbedder(EmbeddingEndpoint(service.url, "small-model"), None, DIMENSION, wait=lambda _: None)
    opened = make_test_engine(settings, parsers=parsers, embedder=model)
    opened.start()
    yield opened
    opened.close()


@pytest.mark.parametrize(("status", "kind"), [(429, EmbeddingRateLimited), (500, EmbeddingFailed)])
async def test_a_failing_embedding_service_is_an_error_without_fallback(
    status: int, kind: type[KnowledgeError], engine: LocalEngine, service: EmbeddingService
) -> None:
    job = await engine.add(NewNote(text="Tea is served at five."))
    await engine.wait(job.id, WAIT_SECONDS)
    service.default = EmbeddingReply(status)
    query = Query(text=f"tea {status}")
    answer = await engine.search(query)
    assert (answer.mode, len(answer.hits)) == (SearchMode.TEXT, 1)
    with pytest.raises(kind) as caught:
        await engine.search(replace(query, fallback=False))
    assert type(caught.value) is kind
    assert caught.value.details["provider_status"] == status


async def test_a_service_that_failed_at_start_is_an_error_without_fallback(
    service: EmbeddingService, settings: Settings, parsers: SharedParsers
) -> None:
    service.default = EmbeddingReply(429, {"Retry-After": "0"})
    chosen = settings.model_copy(update={"embedding": f"openai:{service.url}#small-model"})
    model = ModelLoader(build_model_choice(chosen, chosen.embedding), retry_seconds=WAIT_SECONDS)
    engine = make_test_engine(chosen, parsers=parsers, open_model=lambda _: model)
    engine.start()
    try:
        with pytest.raises(KnowledgeError):
            model.wait_for_embedder(WAIT_SECONDS)
        assert (await engine.search(Query(text="tea"))).mode is SearchMode.TEXT
        with pytest.raises(EmbeddingRateLimited):
            await engine.search(Query(text="tea", fallback=False))
    finally:
        engine.close()


def test_fallback_is_part_of_the_wire_format() -> None:
    for query in (Query(text="tea"), Query(text="tea", fallback=False)):
        assert SearchBody.model_validate(dump_query(query)).to_query() == query
