"""Writes the default model as a folder for sentence-transformers, so that a peer embeds with the same weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.embed import model_file
from knowledge.embed.granite import DIMENSION, PADDING_ID, WINDOW_TOKENS

NORMS = {"aln": "attention.output.LayerNorm", "fln": "output.LayerNorm"}
PRODUCTS = {"ao": "attention.output.dense", "f1": "intermediate.dense", "f2": "output.dense"}
SPECIAL_TOKENS = {
    "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
    "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>",
}  # fmt: skip


def write_model_folder(folder: Path) -> None:
    source = model_file.read_model_file(model_file.find_model_file())
    (folder / "1_Pooling").mkdir()
    write_json(folder / "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ])  # fmt: skip
    write_json(folder / "1_Pooling" / "config.json", {
        "word_embedding_dimension": DIMENSION, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False,
    })  # fmt: skip
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": WINDOW_TOKENS, "do_lower_case": False})
    (folder / "tokenizer.json").write_text(source.tokenizer, encoding="utf-8")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **SPECIAL_TOKENS})
    write_json(folder / "config.json", {
        "model_type": "roberta", "architectures": ["RobertaModel"], "hidden_act": "gelu", "torch_dtype": "float32",
        "hidden_size": DIMENSION, "num_attention_heads": source.heads, "num_hidden_layers": source.layers,
        "intermediate_size": source.arrays["l0.f1.b"].size, "layer_norm_eps": source.epsilon,
        "max_position_embeddings": len(source.arrays["pos_emb"]), "type_vocab_size": len(source.arrays["type_emb"]),
        "vocab_size": len(source.quantised["word_emb"].values), "pad_token_id": PADDING_ID,
    })  # fmt: skip
    write_safetensors(folder / "model.safetensors", name_tensors(source))


def name_tensors(source: model_file.ModelFile) -> dict[str, NDArray[np.float32]]:
    """Return the float32 weights under the names of transformers' RobertaModel."""
    words = source.quantised["word_emb"]
    tensors = {
        "embeddings.word_embeddings.weight": words.look_up_rows(np.arange(len(words.values), dtype=np.int32)),
        "embeddings.position_embeddings.weight": source.arrays["pos_emb"],
        "embeddings.token_type_embeddings.weight": source.arrays["type_emb"],
        "embeddings.LayerNorm.weight": source.arrays["emb_ln.w"],
        "embeddings.LayerNorm.bias": source.arrays["emb_ln.b"],
    }
    for number in range(source.layers):
        here, there = f"l{number}.", f"encoder.layer.{number}."
        weights = np.split(source.quantised[f"{here}qkv.w"].to_columns().T, 3)
        biases = np.split(source.arrays[f"{here}qkv.b"], 3)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            tensors[f"{there}attention.self.{name}.weight"] = weight
            tensors[f"{there}attention.self.{name}.bias"] = bias
        for ours, theirs in PRODUCTS.items():
            tensors[f"{there}{theirs}.weight"] = source.quantised[f"{here}{ours}.w"].to_columns().T
            tensors[f"{there}{theirs}.bias"] = source.arrays[f"{here}{ours}.b"]
        for ours, theirs in NORMS.items():
            tensors[f"{there}{theirs}.weight"] = source.arrays[f"{here}{ours}.w"]
            tensors[f"{there}{theirs}.bias"] = source.arrays[f"{here}{ours}.b"]
    return tensors


def write_safetensors(path: Path, tensors: dict[str, NDArray[np.float32]]) -> None:
    """Write the format of https://github.com/huggingface/safetensors: length, JSON header, arrays."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array, np.float32).tobytes())


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
