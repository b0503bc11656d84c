"""Comparing what was measured: differences over several sets, and how well a number tells two kinds apart."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from knowledge.engine.evaluate import BOOTSTRAP_ROUNDS, BOOTSTRAP_SEED, MeanEstimate, mean

Pairs = tuple[Sequence[float], Sequence[float]]
"""The values of one set of questions after and before, in the same order."""


def mean_difference(sets: Sequence[Pairs], rounds: int = BOOTSTRAP_ROUNDS) -> MeanEstimate:
    """The mean of the sets' differences, however large a set; questions are drawn anew within each (paired)."""
    gains = [[new - old for new, old in zip(after, before, strict=True)] for after, before in sets]
    chance = random.Random(BOOTSTRAP_SEED)
    means = sorted(mean([mean(chance.choices(one, k=len(one))) for one in gains]) for _ in range(rounds))
    return MeanEstimate(mean([mean(one) for one in gains]), means[int(0.025 * rounds)], means[int(0.975 * rounds)])


def compute_auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """How often one of the first stands above one of the second; a draw counts half, and 0.5 is mere chance."""
    if not higher or not lower:
        return 0.5
    ordered = sorted(lower)
    return mean([(bisect_left(ordered, one) + bisect_right(ordered, one)) / 2 for one in higher]) / len(lower)


def share_above(values: Sequence[float], threshold: float) -> float:
    """The share of the values that reach the threshold."""
    return mean([float(value >= threshold) for value in values])
