"""The encoder that BERT and its relatives share, as one fused graph: embedded tokens in, their vectors out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.embed.graph import STANDARD, Graph
from knowledge.embed.pooling import Pooling, pool

Floats: TypeAlias = NDArray[np.float32]
Numbers: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Linear:
    weight: Floats
    """Inputs down, outputs across."""
    bias: Floats


@dataclass(frozen=True, slots=True)
class Norm:
    scale: Floats
    shift: Floats


@dataclass(frozen=True, slots=True)
class Layer:
    attention: Linear
    """Queries, keys and values side by side."""
    attention_output: Linear
    attention_norm: Norm
    widen: Linear
    narrow: Linear
    norm: Norm


@dataclass(frozen=True, slots=True)
class Weights:
    words: Callable[[Numbers], Floats]
    """Looks up the rows of token ids; kept out of the graph, so that the table can stay on disk."""
    positions: Floats
    """One row a place in the text, with the segment's row already added."""
    norm: Norm
    layers: Sequence[Layer]
    heads: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Int8:
    """Eight-bit products, except for those whose inputs have outliers that eight bits cannot hold."""

    signed: bool
    """Where signed weights would saturate, unsigned ones take a slower road that does not."""
    exact: frozenset[tuple[int, str]] = frozenset()
    """(layer, "attention_output", "widen" or "narrow")."""


class Transformer:
    """Runs batches; several threads may call it at once."""

    def __init__(self, weights: Weights, pooling: Pooling, int8: Int8 | None = None) -> None:
        self._words, self._positions, self._pooling = weights.words, weights.positions, pooling
        self._session = _Builder(weights, int8, only_first=pooling is Pooling.FIRST).graph.session()

    def __call__(self, ids: Numbers, lengths: Numbers) -> Floats:
        return pool(self.tokens(ids, lengths), lengths, self._pooling)

    def tokens(self, ids: Numbers, lengths: Numbers) -> Floats:
        """The vector of every token; of the first alone where the pooling takes no other."""
        embedded = self._words(ids)
        embedded += self._positions[: ids.shape[1]]
        (tokens,) = self._session.run(["tokens"], {"embedded": embedded, "lengths": lengths})
        found: Floats = tokens
        return found


class _Builder:
    def __init__(self, weights: Weights, int8: Int8 | None, *, only_first: bool) -> None:
        self.graph = Graph()
        self._weights, self._int8 = weights, int8
        width = weights.norm.scale.size
        value = self.graph.input("embedded", np.float32, ["batch", "length", width])
        self.graph.input("lengths", np.int32, ["batch"])
        value = self.graph.add(
            "LayerNormalization", [value, *self._norm(weights.norm)], domain=STANDARD, axis=-1, epsilon=weights.epsilon
        )
        for number, layer in enumerate(weights.layers):
            value = self._layer(value, number, layer, only_first and number == len(weights.layers) - 1)
        self.graph.add("Identity", [value], domain=STANDARD, output="tokens")
        self.graph.output("tokens", np.float32, ["batch", "outputs", width])

    def _layer(self, value: str, number: int, layer: Layer, only_first: bool) -> str:
        attended = self._attention(value, layer.attention)
        if only_first:  # nobody looks at the others after this, and they would cost an eighth of the whole
            value, attended = self._first(value), self._first(attended)
        attended = self._product(attended, layer.attention_output.weight, (number, "attention_output"))
        value = self._add_and_norm(attended, value, layer.attention_norm, layer.attention_output.bias)
        wide = self._product(value, layer.widen.weight, (number, "widen"))
        wide = self.graph.add("BiasGelu", [wide, self.graph.constant(layer.widen.bias)])
        narrow = self._product(wide, layer.narrow.weight, (number, "narrow"))
        return self._add_and_norm(narrow, value, layer.norm, layer.narrow.bias)

    def _first(self, value: str) -> str:
        return self.graph.add("Gather", [value, self.graph.constant(np.zeros(1, np.int64))], domain=STANDARD, axis=1)

    def _attention(self, value: str, linear: Linear) -> str:
        graph, heads, bias = self.graph, self._weights.heads, self.graph.constant(linear.bias)
        if self._int8 is None:
            return graph.add("Attention", [value, graph.constant(linear.weight), bias, "lengths"], num_heads=heads)
        weight, scale, zero = self._quantised(linear.weight, self._int8)
        value, value_scale, value_zero = graph.add_many("DynamicQuantizeLinear", [value], [""] * 3, domain=STANDARD)
        inputs = [value, weight, bias, value_scale, scale, "lengths", value_zero, zero]
        return graph.add("QAttention", inputs, num_heads=heads)

    def _product(self, value: str, weight: Floats, place: tuple[int, str]) -> str:
        if self._int8 is None or place in self._int8.exact:
            return self.graph.add("MatMul", [value, self.graph.constant(weight)], domain=STANDARD)
        return self.graph.add("DynamicQuantizeMatMul", [value, *self._quantised(weight, self._int8)])

    def _quantised(self, weight: Floats, int8: Int8) -> list[str]:
        """Weight, scale and zero, as the eight-bit operators want them."""
        return [self.graph.constant(array) for array in quantise(weight, signed=int8.signed)]

    def _add_and_norm(self, value: str, residual: str, norm: Norm, bias: Floats) -> str:
        inputs = [value, residual, *self._norm(norm), self.graph.constant(bias)]
        return self.graph.add("SkipLayerNormalization", inputs, epsilon=self._weights.epsilon)

    def _norm(self, norm: Norm) -> list[str]:
        return [self.graph.constant(norm.scale), self.graph.constant(norm.shift)]


def quantise(weight: Floats, *, signed: bool) -> tuple[Bytes, Floats, Bytes]:
    """Eight-bit columns, the scale of each, and the number that stands for zero."""
    scale = (np.abs(weight).max(axis=0) / np.float32(127)).astype(np.float32)
    scale[scale == 0] = 1
    rounded = np.rint(weight / scale)
    if signed:
        return rounded.astype(np.int8), scale, np.zeros(scale.size, np.int8)
    return (rounded + 128).astype(np.uint8), scale, np.full(scale.size, 128, np.uint8)
