"""How good a ranking is: nDCG, recall and the first right place, and how sure one can be of a mean or a difference."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DEPTH = 10
ROUNDS = 1000
SEED = 7

Grades = Mapping[str, int]
"""What is wanted, and how much; what is missing or not above zero is not wanted."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Each from 0 to 1, over the first ten places."""

    ndcg: float
    recall: float
    mrr: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and the middle 95 % of what it would have been with other questions of the same kind."""

    mean: float
    low: float
    high: float


def measure(ranked: Sequence[str], grades: Grades) -> Measures:
    """The measures of one question, whose answers are named best first, each once."""
    return Measures(ndcg(ranked, grades), recall(ranked, grades), mrr(ranked, grades))


def ndcg(ranked: Sequence[str], grades: Grades, depth: int = DEPTH) -> float:
    """Linear gain, as trec_eval has it: a grade counts once, divided by the logarithm of its place."""
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    best = _gain(ideal[:depth])
    return _gain([max(grades.get(name, 0), 0) for name in ranked[:depth]]) / best if best else 0.0


def _gain(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades))


def recall(ranked: Sequence[str], grades: Grades, depth: int = DEPTH) -> float:
    """The share of what is wanted that stands in the first places."""
    wanted = {name for name, grade in grades.items() if grade > 0}
    return len(wanted.intersection(ranked[:depth])) / len(wanted) if wanted else 0.0


def mrr(ranked: Sequence[str], grades: Grades, depth: int = DEPTH) -> float:
    """One divided by the first right place."""
    place = first_place(ranked[:depth], grades)
    return 1 / place if place else 0.0


def first_place(ranked: Sequence[str], grades: Grades) -> int | None:
    """Where the first thing that is wanted stands, counted from one."""
    return next((place for place, name in enumerate(ranked, 1) if grades.get(name, 0) > 0), None)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def average(measures: Sequence[Measures]) -> Measures:
    return Measures(
        ndcg=mean([one.ndcg for one in measures]),
        recall=mean([one.recall for one in measures]),
        mrr=mean([one.mrr for one in measures]),
    )


def estimate(values: Sequence[float], rounds: int = ROUNDS) -> Estimate:
    """The mean with its bootstrapped interval; the same values give the same interval."""
    if not values:
        return Estimate(0.0, 0.0, 0.0)
    chance = random.Random(SEED)
    means = sorted(mean(chance.choices(values, k=len(values))) for _ in range(rounds))
    return Estimate(mean(values), means[int(0.025 * rounds)], means[min(int(0.975 * rounds), rounds - 1)])


def difference(after: Sequence[float], before: Sequence[float], rounds: int = ROUNDS) -> Estimate:
    """How much better the first is, question by question (paired bootstrap): noise, if zero lies in the interval."""
    return estimate([new - old for new, old in zip(after, before, strict=True)], rounds)
