"""A few passages for an index, with vectors that are easy to tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import Entry, Within, Words
from knowledge.index.embedded import EmbeddedIndex
from knowledge.text import analyzer

DIMENSION = 32
EVERYTHING = Within(owner=0)


def open_index(folder: Path, dimension: int = DIMENSION, fingerprint: str = "test/1") -> EmbeddedIndex:
    return EmbeddedIndex.open(folder, dimension, fingerprint)


def vector(seed: int, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """A direction that depends on the number alone."""
    direction = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    unit: NDArray[np.float32] = direction / np.linalg.norm(direction)
    return unit


def entry(
    chunk_id: int,
    text: str = "",
    *,
    document_id: int | None = None,
    collection_id: int = 1,
    owner: int = 0,
    doc_type: str = "md",
    day: int = 20_000,
    tags: tuple[str, ...] = (),
    language: str | None = None,
    embedded: bool = True,
) -> Entry:
    return Entry(
        chunk_id=chunk_id,
        document_id=chunk_id if document_id is None else document_id,
        collection_id=collection_id,
        owner=owner,
        doc_type=doc_type,
        day=day,
        tags=tags,
        terms=analyzer.terms(text or f"passage number{chunk_id}", language),
        vector=vector(chunk_id).astype(np.float16) if embedded else None,
        language=language,
    )


def put(index: EmbeddedIndex, seq: int, entries: Iterable[Entry]) -> None:
    given = list(entries)
    index.apply(seq, sorted({each.document_id for each in given}), given)


def asked(text: str, *languages: str) -> Words:
    return analyzer.question(text, languages)


def by_words(index: EmbeddedIndex, text: str, within: Within = EVERYTHING, limit: int = 100) -> list[int]:
    still = index.still()
    found = still.words(asked(text, *still.languages()), within, limit)
    return [int(chunk) for chunk in still.ids(found.places)]


def by_meaning(index: EmbeddedIndex, seed: int, within: Within = EVERYTHING, limit: int = 100) -> list[int]:
    still = index.still()
    return [int(chunk) for chunk in still.ids(still.meaning(vector(seed), within, limit).places)]
