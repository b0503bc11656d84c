"""The one order of everything that is scored: the best first, and of equals the one with the lowest number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best_first(scores: NDArray[np.floating], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the scores stand, the highest first; of equal ones that of the lowest number."""
    order: NDArray[np.int64] = np.negative(scores, dtype=np.float64).argsort()
    ordered = scores.take(order)
    if (ordered[1:] == ordered[:-1]).any():  # seldom, so the way that knows both keys is not taken first: it is slow
        order = np.lexsort((numbers, -scores))
    return order
