"""Evaluation of a ranking: judges hits against expected answers, and computes nDCG, recall and MRR."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.model import Document, Hit

SHINGLE_WORDS = 5
"""Passages are compared by shingles of this many words."""
WORD_PATTERN = re.compile(r"\w+")

CUTOFF_RANK = 10
BOOTSTRAP_ROUNDS = 1000
BOOTSTRAP_SEED = 7

Grades = Mapping[str, int]
"""What is wanted, and how much; what is missing or not above zero is not wanted."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A document by its title, path, address or id; a passage by its text; or this passage of that document."""

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
    """What became of one question."""

    question: EvalQuestion
    rank: int | None
    """The place of the first thing expected, among documents or, where a passage is expected, among passages."""
    measures: Measures
    unmet: tuple[Expectation, ...]
    top_hit: Hit | None


def judge_hits(question: EvalQuestion, hits: Sequence[Hit]) -> QuestionOutcome:
    names, unmet = _name_ranking(question, _group_hits(question, hits))
    grades = {_expectation_name(number): 1 for number in range(len(question.expected))}
    rank, measures = find_first_rank(names, grades), compute_measures(names, grades)
    return QuestionOutcome(question, rank, measures, unmet, hits[0] if hits else None)


def _group_hits(question: EvalQuestion, hits: Sequence[Hit]) -> list[list[Hit]]:
    """What is ranked: passages one by one, or documents with all their passages."""
    if any(expectation.passage is not None for expectation in question.expected):
        return [[hit] for hit in hits]
    documents: dict[int, list[Hit]] = {}
    for hit in hits:
        documents.setdefault(hit.document.id, []).append(hit)
    return list(documents.values())


def _name_ranking(question: EvalQuestion, units: Sequence[list[Hit]]) -> tuple[list[str], tuple[Expectation, ...]]:
    """The ranking by names, in which each expectation is met once, and those that were not met."""
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
    """By number, UUID, title, file name, address, or path, of which the end is enough."""
    if name in (document.title, document.filename, document.url, str(document.uid)):
        return True
    if name.removeprefix("#") == str(document.id):
        return True
    wanted, path = _normalize_slashes(os.path.normpath(name)), _normalize_slashes(document.source_path or "")
    return bool(path) and (path == wanted or path.endswith("/" + wanted))


def _normalize_slashes(path: str) -> str:
    return path.replace("\\", "/")


def overlaps(text: str, passage: str) -> bool:
    """Whether half of the shorter one's runs of words stand in the other, however they are spaced and written."""
    length = min(SHINGLE_WORDS, len(WORD_PATTERN.findall(passage)))
    ours, theirs = _shingle(text, length), _shingle(passage, length)
    shorter = min(len(ours), len(theirs))
    return shorter > 0 and 2 * len(ours & theirs) >= shorter


def _shingle(text: str, length: int) -> set[tuple[str, ...]]:
    words = WORD_PATTERN.findall(text.casefold())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


@dataclass(frozen=True, slots=True)
class Measures:
    """Each from 0 to 1, over the first ten places."""

    ndcg: float
    recall: float
    mrr: float


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean, and the middle 95 % of what it would have been with other questions of the same kind."""

    mean: float
    low: float
    high: float


def compute_measures(ranked: Sequence[str], grades: Grades) -> Measures:
    """The measures of one question, whose answers are named best first, each once."""
    return Measures(ndcg(ranked, grades), recall(ranked, grades), mrr(ranked, grades))


def ndcg(ranked: Sequence[str], grades: Grades, depth: int = CUTOFF_RANK) -> float:
    """Linear gain, as trec_eval has it: a grade counts once, divided by the logarithm of its place."""
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    best = _discounted_gain(ideal[:depth])
    return _discounted_gain([max(grades.get(name, 0), 0) for name in ranked[:depth]]) / best if best else 0.0


def _discounted_gain(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades))


def recall(ranked: Sequence[str], grades: Grades, depth: int = CUTOFF_RANK) -> float:
    """The share of what is wanted that stands in the first places."""
    wanted = {name for name, grade in grades.items() if grade > 0}
    return len(wanted.intersection(ranked[:depth])) / len(wanted) if wanted else 0.0


def mrr(ranked: Sequence[str], grades: Grades, depth: int = CUTOFF_RANK) -> float:
    """One divided by the first right place."""
    place = find_first_rank(ranked[:depth], grades)
    return 1 / place if place else 0.0


def find_first_rank(ranked: Sequence[str], grades: Grades) -> int | None:
    """Where the first thing that is wanted stands, counted from one."""
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
    """The mean with its bootstrapped interval; the same values give the same interval."""
    if not values:
        return MeanEstimate(0.0, 0.0, 0.0)
    chance = random.Random(BOOTSTRAP_SEED)
    means = sorted(mean(chance.choices(values, k=len(values))) for _ in range(rounds))
    return MeanEstimate(mean(values), means[int(0.025 * rounds)], means[min(int(0.975 * rounds), rounds - 1)])


def bootstrap_difference(
    after: Sequence[float], before: Sequence[float], rounds: int = BOOTSTRAP_ROUNDS
) -> MeanEstimate:
    """How much better the first is, question by question (paired bootstrap): noise, if zero lies in the interval."""
    return bootstrap_mean([new - old for new, old in zip(after, before, strict=True)], rounds)
