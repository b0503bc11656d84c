"""The BERT encoder as one fused ONNX graph, in float32 or int8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.embed.onnx_graph import STANDARD_DOMAIN, OnnxGraph
from knowledge.embed.pooling import Pooling, pool_tokens

Floats: TypeAlias = NDArray[np.float32]
Numbers: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class LinearWeights:
    weight: Floats
    """Shape [inputs, outputs]."""
    bias: Floats


@dataclass(frozen=True, slots=True)
class NormWeights:
    scale: Floats
    shift: Floats


@dataclass(frozen=True, slots=True)
class LayerWeights:
    attention: LinearWeights
    """Concatenated weights of queries, keys and values."""
    attention_output: LinearWeights
    attention_norm: NormWeights
    widen: LinearWeights
    narrow: LinearWeights
    norm: NormWeights


@dataclass(frozen=True, slots=True)
class TransformerWeights:
    look_up_words: Callable[[Numbers], Floats]
    """Looks up the embeddings of token ids outside the graph, so that the table can stay in a memory map."""
    positions: Floats
    """One row for each position, with the segment embedding added."""
    norm: NormWeights
    layers: Sequence[LayerWeights]
    heads: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Int8Options:
    """Dynamic int8 quantization, except for products with activation outliers."""

    signed_weights: bool
    """False where signed products saturate; unsigned weights are slower but exact."""
    exact_products: frozenset[tuple[int, str]] = frozenset()
    """Products that stay in float32, as (layer, "attention_output" | "widen" | "narrow")."""


class Transformer:
    """Runs batches of token ids; thread-safe."""

    def __init__(self, weights: TransformerWeights, pooling: Pooling, int8: Int8Options | None = None) -> None:
        self._look_up_words, self._positions, self._pooling = weights.look_up_words, weights.positions, pooling
        self._session = _GraphBuilder(weights, int8, only_first=pooling is Pooling.FIRST).graph.create_session()

    def __call__(self, ids: Numbers, lengths: Numbers) -> Floats:
        return pool_tokens(self.run_tokens(ids, lengths), lengths, self._pooling)

    def run_tokens(self, ids: Numbers, lengths: Numbers) -> Floats:
        """Return the vectors of all tokens, or of the first token for CLS pooling."""
        embedded = self._look_up_words(ids)
        embedded += self._positions[: ids.shape[1]]
        (tokens,) = self._session.run(["tokens"], {"embedded": embedded, "lengths": lengths})
        found: Floats = tokens
        return found


class _GraphBuilder:
    def __init__(self, weights: TransformerWeights, int8: Int8Options | None, *, only_first: bool) -> None:
        self.graph = OnnxGraph()
        self._weights, self._int8 = weights, int8
        width = weights.norm.scale.size
        value = self.graph.add_input("embedded", np.float32, ["batch", "length", width])
        self.graph.add_input("lengths", np.int32, ["batch"])
        value = self.graph.add_node(
            "LayerNormalization",
            [value, *self._add_norm_constants(weights.norm)],
            domain=STANDARD_DOMAIN,
            axis=-1,
            epsilon=weights.epsilon,
        )
        for number, layer in enumerate(weights.layers):
            value = self._add_layer(value, number, layer, only_first and number == len(weights.layers) - 1)
        self.graph.add_node("Identity", [value], domain=STANDARD_DOMAIN, output="tokens")
        self.graph.add_output("tokens", np.float32, ["batch", "outputs", width])

    def _add_layer(self, value: str, number: int, layer: LayerWeights, only_first: bool) -> str:
        attended = self._add_attention(value, layer.attention)
        if only_first:  # CLS pooling ignores the other tokens, which would cost an eighth of the run
            value, attended = self._add_first_token(value), self._add_first_token(attended)
        attended = self._add_product(attended, layer.attention_output.weight, (number, "attention_output"))
        value = self._add_and_norm(attended, value, layer.attention_norm, layer.attention_output.bias)
        wide = self._add_product(value, layer.widen.weight, (number, "widen"))
        wide = self.graph.add_node("BiasGelu", [wide, self.graph.add_constant(layer.widen.bias)])
        narrow = self._add_product(wide, layer.narrow.weight, (number, "narrow"))
        return self._add_and_norm(narrow, value, layer.norm, layer.narrow.bias)

    def _add_first_token(self, value: str) -> str:
        return self.graph.add_node(
            "Gather", [value, self.graph.add_constant(np.zeros(1, np.int64))], domain=STANDARD_DOMAIN, axis=1
        )

    def _add_attention(self, value: str, linear: LinearWeights) -> str:
        graph, heads, bias = self.graph, self._weights.heads, self.graph.add_constant(linear.bias)
        if self._int8 is None:
            return graph.add_node(
                "Attention", [value, graph.add_constant(linear.weight), bias, "lengths"], num_heads=heads
            )
        weight, scale, zero = self._add_quantised(linear.weight, self._int8)
        value, value_scale, value_zero = graph.add_node_with_outputs(
            "DynamicQuantizeLinear", [value], [""] * 3, domain=STANDARD_DOMAIN
        )
        inputs = [value, weight, bias, value_scale, scale, "lengths", value_zero, zero]
        return graph.add_node("QAttention", inputs, num_heads=heads)

    def _add_product(self, value: str, weight: Floats, place: tuple[int, str]) -> str:
        if self._int8 is None or place in self._int8.exact_products:
            return self.graph.add_node("MatMul", [value, self.graph.add_constant(weight)], domain=STANDARD_DOMAIN)
        return self.graph.add_node("DynamicQuantizeMatMul", [value, *self._add_quantised(weight, self._int8)])

    def _add_quantised(self, weight: Floats, int8: Int8Options) -> list[str]:
        """Add the int8 weight, scale and zero point and return their names."""
        return [self.graph.add_constant(array) for array in quantise_weight(weight, signed=int8.signed_weights)]

    def _add_and_norm(self, value: str, residual: str, norm: NormWeights, bias: Floats) -> str:
        inputs = [value, residual, *self._add_norm_constants(norm), self.graph.add_constant(bias)]
        return self.graph.add_node("SkipLayerNormalization", inputs, epsilon=self._weights.epsilon)

    def _add_norm_constants(self, norm: NormWeights) -> list[str]:
        return [self.graph.add_constant(norm.scale), self.graph.add_constant(norm.shift)]


def quantise_weight(weight: Floats, *, signed: bool) -> tuple[Bytes, Floats, Bytes]:
    """Quantize a weight matrix to int8: symmetric, one scale for each output channel."""
    scale = (np.abs(weight).max(axis=0) / np.float32(127)).astype(np.float32)
    scale[scale == 0] = 1
    rounded = np.rint(weight / scale)
    if signed:
        return rounded.astype(np.int8), scale, np.zeros(scale.size, np.int8)
    return (rounded + 128).astype(np.uint8), scale, np.full(scale.size, 128, np.uint8)
