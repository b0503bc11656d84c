"""A cross-encoder out of a folder: model.onnx and tokenizer.json, question and passage read together, one score out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from knowledge.embed.graph import session_options
from knowledge.errors import ModelUnavailable

LONGEST = 512
MODELS = ("model.onnx", "onnx/model.onnx")


class CrossEncoder:
    def __init__(self, folder: Path) -> None:
        import onnxruntime

        model = next((folder / name for name in MODELS if (folder / name).is_file()), None)
        if model is None or not (folder / "tokenizer.json").is_file():
            raise ModelUnavailable(
                f"{folder} holds no cross-encoder",
                hint="KNOWLEDGE_RERANKER=dir:PATH needs model.onnx and tokenizer.json in that folder.",
                path=str(folder),
            )
        try:
            self._session = onnxruntime.InferenceSession(str(model), session_options(), ["CPUExecutionProvider"])
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # whatever the libraries say about a broken file
            raise ModelUnavailable(f"The cross-encoder in {folder} could not be read: {error}") from error
        self._tokenizer.enable_truncation(LONGEST, strategy="only_second")
        self._tokenizer.enable_padding()
        self._inputs = {each.name for each in self._session.get_inputs()}

    def scores(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """How well each passage answers, from 0 to 1."""
        encoded = self._tokenizer.encode_batch([(question, passage) for passage in passages])
        every = {
            "input_ids": np.array([each.ids for each in encoded], np.int64),
            "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
            "token_type_ids": np.array([each.type_ids for each in encoded], np.int64),
        }
        (logits,) = self._session.run(None, {name: each for name, each in every.items() if name in self._inputs})[:1]
        rows: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-logits.reshape(len(passages), -1)[:, -1].astype(np.float64)))
        return rows
