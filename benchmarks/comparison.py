"""Statistics for comparing search quality: paired bootstrap over several sets, AUC, shares above a threshold."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from knowledge.engine.evaluate import BOOTSTRAP_ROUNDS, BOOTSTRAP_SEED, MeanEstimate, mean

Pairs = tuple[Sequence[float], Sequence[float]]
"""Values of one set of questions after and before a change, in the same order."""


def mean_difference(sets: Sequence[Pairs], rounds: int = BOOTSTRAP_ROUNDS) -> MeanEstimate:
    """Return the mean of the sets' mean differences with a 95 % interval from a paired bootstrap within each set."""
    gains = [[new - old for new, old in zip(after, before, strict=True)] for after, before in sets]
    chance = random.Random(BOOTSTRAP_SEED)
    means = sorted(mean([mean(chance.choices(one, k=len(one))) for one in gains]) for _ in range(rounds))
    return MeanEstimate(mean([mean(one) for one in gains]), means[int(0.025 * rounds)], means[int(0.975 * rounds)])


def compute_auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return the area under the ROC curve; ties count half, and 0.5 is chance."""
    if not higher or not lower:
        return 0.5
    ordered = sorted(lower)
    return mean([(bisect_left(ordered, one) + bisect_right(ordered, one)) / 2 for one in higher]) / len(lower)


def share_above(values: Sequence[float], threshold: float) -> float:
    """Return the share of values that are at least the threshold."""
    return mean([float(value >= threshold) for value in values])
