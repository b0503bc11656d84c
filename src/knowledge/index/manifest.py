"""The checkpoint of the index: what the last flush made durable, compared when the index is opened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from knowledge.index.append_only_files import IndexDamaged, write_atomically

MANIFEST_VERSION = 4
"""Another layout, another analysis or another hash of terms is another version, and means a rebuild."""
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    fingerprint: str
    dimension: int
    seq: int
    generation: int
    """Compaction writes the slots into a new folder."""
    opstamp: int
    """Where tantivy stood; it commits by itself and may be ahead, never behind."""
    slots: int
    live: int
    pairs: int
    packed_terms: int
    checksums: dict[str, int]
    types: list[str]
    tags: list[str]
    languages: list[str]
    trained_on: int = 0
    """How many vectors the codebook was made from; 0 before there are codes."""
    codes: int = 0
    codes_name: str = ""
    codebook: int = 0
    """Its checksum."""
    version: int = MANIFEST_VERSION

    def write(self, folder: Path) -> None:
        write_atomically(folder / MANIFEST_NAME, json.dumps(asdict(self)).encode())


def read_manifest(folder: Path, dimension: int, fingerprint: str) -> Manifest:
    try:
        manifest = Manifest(**json.loads((folder / MANIFEST_NAME).read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise IndexDamaged("There is no manifest that can be read") from error
    if (manifest.version, manifest.dimension, manifest.fingerprint) != (MANIFEST_VERSION, dimension, fingerprint):
        raise IndexDamaged("The index was built by another version or for another model")
    return manifest
