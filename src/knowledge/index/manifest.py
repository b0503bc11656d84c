"""The checkpoint file of the index, written by flush and verified when the index is opened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from knowledge.index.append_only_files import IndexDamaged, write_atomically

MANIFEST_VERSION = 6
# Increase it for a new file layout, text analysis or term hash; other versions are rebuilt.
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    fingerprint: str
    dimension: int
    seq: int
    generation: int
    """Number in the name of the slots folder; each compaction writes a new one."""
    opstamp: int
    """tantivy's commit; after a crash tantivy may be ahead of the manifest, but never behind."""
    slots: int
    live: int
    vectors: int
    """Number of rows in vectors.rows; a slot whose chunk is not embedded has none."""
    pairs: int
    packed_terms: int
    checksums: dict[str, int]
    types: list[str]
    tags: list[str]
    languages: list[str]
    trained_on: int = 0
    """Number of vectors when the codebook was trained; 0 without codes."""
    codes: int = 0
    codes_name: str = ""
    codebook: int = 0
    """CRC-32 of the codebook."""
    version: int = MANIFEST_VERSION

    def write(self, folder: Path) -> None:
        write_atomically(folder / MANIFEST_NAME, json.dumps(asdict(self)).encode())


def read_manifest(folder: Path, dimension: int, fingerprint: str) -> Manifest:
    try:
        manifest = Manifest(**json.loads((folder / MANIFEST_NAME).read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise IndexDamaged(f"{MANIFEST_NAME} cannot be read: {error}") from error
    if (manifest.version, manifest.dimension, manifest.fingerprint) != (MANIFEST_VERSION, dimension, fingerprint):
        raise IndexDamaged("It was built by another version or for another embedding model")
    return manifest
