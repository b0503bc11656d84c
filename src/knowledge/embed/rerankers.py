"""Reranking models: token vectors of the default model, and a cross-encoder from a folder.

The token vectors come from the fourth layer, because the last layers gather the meaning in the first token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from knowledge.embed import model_file
from knowledge.embed.batches import fit_to_window, pad_rows, tokenize_passages
from knowledge.embed.cpu_features import has_exact_signed_products, has_fast_int8
from knowledge.embed.embedder import Vectors
from knowledge.embed.granite import (
    LAST_LAYER_PRODUCTS,
    OUTLIER_PRODUCTS,
    PADDING_ID,
    WINDOW_TOKENS,
    Int8Setting,
    build_weights,
    load_tokenizer,
)
from knowledge.embed.onnx_graph import make_session_options
from knowledge.embed.pooling import Pooling
from knowledge.embed.transformer import Int8Options, Transformer
from knowledge.errors import ModelUnavailable

LAYER_COUNT = 4
MIN_NORM = 1e-12

TokenVectors = NDArray[np.float16]
"""One row of unit length for each token, without special tokens."""

MAX_TOKENS = 512
MODEL_FILES = ("model.onnx", "onnx/model.onnx")


@dataclass(frozen=True, slots=True)
class QuestionTokens:
    vectors: Vectors
    spans: tuple[tuple[int, int], ...]
    """Character offsets of each token in the query."""


class GraniteTokenEmbedder:
    """Computes token vectors for late interaction (ColBERT's MaxSim)."""

    def __init__(self, int8: Int8Setting = "auto", path: Path | None = None) -> None:
        source = model_file.read_model_file(path or model_file.find_model_file())
        exact = int8 == "on" or (int8 == "auto" and has_fast_int8())
        arithmetic = Int8Options(has_exact_signed_products(), OUTLIER_PRODUCTS | LAST_LAYER_PRODUCTS) if exact else None
        whole = build_weights(source)
        self._transformer = Transformer(replace(whole, layers=whole.layers[:LAYER_COUNT]), Pooling.MEAN, arithmetic)
        self._tokenizer = load_tokenizer(path)

    def tokenize_passages(self, passages: Sequence[str]) -> list[list[int]]:
        return tokenize_passages(self._tokenizer, passages, WINDOW_TOKENS)

    def embed_tokens(self, rows: Sequence[Sequence[int]]) -> list[TokenVectors]:
        """Return the token vectors of tokenized passages, run as one batch."""
        ids, lengths = pad_rows(rows, PADDING_ID)
        tokens = _scale_to_unit_length(self._transformer.run_tokens(ids, lengths))
        return [row[1 : length - 1].astype(np.float16) for row, length in zip(tokens, lengths, strict=True)]

    def embed_question(self, text: str) -> QuestionTokens:
        encoding = self._tokenizer.encode(text)
        ids, lengths = pad_rows([fit_to_window(encoding, WINDOW_TOKENS)], PADDING_ID)
        tokens = _scale_to_unit_length(self._transformer.run_tokens(ids, lengths))[0]
        return QuestionTokens(tokens[1:-1], tuple(encoding.offsets[1 : len(tokens) - 1]))


def _scale_to_unit_length(tokens: Vectors) -> Vectors:
    norms = np.linalg.norm(tokens, axis=-1, keepdims=True)
    unit: Vectors = tokens / np.maximum(norms, np.float32(MIN_NORM))
    return unit


class CrossEncoder:
    def __init__(self, folder: Path) -> None:
        import onnxruntime

        model = next((folder / name for name in MODEL_FILES if (folder / name).is_file()), None)
        if model is None or not (folder / "tokenizer.json").is_file():
            raise ModelUnavailable(
                f"{folder} contains no cross-encoder",
                hint="KNOWLEDGE_RERANKER=dir:PATH needs a folder with model.onnx and tokenizer.json.",
                path=str(folder),
            )
        try:
            self._session = onnxruntime.InferenceSession(str(model), make_session_options(), ["CPUExecutionProvider"])
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # onnxruntime and tokenizers have no common error class
            raise ModelUnavailable(f"The cross-encoder in {folder} could not be read: {error}") from error
        self._tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")
        self._tokenizer.enable_padding()
        self._inputs = {each.name for each in self._session.get_inputs()}

    def score_passages(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Return the relevance of each passage, from 0 to 1."""
        encoded = self._tokenizer.encode_batch([(question, passage) for passage in passages])
        inputs = {
            "input_ids": np.array([each.ids for each in encoded], np.int64),
            "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
            "token_type_ids": np.array([each.type_ids for each in encoded], np.int64),
        }
        (logits,) = self._session.run(None, {name: each for name, each in inputs.items() if name in self._inputs})[:1]
        rows: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-logits.reshape(len(passages), -1)[:, -1].astype(np.float64)))
        return rows
