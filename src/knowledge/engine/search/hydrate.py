"""Hydration: loads chunks and documents of one result page from the store and joins neighbouring chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from knowledge.engine.search.diversify import Arrangement
from knowledge.index.api import Candidates
from knowledge.model import Chunk, Document, DocumentLabels, Query
from knowledge.split.passage import join_passages

StoredPassages: TypeAlias = Mapping[int, tuple[Chunk, Document]]


class PassageSource(Protocol):
    """The store: returns the requested chunks that still exist."""

    def hits(self, chunk_ids: Sequence[int]) -> dict[int, tuple[Chunk, Document]]: ...

    def find_labels(self, document_ids: Sequence[int]) -> dict[int, DocumentLabels]: ...


@dataclass(frozen=True, slots=True)
class HydratedPassage:
    place: int
    """Row in Candidates."""
    relevance: float
    weight: float
    chunk: Chunk
    document: Document
    text: str
    """Text of the chunk, or of all joined chunks."""
    indexes: tuple[int, int]
    """Indexes of the first and the last chunk."""
    lines: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class HydratedPage:
    passages: tuple[HydratedPassage, ...]
    total: int


def hydrate_page(query: Query, candidates: Candidates, arranged: Arrangement, passages: PassageSource) -> HydratedPage:
    """Load the passages of the requested page; deleted ones are replaced by the next in order."""
    order, ids = arranged.order.tolist(), candidates.ids.tolist()
    end = query.offset + query.limit
    stored: dict[int, tuple[Chunk, Document]] = {}
    existing: list[int] = []
    checked = 0
    while len(existing) < end and checked < len(order):
        part = range(checked, min(checked + end - len(existing), len(order)))
        stored |= passages.hits([ids[place] for at in part for place in arranged.run_of(order[at])])
        existing += [at for at in part if ids[order[at]] in stored]
        checked = part.stop
    page = tuple(_hydrate_passage(at, order[at], ids, arranged, stored) for at in existing[query.offset : end])
    return HydratedPage(page, len(order) - (checked - len(existing)))


def _hydrate_passage(
    at: int, place: int, ids: list[int], arranged: Arrangement, stored: StoredPassages
) -> HydratedPassage:
    chunk, document = stored[ids[place]]
    run = arranged.runs.get(place, ())
    text, indexes, lines = _join_neighbours(chunk, [stored[ids[each]][0] for each in run if ids[each] in stored])
    relevance, weight = float(arranged.relevance[at]), float(arranged.weight[at])
    return HydratedPassage(place, relevance, weight, chunk, document, text, indexes, lines)


def _join_neighbours(best: Chunk, run: Sequence[Chunk]) -> tuple[str, tuple[int, int], tuple[int, int] | None]:
    """Join the chunks adjacent to the best one; return the text, the first and last index, and the lines."""
    by_index = {chunk.index: chunk for chunk in run if chunk.document_id == best.document_id}
    first = last = best.index
    while first - 1 in by_index:
        first -= 1
    while last + 1 in by_index:
        last += 1
    if first == last:
        return best.text, (first, last), best.lines
    joined = [by_index[index] for index in range(first, last + 1)]
    begin, end = joined[0].lines, joined[-1].lines
    lines = None if begin is None or end is None else (begin[0], end[1])
    return join_passages([chunk.text for chunk in joined]), (first, last), lines
