"""Reranks the best passages of a search within a time budget.

The default scorer is late interaction: for each query token the most similar passage token, weighted by idf, is added
to the fused score. A cross-encoder can be used instead. docs/explanation/search.md has the measurements.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from knowledge.embed.batches import count_cores
from knowledge.engine.search.fusion import Numbers, Ranking
from knowledge.errors import InvalidParameter, KnowledgeError
from knowledge.index.api import IndexSnapshot
from knowledge.model import Query
from knowledge.telemetry import metrics
from knowledge.text import analyzer

if TYPE_CHECKING:
    from knowledge.embed.granite import Int8Setting
    from knowledge.embed.rerankers import CrossEncoder, GraniteTokenEmbedder, TokenVectors

log = logging.getLogger(__name__)

DEFAULT_MODEL = "granite-embedding-30m-english"
MAX_RERANKED_PASSAGES = 8
MIN_RERANKED_PASSAGES = 2
LATE_INTERACTION_WEIGHT = 0.5
MAX_CACHED_PASSAGES = 256
BM25_CEILING_FACTOR = 2.2
WORD_PATTERN = re.compile(r"\w+")
TIMEOUT_NOTE = "Reranking took longer than {budget} ms; this is the fused order."
PARTIAL_NOTE = (
    "Within {budget} ms the best {count} of {all} passages were reranked; the others follow in the fused order."
)
LOADING_NOTE = "The reranker is still being loaded; this is the fused order."


@dataclass(frozen=True, slots=True)
class RerankPassage:
    chunk_id: int
    text: str
    """Title, headings and text, as embedded."""


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A question, its best passages and their fused scores."""

    question: str
    passages: Sequence[RerankPassage]
    fused: Numbers
    index: IndexSnapshot
    deadline: float


class PassageScorer(Protocol):
    def score_passages(self, request: RerankRequest) -> Numbers:
        """Return new scores for the first passages, as many as can be scored before the deadline."""


class Reranker:
    """Loads the scorer in a background thread at the first use, and reranks with it."""

    def __init__(self, load: Callable[[], PassageScorer] | None, default_ms: int, only_for: str | None = None) -> None:
        self._load, self._default_ms = load, default_ms
        self._only_for = only_for  # the embedding model that the scorer works with; None for every model
        self._scorer: PassageScorer | None = None
        self._load_error: str | None = None
        self._loaded = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def wait_for_scorer(self, model: str, seconds: float) -> PassageScorer | str:
        """Return the scorer, or the note that says why there is none."""
        if self._load is None:
            return "Reranking is switched off; this is the fused order."
        if self._only_for is not None and self._only_for != model:
            return f"Reranking is not available with the model {model}; this is the fused order."
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._load_scorer, name="load-reranker", daemon=True)
                self._thread.start()
        self._loaded.wait(seconds)
        return self._scorer or self._load_error or LOADING_NOTE

    def _load_scorer(self) -> None:
        assert self._load is not None
        try:
            self._scorer = self._load()
        except KnowledgeError as error:
            self._load_error = f"Reranking is not available: {error}; this is the fused order."
        except Exception:
            log.exception("loading the reranker failed")
            self._load_error = "Reranking is not available; this is the fused order."
        self._loaded.set()

    def rerank(
        self, query: Query, model: str, ranking: Ranking, passages: Sequence[RerankPassage], index: IndexSnapshot
    ) -> tuple[Ranking, str | None]:
        """Rerank `passages`, the first of the ranking; return the unchanged ranking and a note if that fails."""
        budget = query.budget_ms or self._default_ms
        deadline = time.monotonic() + budget / 1000
        scorer = self.wait_for_scorer(model, budget / 1000)
        if isinstance(scorer, str):
            return ranking, scorer
        if len(passages) < MIN_RERANKED_PASSAGES:
            return ranking, None
        fused = to_fused_scale(ranking.relevance[ranking.order[: len(passages)]])
        scores = scorer.score_passages(RerankRequest(query.text, passages, fused, index, deadline))
        if len(scores) < MIN_RERANKED_PASSAGES:
            return ranking, TIMEOUT_NOTE.format(budget=budget)
        partial = PARTIAL_NOTE.format(budget=budget, count=len(scores), all=len(passages))
        return reorder_ranking(ranking, scores), None if len(scores) == len(passages) else partial


def to_fused_scale(relevance: Numbers) -> Numbers:
    """Convert relevances back to fused scores, to compare candidates with and without a vector."""
    bounded = np.clip(relevance, 1e-9, 1 - 1e-9)
    scores: Numbers = (np.log(bounded / (1 - bounded)) + 3.94) / 10.94
    return scores


def reorder_ranking(ranking: Ranking, scores: Numbers) -> Ranking:
    """Reorder the first candidates by new scores; each rank keeps its relevance, so that relevance still falls."""
    first = ranking.order[: len(scores)]
    better = first[np.argsort(-scores, kind="stable")]
    relevance = ranking.relevance.copy()
    relevance[better] = np.sort(ranking.relevance[first])[::-1]
    return replace(ranking, order=np.concatenate([better, ranking.order[len(scores) :]]), relevance=relevance)


# -- late interaction ---------------------------------------------------------------------------


