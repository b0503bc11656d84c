from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from knowledge.embed.openai import (
    BATCH_TEXTS,
    PASSAGE_RETRIES,
    EmbeddingEndpoint,
    EmbeddingRetryPolicy,
    OpenAIEmbedder,
    split_batches,
)
from knowledge.errors import EmbeddingFailed, EmbeddingRateLimited
from knowledge.retry_after import parse_retry_after
from tests.support.embedding_service import DIMENSION, EmbeddingReply, EmbeddingService, make_vector, serve_embeddings


@pytest.fixture
def service() -> Iterator[EmbeddingService]:
    with serve_embeddings(EmbeddingService()) as running:
        yield running


Open = Callable[..., OpenAIEmbedder]


@pytest.fixture
def waits() -> list[float]:
    """The delays that the client requests, without waiting."""
    return []


@pytest.fixture
def open_model(service: EmbeddingService, waits: list[float]) -> Iterator[Open]:
    opened: list[OpenAIEmbedder] = []

    def make(
        dimension: int | None = DIMENSION, key: str | None = "secret-key", url: str | None = None
    ) -> OpenAIEmbedder:
        opened.append(
            OpenAIEmbedder(EmbeddingEndpoint(url or service.url, "small-model"), key, dimension, wait=waits.append)
        )
        return opened[-1]

    yield make
    for model in opened:
        model.close()


def test_texts_become_vectors_of_unit_length_in_their_order(open_model: Open, service: EmbeddingService) -> None:
    vectors = open_model().embed(["tea", "coffee"])
    expected = np.array([make_vector("tea"), make_vector("coffee")], np.float32)
    assert np.allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True))
    assert service.requests == [{"model": "small-model", "input": ["tea", "coffee"], "dimensions": DIMENSION}]
    assert service.keys == ["Bearer secret-key"]


def test_without_a_dimension_the_model_is_asked_once(open_model: Open, service: EmbeddingService) -> None:
    model = open_model(dimension=None, key=None)
    assert model.dimension == DIMENSION and len(service.requests) == 1
    assert "dimensions" not in service.requests[0] and service.keys == [None]


def test_many_texts_go_in_several_requests(open_model: Open, service: EmbeddingService) -> None:
    texts = [f"text {'x' * number}" for number in range(BATCH_TEXTS * 2 + 1)]
    vectors = open_model().embed(texts)
    assert vectors.shape == (len(texts), DIMENSION) and len(service.requests) == 3
    assert np.allclose(vectors[100], open_model().embed_question(texts[100])[0])
    assert open_model().embed([]).shape == (0, DIMENSION)


def test_a_request_is_limited_in_characters_too() -> None:
    assert [len(batch) for batch in split_batches(["x" * 60_000] * 3)] == [1, 1, 1]


def test_a_busy_service_is_retried_after_its_retry_after(
    open_model: Open, service: EmbeddingService, waits: list[float]
) -> None:
    service.scripted = [
        EmbeddingReply(429, {"Retry-After": "7"}, b"{}"),
        EmbeddingReply(500, {}, b"oops"),
        EmbeddingReply(503, {}, b""),
    ]
    assert open_model().embed(["tea"]).shape == (1, DIMENSION)
    assert waits[0] == 7.0 and len(waits) == 3 and all(0 < wait <= PASSAGE_RETRIES.max_delay_seconds for wait in waits)


def test_a_service_that_stays_busy_is_a_rate_limit(
    open_model: Open, service: EmbeddingService, waits: list[float]
) -> None:
    service.default = EmbeddingReply(429, {"Retry-After": "3600"}, b'{"error": {"message": "slow down, secret-key"}}')
    with pytest.raises(EmbeddingRateLimited) as caught:
        open_model().embed(["tea"])
    assert caught.value.status == 429 and caught.value.details["provider_status"] == 429
    assert caught.value.details["provider_message"] == "slow down, …"
    assert len(service.requests) == PASSAGE_RETRIES.attempts and waits == [PASSAGE_RETRIES.max_delay_seconds] * (
        PASSAGE_RETRIES.attempts - 1
    )


