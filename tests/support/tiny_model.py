"""A tiny BERT with random weights, a small tokenizer, and a numpy reference implementation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "tea", "coffee", "kitchen", "noon", "query", "passage", "cup", "of"]
HIDDEN_SIZE, INTERMEDIATE_SIZE, HEADS, LAYERS, MAX_POSITIONS = 16, 32, 4, 2, 24
WINDOW = 12
Floats = NDArray[np.float32]


def make_tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def make_weights(seed: int = 7) -> dict[str, Floats]:
    random = np.random.default_rng(seed)

    def linear(name: str, outputs: int, inputs: int) -> dict[str, Floats]:
        return {name + ".weight": draw(outputs, inputs), name + ".bias": draw(outputs)}

    def norm(name: str) -> dict[str, Floats]:
        return {name + ".weight": 1 + draw(HIDDEN_SIZE), name + ".bias": draw(HIDDEN_SIZE)}

    def draw(*shape: int) -> Floats:
        return random.normal(0, 0.3, shape).astype(np.float32)

    made = {
        "embeddings.word_embeddings.weight": draw(len(WORDS), HIDDEN_SIZE),
        "embeddings.position_embeddings.weight": draw(MAX_POSITIONS, HIDDEN_SIZE),
        "embeddings.token_type_embeddings.weight": draw(2, HIDDEN_SIZE),
        **norm("embeddings.LayerNorm"),
    }
    for number in range(LAYERS):
        prefix = f"encoder.layer.{number}."
        for part in ("query", "key", "value"):
            made |= linear(prefix + "attention.self." + part, HIDDEN_SIZE, HIDDEN_SIZE)
        made |= linear(prefix + "attention.output.dense", HIDDEN_SIZE, HIDDEN_SIZE) | norm(
            prefix + "attention.output.LayerNorm"
        )
        made |= linear(prefix + "intermediate.dense", INTERMEDIATE_SIZE, HIDDEN_SIZE) | linear(
            prefix + "output.dense", HIDDEN_SIZE, INTERMEDIATE_SIZE
        )
        made |= norm(prefix + "output.LayerNorm")
    return made


def write_model_folder(
    path: Path, *, pooling: str = "mean_tokens", prompts: dict[str, str] | None = None, offset: int = 0
) -> Path:
    """Write a sentence-transformers folder without weights."""
    (path / "1_Pooling").mkdir(parents=True)
    make_tokenizer().save(str(path / "tokenizer.json"))
    settings = {
        "model_type": "roberta" if offset else "bert",
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": MAX_POSITIONS,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": offset - 1 if offset else 0,
    }
    modules = [{"type": "sentence_transformers.models." + kind} for kind in ("Transformer", "Pooling", "Normalize")]
    write_json(path / "config.json", settings)
    write_json(path / "modules.json", modules)
    write_json(path / "sentence_bert_config.json", {"max_seq_length": WINDOW})
    write_json(
        path / "1_Pooling/config.json", {"word_embedding_dimension": HIDDEN_SIZE, f"pooling_mode_{pooling}": True}
    )
    write_json(path / "config_sentence_transformers.json", {"prompts": prompts or {}})
    return path


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def write_word_table_onnx(path: Path, *, summed_up: bool = False, extra_input: str | None = None) -> None:
    """Write an ONNX model that looks up each token in a table."""
    table = make_weights()["embeddings.word_embeddings.weight"]
    names = ["input_ids", "attention_mask", *([extra_input] if extra_input else [])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", HIDDEN_SIZE])]
    if summed_up:
        nodes.append(helper.make_node("ReduceMax", ["last_hidden_state"], ["sentence_embedding"], axes=[1], keepdims=0))
        outputs.append(helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", HIDDEN_SIZE]))
    graph = helper.make_graph(nodes, "table", inputs, outputs, [numpy_helper.from_array(table, "table")])
    path.parent.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def compute_token_vectors(text: str, offset: int = 0) -> Floats:
    """Compute the last hidden state with numpy, from the definition of BERT."""
    tensors = make_weights()
    ids = make_tokenizer().encode(text).ids
    value = tensors["embeddings.word_embeddings.weight"][ids]
    value = value + tensors["embeddings.position_embeddings.weight"][offset : offset + len(ids)]
    value = value + tensors["embeddings.token_type_embeddings.weight"][0]
    value = _norm(value, tensors, "embeddings.LayerNorm")
    for number in range(LAYERS):
        prefix = f"encoder.layer.{number}."
        attended = _linear(_attention(value, tensors, prefix), tensors, prefix + "attention.output.dense")
        value = _norm(value + attended, tensors, prefix + "attention.output.LayerNorm")
        wide = _linear(value, tensors, prefix + "intermediate.dense")
        wide = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
        value = _norm(value + _linear(wide, tensors, prefix + "output.dense"), tensors, prefix + "output.LayerNorm")
    return value


def normalize_vector(vector: Floats) -> Floats:
    scaled: Floats = vector / np.linalg.norm(vector)
    return scaled


def _linear(value: Floats, tensors: dict[str, Floats], name: str) -> Floats:
    return value @ tensors[name + ".weight"].T + tensors[name + ".bias"]


def _norm(value: Floats, tensors: dict[str, Floats], name: str) -> Floats:
    centred = value - value.mean(-1, keepdims=True)
    scaled: Floats = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * tensors[name + ".weight"] + tensors[name + ".bias"]


def _attention(value: Floats, tensors: dict[str, Floats], prefix: str) -> Floats:
    size = HIDDEN_SIZE // HEADS
    query, key, content = (
        _linear(value, tensors, f"{prefix}attention.self.{part}") for part in ("query", "key", "value")
    )
    heads = []
    for head in range(HEADS):
        columns = slice(head * size, (head + 1) * size)
        scores = np.exp(query[:, columns] @ key[:, columns].T / math.sqrt(size))
        heads.append(scores / scores.sum(-1, keepdims=True) @ content[:, columns])
    return np.concatenate(heads, axis=1)