class LateInteractionScorer:
    """Scores with the token vectors of the default model, computed per search and cached for recent passages."""

    def __init__(self, tokens: GraniteTokenEmbedder) -> None:
        self._tokens, self._lock = tokens, threading.Lock()
        self._cached: OrderedDict[tuple[int, int], TokenVectors] = OrderedDict()
        self._pool = ThreadPoolExecutor(count_cores(), thread_name_prefix="rerank")

    def score_passages(self, request: RerankRequest) -> Numbers:
        question = self._tokens.embed_question(request.question)
        weights = weigh_tokens(request.question, question.spans, request.index)
        vectors = self._read_token_vectors(request.passages, request.deadline)
        fused = request.fused[: len(vectors)]
        if not vectors or weights.sum() <= 0:
            return fused
        similarities = np.stack([compute_max_similarities(question.vectors, each) for each in vectors])
        scores: Numbers = fused + LATE_INTERACTION_WEIGHT * (similarities @ weights) / weights.sum()
        return scores

    def _read_token_vectors(self, passages: Sequence[RerankPassage], deadline: float) -> list[TokenVectors]:
        """Return the token vectors of the first passages, as many as are embedded before the deadline."""
        keys = [(passage.chunk_id, hash(passage.text)) for passage in passages]
        with self._lock:
            found = {key: self._cached[key] for key in keys if key in self._cached}
        missing = [(key, passage.text) for key, passage in zip(keys, passages, strict=True) if key not in found]
        metrics.CACHE_HITS["rerank_passages"].inc(len(found))
        metrics.CACHE_MISSES["rerank_passages"].inc(len(missing))
        rows = self._tokens.tokenize_passages([text for _, text in missing])

        def read(place: int) -> None:
            if time.monotonic() < deadline:  # not batched: padding to one length costs as much as batching saves
                (found[missing[place][0]],) = self._tokens.embed_tokens([rows[place]])

        list(self._pool.map(read, range(len(rows))))
        self._cache_vectors(found)
        return [found[key] for key in takewhile(found.__contains__, keys)]

    def _cache_vectors(self, found: dict[tuple[int, int], TokenVectors]) -> None:
        with self._lock:  # also after the deadline, so that the same question is in time when it is asked again
            for key, vectors in found.items():
                self._cached[key] = vectors
                self._cached.move_to_end(key)
            while len(self._cached) > MAX_CACHED_PASSAGES:
                self._cached.popitem(last=False)


def compute_max_similarities(question: NDArray[np.float32], passage: TokenVectors) -> Numbers:
    """Compute MaxSim (ColBERT): for each query token the highest similarity to any passage token."""
    if not len(passage):
        return np.zeros(len(question))
    nearest: Numbers = (question @ passage.astype(np.float32).T).max(axis=1).astype(np.float64)
    return nearest


def weigh_tokens(question: str, spans: Sequence[tuple[int, int]], index: IndexSnapshot) -> Numbers:
    """Return the weight of each token of the question: the idf of its word."""
    languages = index.languages()
    weights: list[tuple[int, int, float]] = []
    for word in WORD_PATTERN.finditer(question):
        terms = analyzer.analyse_question(word[0], languages)
        shared = max(len(terms.terms), 1)
        weights.append((word.start(), word.end(), index.compute_ceiling(terms) / BM25_CEILING_FACTOR / shared))
    return np.array([_weight_of_span(start, end, weights) for start, end in spans], np.float64)


def _weight_of_span(start: int, end: int, weights: Sequence[tuple[int, int, float]]) -> float:
    return next((weight for first, last, weight in weights if first < end and start < last), 0.0)


# -- cross-encoder ------------------------------------------------------------------------------


CROSS_ENCODER_BATCH_PASSAGES = 4


class CrossEncoderScorer:
    """Scores with a cross-encoder, without the fused scores."""

    def __init__(self, model: CrossEncoder) -> None:
        self._model = model

    def score_passages(self, request: RerankRequest) -> Numbers:
        scores: list[Numbers] = [np.empty(0)]
        for first in range(0, len(request.passages), CROSS_ENCODER_BATCH_PASSAGES):
            if time.monotonic() >= request.deadline:
                break
            part = [each.text for each in request.passages[first : first + CROSS_ENCODER_BATCH_PASSAGES]]
            scores.append(self._model.score_passages(request.question, part))
        return np.concatenate(scores)


def open_reranker(setting: str, int8: Int8Setting, default_ms: int) -> Reranker:
    """Make the reranker for a setting: default, none, or dir:PATH."""
    if setting == "none":
        return Reranker(None, default_ms)
    if setting == "default":
        return Reranker(lambda: _load_late_interaction(int8), default_ms, only_for=DEFAULT_MODEL)
    if not setting.startswith("dir:"):
        raise InvalidParameter(
            f"KNOWLEDGE_RERANKER: unknown reranker '{setting[:80]}'", hint="Use default, none or dir:PATH.",
            parameter="reranker",
        )  # fmt: skip
    return Reranker(lambda: _load_cross_encoder(Path(setting.removeprefix("dir:")).expanduser()), default_ms)


def _load_late_interaction(int8: Int8Setting) -> PassageScorer:
    from knowledge.embed.rerankers import GraniteTokenEmbedder

    return LateInteractionScorer(GraniteTokenEmbedder(int8))


def _load_cross_encoder(folder: Path) -> PassageScorer:
    from knowledge.embed.rerankers import CrossEncoder

    return CrossEncoderScorer(CrossEncoder(folder))
