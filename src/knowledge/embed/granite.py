"""The default model, granite-embedding-30m-english: 384 numbers a passage, English, no network, nothing written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tokenizers import Tokenizer

from knowledge.embed import model_file
from knowledge.embed.base import Vectors
from knowledge.embed.batches import Batches
from knowledge.embed.cpu_features import multiplies_int8, signed_products_are_exact
from knowledge.embed.pooling import Pooling
from knowledge.embed.transformer import Int8, Layer, Linear, Norm, Transformer, Weights

NAME = "granite-embedding-30m-english"
DIMENSION = 384
WINDOW = 256
"""The model can read 512, but passages of up to 256 are found better."""
PADDING = 1
OUTLIERS = frozenset({(0, "narrow"), (3, "narrow"), (1, "widen"), (2, "widen"), (2, "narrow"), (4, "narrow")})
"""Products whose inputs eight bits cannot hold well; found by leaving each out in turn."""
FREE = frozenset({(5, "attention_output"), (5, "widen"), (5, "narrow")})
"""The last layer computes one token of each text only, so nothing is saved there."""

Arithmetic = Literal["auto", "on", "off"]


class Granite:
    name = NAME
    dimension = DIMENSION
    max_tokens = WINDOW
    languages = frozenset({"en"})
    # Eight bits or not is no part of it: the vectors agree to .995, and a data folder may move to another processor.
    fingerprint = f"{NAME}/cls/{WINDOW}/{model_file.SHA256[:16]}"

    def __init__(self, int8: Arithmetic = "auto", threads: int = 0, path: Path | None = None) -> None:
        source = model_file.read(path or model_file.pack_path())
        self.int8 = int8 == "on" or (int8 == "auto" and multiplies_int8())
        arithmetic = Int8(signed_products_are_exact(), OUTLIERS | FREE) if self.int8 else None
        run = Transformer(weights(source), Pooling.FIRST, arithmetic)
        self._batches = Batches(tokenizer(path), run, DIMENSION, PADDING, WINDOW, threads)

    def embed(self, passages: Sequence[str]) -> Vectors:
        return self._batches.embed(passages)

    def embed_question(self, question: str) -> Vectors:
        return self._batches.embed_alone(question)

    def close(self) -> None:
        self._batches.close()


@lru_cache(maxsize=1)  # to read it holds up every other thread for a tenth of a second
def tokenizer(path: Path | None = None) -> Tokenizer:
    """For the model and for counting alike: it neither cuts nor pads."""
    return Tokenizer.from_str(model_file.read(path or model_file.pack_path()).tokenizer)


def weights(source: model_file.Pack) -> Weights:
    positions = source.arrays["pos_emb"][source.position_offset :] + source.arrays["type_emb"][0]
    return Weights(
        words=source.quantised["word_emb"].rows,
        positions=positions,
        norm=_norm(source, "emb_ln"),
        layers=[_layer(source, f"l{number}.") for number in range(source.layers)],
        heads=source.heads,
        epsilon=source.epsilon,
    )


def _layer(source: model_file.Pack, prefix: str) -> Layer:
    return Layer(
        attention=_linear(source, prefix + "qkv"),
        attention_output=_linear(source, prefix + "ao"),
        attention_norm=_norm(source, prefix + "aln"),
        widen=_linear(source, prefix + "f1"),
        narrow=_linear(source, prefix + "f2"),
        norm=_norm(source, prefix + "fln"),
    )


def _linear(source: model_file.Pack, name: str) -> Linear:
    return Linear(source.quantised[name + ".w"].columns(), source.arrays[name + ".b"])


def _norm(source: model_file.Pack, name: str) -> Norm:
    return Norm(source.arrays[name + ".w"], source.arrays[name + ".b"])
