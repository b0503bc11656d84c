"""Pooling of token vectors and normalization."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

MIN_NORM = 1e-12


class Pooling(StrEnum):
    FIRST = "cls"
    MEAN = "mean"
    MAX = "max"


def pool_tokens(tokens: NDArray[np.float32], lengths: NDArray[np.int32], pooling: Pooling) -> NDArray[np.float32]:
    """Pool an array [text, position, feature] to one vector for each text, ignoring padding."""
    if pooling is Pooling.FIRST:
        return tokens[:, 0]
    inside = (np.arange(tokens.shape[1]) < lengths[:, None])[:, :, None]
    if pooling is Pooling.MAX:
        highest: NDArray[np.float32] = np.where(inside, tokens, np.float32(-np.inf)).max(axis=1)
        return highest
    mean: NDArray[np.float32] = np.where(inside, tokens, np.float32(0)).sum(axis=1) / lengths[:, None].astype(
        np.float32
    )
    return mean


def scale_to_unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.divide(vectors, np.maximum(norms, np.float32(MIN_NORM)), dtype=np.float32)
    return scaled
