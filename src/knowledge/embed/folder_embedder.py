"""Models in a sentence-transformers folder: ONNX files, or safetensors of BERT, RoBERTa and XLM-RoBERTa."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from knowledge.embed import model_folder
from knowledge.embed.batches import BatchRunner, RunModel
from knowledge.embed.embedder import Vectors
from knowledge.embed.model_folder import ModelFolder, find_position_offset
from knowledge.embed.onnx_graph import make_session_options
from knowledge.embed.pooling import Pooling, pool_tokens
from knowledge.embed.transformer import LayerWeights, LinearWeights, NormWeights, Transformer, TransformerWeights
from knowledge.errors import ModelUnavailable
from knowledge.model import Json

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MODEL_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POOLED_OUTPUT = "sentence_embedding"

SUPPORTED_MODEL_TYPES = ("bert", "roberta", "xlm-roberta")
TENSOR_PREFIXES = ("bert.", "roberta.")
DEFAULT_EPSILON = 1e-12

Floats: TypeAlias = NDArray[np.float32]


class FolderEmbedder:
    languages: frozenset[str] | None = None

    def __init__(self, folder: Path, name: str | None = None, threads: int = 0) -> None:
        self._layout = model_folder.read_model_folder(folder)
        self.name = name or folder.resolve().name
        tokenizer = self._layout.load_tokenizer()
        run, file = load_model(self._layout)
        self.dimension = _measure_dimension(run, folder)
        self.fingerprint = f"{self.name}/{self._layout.compute_fingerprint(file)}"
        self._batches = BatchRunner(tokenizer, run, self.dimension, self._layout.padding, self._layout.window, threads)

    def embed(self, passages: Sequence[str]) -> Vectors:
        prompt = self._layout.passage_prompt
        return self._batches.embed([prompt + passage for passage in passages] if prompt else passages)

    def embed_question(self, question: str) -> Vectors:
        return self._batches.embed_one(self._layout.question_prompt + question)

    def close(self) -> None:
        self._batches.close()


def load_model(model: ModelFolder) -> tuple[RunModel, Path]:
    """Return the model and its file; safetensors are preferred where our graph supports them, because it is faster."""
    file, exported = model.folder / model_folder.SAFETENSORS_FILE, model_folder.find_onnx_file(model.folder)
    if file.is_file() and (is_supported(model.settings) or exported is None):
        return Transformer(read_weights(file, model.settings), model.pooling), file
    if exported is None:
        raise ModelUnavailable(
            f"{model.folder} contains neither {model_folder.SAFETENSORS_FILE} nor an ONNX file",
            hint=model_folder.HINT,
            path=str(model.folder),
        )
    return OnnxModel(exported, model.pooling), exported


class OnnxModel:
    """A model from an ONNX file; thread-safe."""

    def __init__(self, path: Path, pooling: Pooling) -> None:
        self._session = _open_session(path)
        self._pooling = pooling
        self._inputs = {value.name for value in self._session.get_inputs()}
        if unknown := self._inputs.difference(MODEL_INPUTS):
            raise ModelUnavailable(
                f"{path} has unsupported inputs: {', '.join(sorted(unknown))}",
                hint=f"Export a text model whose inputs are among {', '.join(MODEL_INPUTS)}.",
                path=str(path),
            )
        outputs = [value.name for value in self._session.get_outputs()]
        self._output = POOLED_OUTPUT if POOLED_OUTPUT in outputs else outputs[0]

    def __call__(self, ids: NDArray[np.int32], lengths: NDArray[np.int32]) -> NDArray[np.float32]:
        inside = np.arange(ids.shape[1]) < lengths[:, None]
        values = (ids.astype(np.int64), inside.astype(np.int64), np.zeros(ids.shape, np.int64))
        feed = {name: value for name, value in zip(MODEL_INPUTS, values, strict=True) if name in self._inputs}
        (output,) = self._session.run([self._output], feed)
        output = output.astype(np.float32, copy=False)
        return output if output.ndim == 2 else pool_tokens(output, lengths, self._pooling)


def _open_session(path: Path) -> InferenceSession:
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(str(path), make_session_options(), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many classes without a common base
        raise ModelUnavailable(f"{path} could not be loaded: {error}", path=str(path)) from error


def _measure_dimension(run: RunModel, folder: Path) -> int:
    """Run the model once and return the length of its vectors, because config files may lack it or be wrong."""
    try:
        vectors = run(np.zeros((1, 2), np.int32), np.full(1, 2, np.int32))
    except Exception as error:
        raise ModelUnavailable(f"The model in {folder} does not run: {error}", path=str(folder)) from error
    return int(vectors.shape[1])


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the model's tokenizer without truncation and padding."""
    return model_folder.read_model_folder(folder).load_tokenizer()


