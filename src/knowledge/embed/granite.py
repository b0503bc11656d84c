"""The default model, granite-embedding-30m-english: English, 384 dimensions, loaded from an installed package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tokenizers import Tokenizer

from knowledge.embed import model_file
from knowledge.embed.batches import BatchRunner
from knowledge.embed.cpu_features import has_exact_signed_products, has_fast_int8
from knowledge.embed.embedder import Vectors
from knowledge.embed.pooling import Pooling
from knowledge.embed.transformer import (
    Int8Options,
    LayerWeights,
    LinearWeights,
    NormWeights,
    Transformer,
    TransformerWeights,
)

NAME = "granite-embedding-30m-english"
DIMENSION = 384
WINDOW_TOKENS = 256
# The model supports 512, but retrieval is better with passages of up to 256.
PADDING_ID = 1
OUTLIER_PRODUCTS = frozenset({(0, "narrow"), (3, "narrow"), (1, "widen"), (2, "widen"), (2, "narrow"), (4, "narrow")})
# Matrix products with activation outliers stay in float32.
LAST_LAYER_PRODUCTS = frozenset({(5, "attention_output"), (5, "widen"), (5, "narrow")})
# The last layer computes one token of each text, so int8 saves nothing there.

Int8Setting = Literal["auto", "on", "off"]


class GraniteEmbedder:
    name = NAME
    dimension = DIMENSION
    languages = frozenset({"en"})
    # int8 is not part of it: the vectors agree to .995, and a data folder may be moved to another CPU.
    fingerprint = f"{NAME}/cls/{WINDOW_TOKENS}/{model_file.SHA256[:16]}"

    def __init__(self, int8: Int8Setting = "auto", threads: int = 0, path: Path | None = None) -> None:
        source = model_file.read_model_file(path or model_file.find_model_file())
        self.int8 = int8 == "on" or (int8 == "auto" and has_fast_int8())
        arithmetic = (
            Int8Options(has_exact_signed_products(), OUTLIER_PRODUCTS | LAST_LAYER_PRODUCTS) if self.int8 else None
        )
        run = Transformer(build_weights(source), Pooling.FIRST, arithmetic)
        self._batches = BatchRunner(load_tokenizer(path), run, DIMENSION, PADDING_ID, WINDOW_TOKENS, threads)

    def embed(self, passages: Sequence[str]) -> Vectors:
        return self._batches.embed(passages)

    def embed_question(self, question: str) -> Vectors:
        return self._batches.embed_one(question)

    def close(self) -> None:
        self._batches.close()


@lru_cache(maxsize=1)  # parsing holds the GIL for about 0.1 s
def load_tokenizer(path: Path | None = None) -> Tokenizer:
    """Return the tokenizer without truncation and padding, for embedding and for counting."""
    return Tokenizer.from_str(model_file.read_model_file(path or model_file.find_model_file()).tokenizer)


def build_weights(source: model_file.ModelFile) -> TransformerWeights:
    positions = source.arrays["pos_emb"][source.position_offset :] + source.arrays["type_emb"][0]
    return TransformerWeights(
        look_up_words=source.quantised["word_emb"].look_up_rows,
        positions=positions,
        norm=_build_norm(source, "emb_ln"),
        layers=[_build_layer(source, f"l{number}.") for number in range(source.layers)],
        heads=source.heads,
        epsilon=source.epsilon,
    )


def _build_layer(source: model_file.ModelFile, prefix: str) -> LayerWeights:
    return LayerWeights(
        attention=_build_linear(source, prefix + "qkv"),
        attention_output=_build_linear(source, prefix + "ao"),
        attention_norm=_build_norm(source, prefix + "aln"),
        widen=_build_linear(source, prefix + "f1"),
        narrow=_build_linear(source, prefix + "f2"),
        norm=_build_norm(source, prefix + "fln"),
    )


def _build_linear(source: model_file.ModelFile, name: str) -> LinearWeights:
    return LinearWeights(source.quantised[name + ".w"].to_columns(), source.arrays[name + ".b"])


def _build_norm(source: model_file.ModelFile, name: str) -> NormWeights:
    return NormWeights(source.arrays[name + ".w"], source.arrays[name + ".b"])
