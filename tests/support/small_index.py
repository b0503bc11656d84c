"""Small index entries with distinct vectors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import IndexEntry, IndexFilter, QueryTerms
from knowledge.index.embedded import EmbeddedIndex
from knowledge.text import analyzer

DIMENSION = 32
EVERYTHING = IndexFilter(owner=0)


def open_index(folder: Path, dimension: int = DIMENSION, fingerprint: str = "test/1") -> EmbeddedIndex:
    return EmbeddedIndex.open(folder, dimension, fingerprint)


def make_vector(seed: int, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """Return a unit vector that depends only on the seed."""
    direction = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    unit: NDArray[np.float32] = direction / np.linalg.norm(direction)
    return unit


def make_entry(
    chunk_id: int,
    text: str = "",
    *,
    document_id: int | None = None,
    position: int | None = None,
    collection_id: int = 1,
    owner: int = 0,
    doc_type: str = "md",
    day: int = 20_000,
    tags: tuple[str, ...] = (),
    language: str | None = None,
    embedded: bool = True,
) -> IndexEntry:
    return IndexEntry(
        chunk_id=chunk_id,
        document_id=chunk_id if document_id is None else document_id,
        position=chunk_id if position is None else position,
        collection_id=collection_id,
        owner=owner,
        doc_type=doc_type,
        day=day,
        tags=tags,
        terms=analyzer.extract_terms(text or f"passage number{chunk_id}", language),
        vector=make_vector(chunk_id).astype(np.float16) if embedded else None,
        language=language,
    )


def apply_entries(index: EmbeddedIndex, seq: int, entries: Iterable[IndexEntry]) -> None:
    given = list(entries)
    index.apply(seq, sorted({each.document_id for each in given}), given)


def parse_question(text: str, *languages: str) -> QueryTerms:
    return analyzer.analyse_question(text, languages)


def search_words(index: EmbeddedIndex, text: str, within: IndexFilter = EVERYTHING, limit: int = 100) -> list[int]:
    snapshot = index.snapshot
    found = snapshot.find_candidates(parse_question(text, *snapshot.languages()), None, within, limit)
    return [int(chunk) for chunk in found.ids]


def search_vectors(index: EmbeddedIndex, seed: int, within: IndexFilter = EVERYTHING, limit: int = 100) -> list[int]:
    found = index.snapshot.find_candidates(QueryTerms(()), make_vector(seed), within, limit, by_words=False)
    return [int(chunk) for chunk in found.ids]
