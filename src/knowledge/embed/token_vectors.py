"""Vectors of single tokens, for comparing a question with a passage word by word: the default model's fourth layer.

The last layers of that model gather everything in the first token, so their other tokens say little; not so the fourth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.embed import model_file
from knowledge.embed.base import Vectors
from knowledge.embed.batches import fitting, padded, passage_ids
from knowledge.embed.cpu_features import multiplies_int8, signed_products_are_exact
from knowledge.embed.granite import FREE, OUTLIERS, PADDING, WINDOW, Arithmetic, tokenizer, weights
from knowledge.embed.pooling import Pooling
from knowledge.embed.transformer import Int8, Transformer

LAYERS = 4
TINY = 1e-12

TokenVectors = NDArray[np.float16]
"""One row a token, each of unit length, without the marks at both ends."""


@dataclass(frozen=True, slots=True)
class QuestionTokens:
    vectors: Vectors
    spans: tuple[tuple[int, int], ...]
    """Where each token stands in the question."""


class GraniteTokens:
    """Several threads may call it at once."""

    def __init__(self, int8: Arithmetic = "auto", path: Path | None = None) -> None:
        source = model_file.read(path or model_file.pack_path())
        exact = int8 == "on" or (int8 == "auto" and multiplies_int8())
        arithmetic = Int8(signed_products_are_exact(), OUTLIERS | FREE) if exact else None
        whole = weights(source)
        self._transformer = Transformer(replace(whole, layers=whole.layers[:LAYERS]), Pooling.MEAN, arithmetic)
        self._tokenizer = tokenizer(path)

    def ids(self, passages: Sequence[str]) -> list[list[int]]:
        return passage_ids(self._tokenizer, passages, WINDOW)

    def vectors(self, rows: Sequence[Sequence[int]]) -> list[TokenVectors]:
        """The tokens of passages that are run together."""
        ids, lengths = padded(rows, PADDING)
        tokens = _unit(self._transformer.tokens(ids, lengths))
        return [row[1 : length - 1].astype(np.float16) for row, length in zip(tokens, lengths, strict=True)]

    def question(self, text: str) -> QuestionTokens:
        encoding = self._tokenizer.encode(text)
        ids, lengths = padded([fitting(encoding, WINDOW)], PADDING)
        tokens = _unit(self._transformer.tokens(ids, lengths))[0]
        return QuestionTokens(tokens[1:-1], tuple(encoding.offsets[1 : len(tokens) - 1]))


def _unit(tokens: Vectors) -> Vectors:
    norms = np.linalg.norm(tokens, axis=-1, keepdims=True)
    unit: Vectors = tokens / np.maximum(norms, np.float32(TINY))
    return unit
