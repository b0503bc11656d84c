"""Runs judged questions against a server and measures the rankings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judged_sets import JudgedSet, Question
from knowledge.engine.evaluate import mean, mrr, ndcg, recall
from server import BenchmarkServer

DEPTH = 100
UNPROCESSABLE = 422


@dataclass(frozen=True)
class RankedAnswer:
    question: Question
    ranked: Sequence[str]
    """Distinct documents, best first."""
    best_score: float
    """The relevance of the first hit."""
    top_collection: str | None
    """The collection of the first hit."""

    @property
    def ndcg(self) -> float:
        return ndcg(self.ranked, self.question.grades)


MEASURES: dict[str, Callable[[RankedAnswer], float]] = {
    "nDCG@10": lambda one: one.ndcg,
    "recall@10": lambda one: recall(one.ranked, one.question.grades),
    "recall@100": lambda one: recall(one.ranked, one.question.grades, DEPTH),
    "MRR@10": lambda one: mrr(one.ranked, one.question.grades),
}


def average_measures(answers: Sequence[RankedAnswer]) -> list[float]:
    return [mean([value(one) for one in answers]) for value in MEASURES.values()]


@dataclass(frozen=True)
class Searcher:
    server: BenchmarkServer
    budget_ms: int | None = None
    """Time limit of reranking; None uses the server's setting."""

    def search_own_set(self, questions: Sequence[Question], judged: JudgedSet, mode: str) -> list[RankedAnswer]:
        """Search each question in its own set, with DEPTH results."""
        return [self._search(question, [judged], mode, DEPTH) for question in questions]

    def search_best(self, questions: Sequence[Question], sets: Sequence[JudgedSet]) -> list[RankedAnswer]:
        """Return the best hit of each question in the collections of all these sets."""
        return [self._search(question, sets, "hybrid", 1) for question in questions]

    def _search(self, question: Question, sets: Sequence[JudgedSet], mode: str, top: int) -> RankedAnswer:
        body = {"query": question.text, "top": top, "collections": [judged.name for judged in sets], "mode": mode}
        budget = {} if self.budget_ms is None else {"budget_ms": self.budget_ms}
        answer = self.server.http.post("/api/v1/search", json=body | budget)
        if answer.status_code == UNPROCESSABLE:  # a question without searchable words
            return RankedAnswer(question, [], 0.0, None)
        answer.raise_for_status()
        hits = answer.json()["results"]
        ranked = list(dict.fromkeys(hit["source_path"] for hit in hits))
        best, collection = (hits[0]["score"], hits[0]["collection"]) if hits else (0.0, None)
        return RankedAnswer(question, ranked, best, collection)