def is_supported(settings: Json) -> bool:
    """Return whether our graph implements the architecture in this config.json."""
    return (
        settings.get("model_type") in SUPPORTED_MODEL_TYPES
        and settings.get("hidden_act", "gelu") == "gelu"
        and settings.get("position_embedding_type", "absolute") == "absolute"
        and not settings.get("is_decoder")
    )


def read_weights(path: Path, settings: Json) -> TransformerWeights:
    if not is_supported(settings):
        raise ModelUnavailable(
            f"{path} holds a model of type {settings.get('model_type', 'unknown')!r}, which is not supported",
            hint=f"Use {', '.join(SUPPORTED_MODEL_TYPES)} with gelu, or export the model as model.onnx.",
            path=str(path),
        )
    try:
        tensors = _load_tensors(path)
        return _WeightsBuilder(tensors).build_weights(settings)
    except KeyError as error:
        raise ModelUnavailable(f"{path} has no tensor {error}", path=str(path)) from error
    except Exception as error:  # safetensors' own errors, and numpy's for a broken file
        raise ModelUnavailable(f"{path} could not be read: {error}", path=str(path)) from error


def _load_tensors(path: Path) -> dict[str, Floats]:
    from safetensors.numpy import load_file

    tensors: dict[str, Floats] = {}
    for name, array in load_file(path).items():
        prefix = next((prefix for prefix in TENSOR_PREFIXES if name.startswith(prefix)), "")
        if array.dtype.kind in "fV":  # V is bfloat16 of ml_dtypes; integer tensors such as position ids are skipped
            tensors[name.removeprefix(prefix)] = array.astype(np.float32, copy=False)
    return tensors


class _WeightsBuilder:
    def __init__(self, tensors: dict[str, Floats]) -> None:
        self._tensors = tensors

    def build_weights(self, settings: Json) -> TransformerWeights:
        words = self._tensors["embeddings.word_embeddings.weight"]
        places = self._tensors["embeddings.position_embeddings.weight"][find_position_offset(settings) :]
        return TransformerWeights(
            look_up_words=lambda ids: words[ids],
            positions=places + self._tensors["embeddings.token_type_embeddings.weight"][0],
            norm=self._build_norm("embeddings.LayerNorm"),
            layers=[
                self._build_layer(f"encoder.layer.{number}.")
                for number in range(_read_integer(settings, "num_hidden_layers"))
            ],
            heads=_read_integer(settings, "num_attention_heads"),
            epsilon=float(str(settings.get("layer_norm_eps", DEFAULT_EPSILON))),
        )

    def _build_layer(self, prefix: str) -> LayerWeights:
        parts = [self._build_linear(f"{prefix}attention.self.{part}") for part in ("query", "key", "value")]
        attention = LinearWeights(
            np.concatenate([part.weight for part in parts], axis=1), np.concatenate([part.bias for part in parts])
        )
        return LayerWeights(
            attention=attention,
            attention_output=self._build_linear(prefix + "attention.output.dense"),
            attention_norm=self._build_norm(prefix + "attention.output.LayerNorm"),
            widen=self._build_linear(prefix + "intermediate.dense"),
            narrow=self._build_linear(prefix + "output.dense"),
            norm=self._build_norm(prefix + "output.LayerNorm"),
        )

    def _build_linear(self, name: str) -> LinearWeights:
        return LinearWeights(self._tensors[name + ".weight"].T, self._tensors[name + ".bias"])

    def _build_norm(self, name: str) -> NormWeights:
        return NormWeights(self._tensors[name + ".weight"], self._tensors[name + ".bias"])


def _read_integer(settings: Json, name: str) -> int:
    value = settings[name]
    if not isinstance(value, int):
        raise ModelUnavailable(f"config.json: {name} must be an integer, not {value!r}")
    return value
