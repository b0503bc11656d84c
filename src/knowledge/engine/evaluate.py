"""Evaluates rankings: compares hits with expected answers, and computes nDCG, recall and MRR."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.model import Document, Hit

SHINGLE_WORDS = 5
"""Words per shingle when passages are compared."""
WORD_PATTERN = re.compile(r"\w+")

CUTOFF_RANK = 10
BOOTSTRAP_ROUNDS = 1000
BOOTSTRAP_SEED = 7

Grades = Mapping[str, int]
"""Relevance grades by name; a missing or non-positive grade means not relevant."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expected document (by title, path, URL or id), an expected passage (by text), or both."""

    document: str | None = None
    passage: str | None = None

    def is_met_by(self, hit: Hit) -> bool:
        in_document = self.document is None or has_name(hit.document, self.document)
        return in_document and (self.passage is None or overlaps(hit.text, self.passage))


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    text: str
    expected: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """The measures of one question."""

    question: EvalQuestion
    rank: int | None
    """Rank of the first expected hit, among passages if a passage is expected, otherwise among documents."""
    measures: Measures
    unmet: tuple[Expectation, ...]
    top_hit: Hit | None


def judge_hits(question: EvalQuestion, hits: Sequence[Hit]) -> QuestionOutcome:
    names, unmet = _name_ranking(question, _group_hits(question, hits))
    grades = {_expectation_name(number): 1 for number in range(len(question.expected))}
    rank, measures = find_first_rank(names, grades), compute_measures(names, grades)
    return QuestionOutcome(question, rank, measures, unmet, hits[0] if hits else None)


def _group_hits(question: EvalQuestion, hits: Sequence[Hit]) -> list[list[Hit]]:
    """Group the hits into ranked units: single passages if one is expected, otherwise documents."""
    if any(expectation.passage is not None for expectation in question.expected):
        return [[hit] for hit in hits]
    documents: dict[int, list[Hit]] = {}
    for hit in hits:
        documents.setdefault(hit.document.id, []).append(hit)
    return list(documents.values())


def _name_ranking(question: EvalQuestion, units: Sequence[list[Hit]]) -> tuple[list[str], tuple[Expectation, ...]]:
    """Name each unit after the expectation that it meets, each once; also return the unmet expectations."""
    waiting = dict(enumerate(question.expected))
    names: list[str] = []
    for place, unit in enumerate(units):
        met = next((number for number, one in waiting.items() if any(one.is_met_by(hit) for hit in unit)), None)
        names.append(f"other {place}" if met is None else _expectation_name(met))
        if met is not None:
            del waiting[met]
    return names, tuple(waiting.values())


def _expectation_name(number: int) -> str:
    return f"wanted {number}"


def has_name(document: Document, name: str) -> bool:
    """Return whether a name is the document's id, UUID, title, file name, URL, or the end of its path."""
    if name in (document.title, document.filename, document.url, str(document.uid)):
        return True
    if name.removeprefix("#") == str(document.id):
        return True
    wanted, path = _normalize_slashes(os.path.normpath(name)), _normalize_slashes(document.source_path or "")
    return bool(path) and (path == wanted or path.endswith("/" + wanted))


def _normalize_slashes(path: str) -> str:
    return path.replace("\\", "/")


def overlaps(text: str, passage: str) -> bool:
    """Return whether two texts share at least half of the shorter one's shingles, ignoring case and spacing."""
    length = min(SHINGLE_WORDS, len(WORD_PATTERN.findall(passage)))
    ours, theirs = _shingle(text, length), _shingle(passage, length)
    shorter = min(len(ours), len(theirs))
    return shorter > 0 and 2 * len(ours & theirs) >= shorter


def _shingle(text: str, length: int) -> set[tuple[str, ...]]:
    words = WORD_PATTERN.findall(text.casefold())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


@dataclass(frozen=True, slots=True)
class Measures:
    """nDCG, recall and MRR at rank 10, each from 0 to 1."""

    ndcg: float
    recall: float
    mrr: float


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean with its 95 % bootstrap confidence interval."""

    mean: float
    low: float
    high: float


def compute_measures(ranked: Sequence[str], grades: Grades) -> Measures:
    """Compute the measures of one ranking of distinct names, best first."""
    return Measures(ndcg(ranked, grades), recall(ranked, grades), mrr(ranked, grades))


def ndcg(ranked: Sequence[str], grades: Grades, depth: int = CUTOFF_RANK) -> float:
    """Compute nDCG with linear gain, as trec_eval does."""
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    best = _discounted_gain(ideal[:depth])
    return _discounted_gain([max(grades.get(name, 0), 0) for name in ranked[:depth]]) / best if best else 0.0


def _discounted_gain(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades))


def recall(ranked: Sequence[str], grades: Grades, depth: int = CUTOFF_RANK) -> float:
    """Compute the share of relevant names within the first `depth` ranks."""
    wanted = {name for name, grade in grades.items() if grade > 0}
    return len(wanted.intersection(ranked[:depth])) / len(wanted) if wanted else 0.0


def mrr(ranked: Sequence[str], grades: Grades, depth: int = CUTOFF_RANK) -> float:
    """Compute the reciprocal rank of the first relevant name."""
    place = find_first_rank(ranked[:depth], grades)
    return 1 / place if place else 0.0


def find_first_rank(ranked: Sequence[str], grades: Grades) -> int | None:
    """Return the rank of the first relevant name, counted from one."""
    return next((place for place, name in enumerate(ranked, 1) if grades.get(name, 0) > 0), None)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def average_measures(measures: Sequence[Measures]) -> Measures:
    return Measures(
        ndcg=mean([one.ndcg for one in measures]),
        recall=mean([one.recall for one in measures]),
        mrr=mean([one.mrr for one in measures]),
    )


def bootstrap_mean(values: Sequence[float], rounds: int = BOOTSTRAP_ROUNDS) -> MeanEstimate:
    """Return the mean with its bootstrap interval; deterministic, with a fixed seed."""
    if not values:
        return MeanEstimate(0.0, 0.0, 0.0)
    generator = random.Random(BOOTSTRAP_SEED)
    means = sorted(mean(generator.choices(values, k=len(values))) for _ in range(rounds))
    return MeanEstimate(mean(values), means[int(0.025 * rounds)], means[min(int(0.975 * rounds), rounds - 1)])


def bootstrap_difference(
    after: Sequence[float], before: Sequence[float], rounds: int = BOOTSTRAP_ROUNDS
) -> MeanEstimate:
    """Return the mean difference per question (paired bootstrap); an interval that contains zero means noise."""
    return bootstrap_mean([new - old for new, old in zip(after, before, strict=True)], rounds)
