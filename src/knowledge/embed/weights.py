"""The weights of BERT and its relatives out of a safetensors file, under the names our own graph uses."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.embed.layout import position_offset
from knowledge.embed.transformer import Layer, Linear, Norm, Weights
from knowledge.errors import ModelUnavailable
from knowledge.model import Json

SUPPORTED = ("bert", "roberta", "xlm-roberta")
PREFIXES = ("bert.", "roberta.")
DEFAULT_EPSILON = 1e-12

Floats: TypeAlias = NDArray[np.float32]


def supported(settings: Json) -> bool:
    """Whether our graph computes what this model's config.json describes."""
    return (
        settings.get("model_type") in SUPPORTED
        and settings.get("hidden_act", "gelu") == "gelu"
        and settings.get("position_embedding_type", "absolute") == "absolute"
        and not settings.get("is_decoder")
    )


def read(path: Path, settings: Json) -> Weights:
    if not supported(settings):
        raise ModelUnavailable(
            f"{path} holds a model of type {settings.get('model_type', 'unknown')!r}, which is not supported",
            hint=f"Supported are {', '.join(SUPPORTED)} with gelu, or any model exported as model.onnx.",
            path=str(path),
        )
    try:
        tensors = _tensors(path)
        return _Reader(tensors).weights(settings)
    except KeyError as error:
        raise ModelUnavailable(f"{path} lacks the weights {error}", path=str(path)) from error
    except Exception as error:  # the library's own errors and whatever a broken file makes of numpy
        raise ModelUnavailable(f"{path} could not be read: {error}", path=str(path)) from error


def _tensors(path: Path) -> dict[str, Floats]:
    from safetensors.numpy import load_file

    tensors: dict[str, Floats] = {}
    for name, array in load_file(path).items():
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
        if array.dtype.kind in "fV":  # V: the brain float of ml_dtypes; position ids and the like are left
            tensors[name.removeprefix(prefix)] = array.astype(np.float32, copy=False)
    return tensors


class _Reader:
    def __init__(self, tensors: dict[str, Floats]) -> None:
        self._tensors = tensors

    def weights(self, settings: Json) -> Weights:
        words = self._tensors["embeddings.word_embeddings.weight"]
        places = self._tensors["embeddings.position_embeddings.weight"][position_offset(settings) :]
        return Weights(
            words=lambda ids: words[ids],
            positions=places + self._tensors["embeddings.token_type_embeddings.weight"][0],
            norm=self._norm("embeddings.LayerNorm"),
            layers=[
                self._layer(f"encoder.layer.{number}.") for number in range(_number(settings, "num_hidden_layers"))
            ],
            heads=_number(settings, "num_attention_heads"),
            epsilon=float(str(settings.get("layer_norm_eps", DEFAULT_EPSILON))),
        )

    def _layer(self, prefix: str) -> Layer:
        parts = [self._linear(f"{prefix}attention.self.{part}") for part in ("query", "key", "value")]
        attention = Linear(
            np.concatenate([part.weight for part in parts], axis=1), np.concatenate([part.bias for part in parts])
        )
        return Layer(
            attention=attention,
            attention_output=self._linear(prefix + "attention.output.dense"),
            attention_norm=self._norm(prefix + "attention.output.LayerNorm"),
            widen=self._linear(prefix + "intermediate.dense"),
            narrow=self._linear(prefix + "output.dense"),
            norm=self._norm(prefix + "output.LayerNorm"),
        )

    def _linear(self, name: str) -> Linear:
        return Linear(self._tensors[name + ".weight"].T, self._tensors[name + ".bias"])

    def _norm(self, name: str) -> Norm:
        return Norm(self._tensors[name + ".weight"], self._tensors[name + ".bias"])


def _number(settings: Json, name: str) -> int:
    value = settings[name]
    if not isinstance(value, int):
        raise ModelUnavailable(f"config.json has no whole number for {name}")
    return value