def test_a_service_that_stays_broken_is_a_failure(open_model: Open, service: EmbeddingService) -> None:
    service.default = EmbeddingReply(500, {}, b"oops")
    with pytest.raises(EmbeddingFailed) as caught:
        open_model().embed(["tea"])
    assert not isinstance(caught.value, EmbeddingRateLimited)
    assert caught.value.details["provider_status"] == 500 and caught.value.details["provider_message"] == "oops"


def test_a_question_does_not_wait_long(open_model: Open, service: EmbeddingService, waits: list[float]) -> None:
    service.default = EmbeddingReply(429, {"Retry-After": "60"}, b"")
    with pytest.raises(EmbeddingRateLimited):
        open_model().embed_question("tea?")
    assert waits == [1.0]


@pytest.mark.parametrize(("status", "hint"), [(401, "KNOWLEDGE_EMBEDDING_KEY"), (404, "model name"), (400, "")])
def test_a_refusal_is_final_and_says_what_to_do(
    open_model: Open, service: EmbeddingService, status: int, hint: str
) -> None:
    service.default = EmbeddingReply(status, {}, b'{"error": "no"}')
    with pytest.raises(EmbeddingFailed, match=f"status {status}") as caught:
        open_model().embed(["tea"])
    assert hint in caught.value.hint and len(service.requests) == 1


@pytest.mark.parametrize("body", [
    b"<html>", b"[]", b'{"data": null}', b'{"data": []}', b'{"data": [{"embedding": "abc"}]}',
    b'{"data": [{"embedding": [NaN, 1, 2, 3]}]}', b'{"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}',
])  # fmt: skip
def test_an_invalid_response_is_a_failure(open_model: Open, service: EmbeddingService, body: bytes) -> None:
    service.default = EmbeddingReply(200, {}, body)
    with pytest.raises(EmbeddingFailed, match="'small-model' returned"):
        open_model().embed(["tea"])


def test_vectors_of_another_length_are_refused(open_model: Open) -> None:
    with pytest.raises(EmbeddingFailed, match="vectors of dimension 4 instead of 8") as caught:
        open_model(dimension=8).embed(["tea"])
    assert (caught.value.details["expected"], caught.value.details["found"]) == (8, 4)


def test_an_unreachable_service_is_a_failure_after_some_attempts(open_model: Open, waits: list[float]) -> None:
    with pytest.raises(EmbeddingFailed, match="could not be reached"):
        open_model(url="http://127.0.0.1:9/v1").embed(["tea"])
    assert len(waits) == PASSAGE_RETRIES.attempts - 1


def test_closing_ends_the_waiting(service: EmbeddingService) -> None:
    service.default = EmbeddingReply(429, {"Retry-After": "60"}, b"")
    model = OpenAIEmbedder(EmbeddingEndpoint(service.url, "small-model"), None, DIMENSION)
    failures: list[Exception] = []

    def embed() -> None:
        try:
            model.embed(["tea"])
        except EmbeddingFailed as error:
            failures.append(error)

    thread = threading.Thread(target=embed)
    thread.start()
    model.close()
    thread.join(timeout=30)
    assert len(failures) == 1


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    assert parse_retry_after("2.5") == 2.5
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert parse_retry_after("soon") is None and parse_retry_after(None) is None
    assert parse_retry_after("nan") is None and parse_retry_after("9" * 400) == 1e9


def test_delays_grow_and_end() -> None:
    delays = list(EmbeddingRetryPolicy(attempts=4, first_delay_seconds=1.0, max_delay_seconds=3.0).iterate_delays())
    assert delays[-1] is None and len(delays) == 4
    assert [round(delay) for delay in delays[:-1] if delay is not None] in ([1, 2, 3], [1, 2, 4])
