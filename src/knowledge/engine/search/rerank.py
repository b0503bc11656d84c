"""Reranking: the best few passages are read once more beside the question, within a time budget, and put in order.

By default token by token: each word of the question looks for its nearest word in the passage, rare words count more,
and what they find is added to the fused score. docs/explanation/search.md has the table behind the constants.
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

from knowledge.embed.batches import cores
from knowledge.engine.search.fusion import Numbers, Ranking
from knowledge.errors import InvalidParameter, KnowledgeError
from knowledge.index.api import Index
from knowledge.model import Query
from knowledge.text import analyzer

if TYPE_CHECKING:
    from knowledge.embed.cross_encoder import CrossEncoder
    from knowledge.embed.granite import Arithmetic
    from knowledge.embed.token_vectors import GraniteTokens, TokenVectors

log = logging.getLogger(__name__)

DEFAULT_MODEL = "granite-embedding-30m-english"
BEST = 8
"""How many passages are read again."""
FEWEST = 2
"""Fewer than this have no order."""
WEIGHT = 0.5
KEPT_PASSAGES = 256
CEILING = 2.2
WORD = re.compile(r"\w+")
LOST_TIME = "Reranking took longer than {budget} ms; this is the fused order."
PARTLY = "Within {budget} ms the best {count} of {all} passages were read again; the others follow in the fused order."
LOADING = "The reranker is still being loaded; this is the fused order."


@dataclass(frozen=True, slots=True)
class Passage:
    chunk_id: int
    text: str
    """As it was embedded: title, headings and text."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question, the passages that seem to answer it, and what they scored so far."""

    question: str
    passages: Sequence[Passage]
    fused: Numbers
    index: Index
    deadline: float


class Judge(Protocol):
    """Reads passages beside a question."""

    def judge(self, case: Case) -> Numbers:
        """New scores for the first passages, as many as there is time for."""


class Reranker:
    """Loaded when it is first wanted, by a thread of its own."""

    def __init__(self, load: Callable[[], Judge] | None, default_ms: int, only_for: str | None = None) -> None:
        self._load, self._default_ms = load, default_ms
        self._only_for = only_for  # the model whose own vectors it compares; None for one that has its own
        self._judge: Judge | None = None
        self._trouble: str | None = None
        self._loaded = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def judge_for(self, model: str, seconds: float) -> Judge | str:
        """Whoever judges, or the sentence that says why nobody does."""
        if self._load is None:
            return "Reranking is switched off; this is the fused order."
        if self._only_for is not None and self._only_for != model:
            return f"Reranking is not available with the model {model}; this is the fused order."
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._prepare, name="load-reranker", daemon=True)
                self._thread.start()
        self._loaded.wait(seconds)
        return self._judge or self._trouble or LOADING

    def _prepare(self) -> None:
        assert self._load is not None
        try:
            self._judge = self._load()
        except KnowledgeError as error:
            self._trouble = f"Reranking is not available: {error}; this is the fused order."
        except Exception:
            log.exception("The reranker could not be loaded")
            self._trouble = "Reranking is not available; this is the fused order."
        self._loaded.set()

    def rerank(
        self, query: Query, model: str, ranking: Ranking, passages: Sequence[Passage], index: Index
    ) -> tuple[Ranking, str | None]:
        """The ranking with its first passages in a better order, or as it was and why; `passages` are its first."""
        budget = query.budget_ms or self._default_ms
        deadline = time.monotonic() + budget / 1000
        judge = self.judge_for(model, budget / 1000)
        if isinstance(judge, str):
            return ranking, judge
        if len(passages) < FEWEST:
            return ranking, None
        fused = even_scale(ranking.relevance[ranking.order[: len(passages)]])
        scores = judge.judge(Case(query.text, passages, fused, index, deadline))
        if len(scores) < FEWEST:
            return ranking, LOST_TIME.format(budget=budget)
        partly = PARTLY.format(budget=budget, count=len(scores), all=len(passages))
        return reordered(ranking, scores), None if len(scores) == len(passages) else partly


def even_scale(relevance: Numbers) -> Numbers:
    """Fused scores from relevances, so that a passage without a vector can be compared with the others."""
    bounded = np.clip(relevance, 1e-9, 1 - 1e-9)
    scores: Numbers = (np.log(bounded / (1 - bounded)) + 3.94) / 10.94
    return scores


def reordered(ranking: Ranking, scores: Numbers) -> Ranking:
    """The first places by new scores. The relevances of these places stay, so they still fall from first to last."""
    first = ranking.order[: len(scores)]
    better = first[np.argsort(-scores, kind="stable")]
    relevance = ranking.relevance.copy()
    relevance[better] = np.sort(ranking.relevance[first])[::-1]
    return replace(ranking, order=np.concatenate([better, ranking.order[len(scores) :]]), relevance=relevance)


