"""Judged questions asked of a server, and what came back."""

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
    """Documents, each once, best first."""
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
    """How long reranking may take, if not as long as the server's setting says."""

    def search_own_set(self, questions: Sequence[Question], judged: JudgedSet, mode: str) -> list[RankedAnswer]:
        """Each question asked of the set that it belongs to, as deep as is measured."""
        return [self._search(question, [judged], mode, DEPTH) for question in questions]

    def search_best(self, questions: Sequence[Question], sets: Sequence[JudgedSet]) -> list[RankedAnswer]:
        """The best hit for each question in the collections of the sets, as if they were one."""
        return [self._search(question, sets, "hybrid", 1) for question in questions]

    def _search(self, question: Question, sets: Sequence[JudgedSet], mode: str, top: int) -> RankedAnswer:
        body = {"query": question.text, "top": top, "collections": [judged.name for judged in sets], "mode": mode}
        budget = {} if self.budget_ms is None else {"budget_ms": self.budget_ms}
        answer = self.server.http.post("/api/v1/search", json=body | budget)
        if answer.status_code == UNPROCESSABLE:  # a question without a word
            return RankedAnswer(question, [], 0.0, None)
        answer.raise_for_status()
        hits = answer.json()["results"]
        ranked = list(dict.fromkeys(hit["source_path"] for hit in hits))
        best, shelf = (hits[0]["score"], hits[0]["collection"]) if hits else (0.0, None)
        return RankedAnswer(question, ranked, best, shelf)
