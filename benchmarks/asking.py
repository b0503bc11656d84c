"""Judged questions asked of a server, and what came back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judged import Judged, Question
from knowledge.engine.evaluate.metrics import mean, mrr, ndcg, recall
from serving import Served

DEPTH = 100
REFUSED = 422


@dataclass(frozen=True)
class Answered:
    question: Question
    ranked: Sequence[str]
    """Documents, each once, best first."""
    best: float
    """The relevance of the first hit."""
    shelf: str | None
    """The collection of the first hit."""

    @property
    def ndcg(self) -> float:
        return ndcg(self.ranked, self.question.grades)


MEASURES: dict[str, Callable[[Answered], float]] = {
    "nDCG@10": lambda one: one.ndcg,
    "recall@10": lambda one: recall(one.ranked, one.question.grades),
    "recall@100": lambda one: recall(one.ranked, one.question.grades, DEPTH),
    "MRR@10": lambda one: mrr(one.ranked, one.question.grades),
}


def averages(answers: Sequence[Answered]) -> list[float]:
    return [mean([value(one) for one in answers]) for value in MEASURES.values()]


@dataclass(frozen=True)
class Asker:
    server: Served
    budget_ms: int | None = None
    """How long reranking may take, if not as long as the server's setting says."""

    def rank(self, questions: Sequence[Question], judged: Judged, mode: str) -> list[Answered]:
        """Each question asked of the set that it belongs to, as deep as is measured."""
        return [self._ask(question, [judged], mode, DEPTH) for question in questions]

    def ask(self, questions: Sequence[Question], sets: Sequence[Judged]) -> list[Answered]:
        """The best hit for each question in the collections of the sets, as if they were one."""
        return [self._ask(question, sets, "hybrid", 1) for question in questions]

    def _ask(self, question: Question, sets: Sequence[Judged], mode: str, top: int) -> Answered:
        body = {"query": question.text, "top": top, "collections": [judged.name for judged in sets], "mode": mode}
        budget = {} if self.budget_ms is None else {"budget_ms": self.budget_ms}
        answer = self.server.http.post("/api/v1/search", json=body | budget)
        if answer.status_code == REFUSED:  # a question without a word
            return Answered(question, [], 0.0, None)
        answer.raise_for_status()
        hits = answer.json()["results"]
        ranked = list(dict.fromkeys(hit["source_path"] for hit in hits))
        best, shelf = (hits[0]["score"], hits[0]["collection"]) if hits else (0.0, None)
        return Answered(question, ranked, best, shelf)
