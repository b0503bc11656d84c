"""Any model in a folder of the sentence-transformers layout: ONNX, or the safetensors of BERT and its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from knowledge.embed import layout, weights
from knowledge.embed.base import Vectors
from knowledge.embed.batches import Batches, Run
from knowledge.embed.graph import session_options
from knowledge.embed.layout import Layout
from knowledge.embed.pooling import Pooling, pool
from knowledge.embed.transformer import Transformer
from knowledge.errors import ModelUnavailable

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SUMMED_UP = "sentence_embedding"


class Directory:
    languages: frozenset[str] | None = None

    def __init__(self, folder: Path, name: str | None = None, threads: int = 0) -> None:
        self._layout = layout.read(folder)
        self.name = name or folder.resolve().name
        self.max_tokens = self._layout.window
        tokenizer = self._layout.tokenizer()
        run, file = load(self._layout)
        self.dimension = _dimension(run, folder)
        self.fingerprint = f"{self.name}/{self._layout.fingerprint(file)}"
        self._batches = Batches(tokenizer, run, self.dimension, self._layout.padding, self._layout.window, threads)

    def embed(self, passages: Sequence[str]) -> Vectors:
        prompt = self._layout.passage_prompt
        return self._batches.embed([prompt + passage for passage in passages] if prompt else passages)

    def embed_question(self, question: str) -> Vectors:
        return self._batches.embed_alone(self._layout.question_prompt + question)

    def close(self) -> None:
        self._batches.close()


def load(model: Layout) -> tuple[Run, Path]:
    """What runs the model, and the file it came from: our own graph where it fits, since that is the faster one."""
    file, exported = model.folder / layout.SAFETENSORS, layout.onnx_file(model.folder)
    if file.is_file() and (weights.supported(model.settings) or exported is None):
        return Transformer(weights.read(file, model.settings), model.pooling), file
    if exported is None:
        raise ModelUnavailable(
            f"There is neither {layout.SAFETENSORS} nor an ONNX file in {model.folder}",
            hint=layout.HINT,
            path=str(model.folder),
        )
    return Exported(exported, model.pooling), exported


class Exported:
    """A model that came as ONNX; several threads may call it at once."""

    def __init__(self, path: Path, pooling: Pooling) -> None:
        self._session = _session(path)
        self._pooling = pooling
        self._inputs = {value.name for value in self._session.get_inputs()}
        if unknown := self._inputs.difference(INPUTS):
            raise ModelUnavailable(
                f"{path} asks for {', '.join(sorted(unknown))}, which is not known here",
                hint=f"Export a text model whose inputs are among {', '.join(INPUTS)}.",
                path=str(path),
            )
        outputs = [value.name for value in self._session.get_outputs()]
        self._output = SUMMED_UP if SUMMED_UP in outputs else outputs[0]

    def __call__(self, ids: NDArray[np.int32], lengths: NDArray[np.int32]) -> NDArray[np.float32]:
        inside = np.arange(ids.shape[1]) < lengths[:, None]
        values = (ids.astype(np.int64), inside.astype(np.int64), np.zeros(ids.shape, np.int64))
        feed = {name: value for name, value in zip(INPUTS, values, strict=True) if name in self._inputs}
        (output,) = self._session.run([self._output], feed)
        output = output.astype(np.float32, copy=False)
        return output if output.ndim == 2 else pool(output, lengths, self._pooling)


def _session(path: Path) -> InferenceSession:
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(str(path), session_options(), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class of its own for each of many reasons
        raise ModelUnavailable(f"{path} could not be loaded: {error}", path=str(path)) from error


def _dimension(run: Run, folder: Path) -> int:
    """Ask the model: what the files say about it is not always there, or true."""
    try:
        vectors = run(np.zeros((1, 2), np.int32), np.full(1, 2, np.int32))
    except Exception as error:
        raise ModelUnavailable(f"The model in {folder} does not run: {error}", path=str(folder)) from error
    return int(vectors.shape[1])


def tokenizer(folder: Path) -> Tokenizer:
    """For counting: it neither cuts nor pads."""
    return layout.read(folder).tokenizer()