# -- word by word -------------------------------------------------------------------------------


class LateInteraction:
    """The default model's own token vectors, made at question time; nothing is stored but the latest."""

    def __init__(self, tokens: GraniteTokens) -> None:
        self._tokens, self._lock = tokens, threading.Lock()
        self._kept: OrderedDict[tuple[int, int], TokenVectors] = OrderedDict()
        self._pool = ThreadPoolExecutor(cores(), thread_name_prefix="rerank")

    def judge(self, case: Case) -> Numbers:
        asked = self._tokens.question(case.question)
        rare = rarity(case.question, asked.spans, case.index)
        vectors = self._vectors(case.passages, case.deadline)
        fused = case.fused[: len(vectors)]
        if not vectors or rare.sum() <= 0:
            return fused
        nearest = np.stack([best_matches(asked.vectors, each) for each in vectors])
        scores: Numbers = fused + WEIGHT * (nearest @ rare) / rare.sum()
        return scores

    def _vectors(self, passages: Sequence[Passage], deadline: float) -> list[TokenVectors]:
        """The tokens of the first passages, as many as are read in time: one after the other on every core."""
        keys = [(passage.chunk_id, hash(passage.text)) for passage in passages]
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [(key, passage.text) for key, passage in zip(keys, passages, strict=True) if key not in found]
        rows = self._tokens.ids([text for _, text in missing])

        def read(place: int) -> None:
            if time.monotonic() < deadline:  # alone: to pad several to one length costs what running them at once saves
                (found[missing[place][0]],) = self._tokens.vectors([rows[place]])

        list(self._pool.map(read, range(len(rows))))
        self._keep(found)
        return [found[key] for key in takewhile(found.__contains__, keys)]

    def _keep(self, found: dict[tuple[int, int], TokenVectors]) -> None:
        """What was read is kept even when the time was up: the same question again is then in time."""
        with self._lock:
            for key, vectors in found.items():
                self._kept[key] = vectors
                self._kept.move_to_end(key)
            while len(self._kept) > KEPT_PASSAGES:
                self._kept.popitem(last=False)


def best_matches(question: NDArray[np.float32], passage: TokenVectors) -> Numbers:
    """How near each token of the question comes to a token of the passage."""
    if not len(passage):
        return np.zeros(len(question))
    nearest: Numbers = (question @ passage.astype(np.float32).T).max(axis=1).astype(np.float64)
    return nearest


def rarity(question: str, spans: Sequence[tuple[int, int]], index: Index) -> Numbers:
    """How much each token of the question counts: the idf of the word that it is a part of."""
    languages = index.languages()
    weights: list[tuple[int, int, float]] = []
    for word in WORD.finditer(question):
        terms = analyzer.question(word[0], languages)
        shared = max(len(terms.terms), 1)
        weights.append((word.start(), word.end(), index.ceiling(terms) / CEILING / shared))
    return np.array([_weight(start, end, weights) for start, end in spans], np.float64)


def _weight(start: int, end: int, weights: Sequence[tuple[int, int, float]]) -> float:
    return next((weight for first, last, weight in weights if first < end and start < last), 0.0)


# -- together -----------------------------------------------------------------------------------


AT_A_TIME = 4


class Together:
    """A cross-encoder: it alone decides the order."""

    def __init__(self, model: CrossEncoder) -> None:
        self._model = model

    def judge(self, case: Case) -> Numbers:
        scores: list[Numbers] = [np.empty(0)]
        for first in range(0, len(case.passages), AT_A_TIME):
            if time.monotonic() >= case.deadline:
                break
            part = [each.text for each in case.passages[first : first + AT_A_TIME]]
            scores.append(self._model.scores(case.question, part))
        return np.concatenate(scores)


def open_reranker(setting: str, int8: Arithmetic, default_ms: int) -> Reranker:
    """The reranker that a setting names: default, none, or dir:PATH."""
    if setting == "none":
        return Reranker(None, default_ms)
    if setting == "default":
        return Reranker(lambda: _late_interaction(int8), default_ms, only_for=DEFAULT_MODEL)
    if not setting.startswith("dir:"):
        raise InvalidParameter(
            f"KNOWLEDGE_RERANKER: '{setting[:80]}' is not known", hint="Use default, none or dir:PATH.",
            parameter="reranker",
        )  # fmt: skip
    return Reranker(lambda: _cross_encoder(Path(setting.removeprefix("dir:")).expanduser()), default_ms)


def _late_interaction(int8: Arithmetic) -> Judge:
    from knowledge.embed.token_vectors import GraniteTokens

    return LateInteraction(GraniteTokens(int8))


def _cross_encoder(folder: Path) -> Judge:
    from knowledge.embed.cross_encoder import CrossEncoder

    return Together(CrossEncoder(folder))
