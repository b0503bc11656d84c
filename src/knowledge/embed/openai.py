"""Client of the OpenAI /embeddings API, as offered by OpenAI, Ollama, llama.cpp, vLLM and others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event

import httpx
import numpy as np

from knowledge.embed.embedder import Vectors
from knowledge.embed.pooling import scale_to_unit_length
from knowledge.errors import EmbeddingFailed, EmbeddingRateLimited
from knowledge.model import JsonValue
from knowledge.retry_after import parse_retry_after


@dataclass(frozen=True, slots=True)
class EmbeddingRetryPolicy:
    attempts: int
    first_delay_seconds: float
    max_delay_seconds: float

    def iterate_delays(self) -> Iterator[float | None]:
        """Yield the backoff after each failed attempt in seconds; None after the last."""
        for attempt in range(self.attempts - 1):
            # Jitter keeps many callers from retrying at the same time.
            yield self.limit_delay(self.first_delay_seconds * 2**attempt * random.uniform(0.8, 1.2))
        yield None

    def limit_delay(self, delay: float) -> float:
        return min(delay, self.max_delay_seconds)


PASSAGE_RETRIES = EmbeddingRetryPolicy(attempts=6, first_delay_seconds=0.5, max_delay_seconds=60.0)
# Jobs in the background can wait.
QUESTION_RETRIES = EmbeddingRetryPolicy(attempts=2, first_delay_seconds=0.25, max_delay_seconds=1.0)
# A caller waits, and keyword search can answer instead.

BATCH_TEXTS = 64
BATCH_CHARS = 100_000
TIMEOUT = httpx.Timeout(60.0, connect=10.0)
TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
MAX_REASON_CHARS = 300


@dataclass(frozen=True, slots=True)
class EmbeddingEndpoint:
    url: str
    model: str


class OpenAIEmbedder:
    languages: frozenset[str] | None = None

    def __init__(
        self,
        address: EmbeddingEndpoint,
        key: str | None = None,
        dimension: int | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Without `dimension` one request determines the length of the vectors."""
        self.name = address.model
        self._url = httpx.URL(address.url.rstrip("/") + "/embeddings")
        self._key, self._requested_dimension = key, dimension
        self._closed = Event()
        self._wait = wait or self._closed.wait
        self._client = httpx.Client(timeout=TIMEOUT, headers={"Authorization": f"Bearer {key}"} if key else {})
        self.dimension = dimension or 0
        self.dimension = dimension or self.embed_question("dimension").shape[1]
        self.fingerprint = f"{self.name}/{self.dimension}/{self._url.netloc.decode()}{self._url.path}"

    def embed(self, passages: Sequence[str]) -> Vectors:
        answers = [self._embed_with_retries(batch, PASSAGE_RETRIES) for batch in split_batches(passages)]
        return np.concatenate(answers) if answers else np.empty((0, self.dimension), np.float32)

    def embed_question(self, question: str) -> Vectors:
        return self._embed_with_retries([question], QUESTION_RETRIES)

    def close(self) -> None:
        self._closed.set()
        self._client.close()

    def _embed_with_retries(self, texts: list[str], policy: EmbeddingRetryPolicy) -> Vectors:
        """Send one batch and retry transient failures, honouring Retry-After."""
        for delay in policy.iterate_delays():
            try:
                return self._send_batch(texts)
            except EmbeddingFailed as error:
                if delay is None or not error.details.get("transient") or self._closed.is_set():
                    raise
                asked = error.details.get("retry_after_s")
                self._wait(policy.limit_delay(max(delay, asked if isinstance(asked, int | float) else 0.0)))
        raise AssertionError("the last delay is None")

    def _send_batch(self, texts: list[str]) -> Vectors:
        body: dict[str, JsonValue] = {"model": self.name, "input": list(texts)}
        if self._requested_dimension:
            body["dimensions"] = self._requested_dimension
        try:
            response = self._client.post(self._url, json=body)
        except httpx.TimeoutException as error:
            raise self._make_failure_error("timed out", transient=True, timeout=True) from error
        except (httpx.TransportError, RuntimeError) as error:  # RuntimeError: the client was closed meanwhile
            raise self._make_failure_error(f"could not be reached: {error}", transient=True) from error
        if not response.is_success:
            raise self._make_refusal_error(response)
        return self._parse_vectors(response, len(texts))

    def _parse_vectors(self, response: httpx.Response, count: int) -> Vectors:
        try:
            rows = sorted(response.json()["data"], key=lambda row: row.get("index", 0))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._make_failure_error("returned a response without a list of embeddings") from error
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
            raise self._make_failure_error(f"returned {len(vectors)} embeddings for {count} texts, or invalid numbers")
        if self.dimension and vectors.shape[1] != self.dimension:
            raise self._make_failure_error(
                f"returned vectors of dimension {vectors.shape[1]} instead of {self.dimension}",
                hint="Correct KNOWLEDGE_EMBEDDING_DIMENSION, or unset it.",
                expected=self.dimension,
                found=vectors.shape[1],
            )
        return scale_to_unit_length(vectors)

    def _make_refusal_error(self, response: httpx.Response) -> EmbeddingFailed:
        status = response.status_code
        message = f"The embedding service of {self.name!r} answered with status {status}"
        details: dict[str, JsonValue] = {
            "provider_status": status,
            "provider_message": self._read_reason(response),
            "transient": status in TRANSIENT_STATUSES,
        }
        if (seconds := parse_retry_after(response.headers.get("Retry-After"))) is not None:
            details["retry_after_s"] = seconds
        if status == 429:
            return EmbeddingRateLimited(message, hint=None, **details)
        return EmbeddingFailed(message, hint=HINTS_BY_STATUS.get(status), **details)

    def _read_reason(self, response: httpx.Response) -> str:
        """Return the error message of the service, shortened and without the API key."""
        try:
            error = response.json()["error"]
            text = str(error["message"] if isinstance(error, dict) else error)
        except (ValueError, KeyError, TypeError):
            text = response.text
        return (text.replace(self._key, "…") if self._key else text)[:MAX_REASON_CHARS]

    def _make_failure_error(self, what: str, *, hint: str | None = None, **details: JsonValue) -> EmbeddingFailed:
        return EmbeddingFailed(f"The embedding service of {self.name!r} {what}", hint=hint, **details)


HINTS_BY_STATUS = {
    401: "Set KNOWLEDGE_EMBEDDING_KEY to a key that this service accepts.",
    403: "Set KNOWLEDGE_EMBEDDING_KEY to a key that may use this model.",
    404: "Check the URL and the model name in KNOWLEDGE_EMBEDDING.",
}


def split_batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or characters + len(text) > BATCH_CHARS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch
