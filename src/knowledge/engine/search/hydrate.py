"""Hydration: loads chunks and documents of one result page from the store and joins neighbouring chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from knowledge.engine.search.diversify import Arrangement
from knowledge.index.api import Candidates
from knowledge.model import Chunk, Document, Query
from knowledge.split.passage import join_passages

StoredPassages: TypeAlias = Mapping[int, tuple[Chunk, Document]]


class PassageSource(Protocol):
    """The truth: what a deleted passage is not in."""

    def hits(self, chunk_ids: Sequence[int]) -> dict[int, tuple[Chunk, Document]]: ...


@dataclass(frozen=True, slots=True)
class HydratedPassage:
    place: int
    """Where it stands in Candidates."""
    relevance: float
    weight: float
    chunk: Chunk
    document: Document
    text: str
    """Of the chunk, or of all that were joined."""
    indexes: tuple[int, int]
    """The first and the last chunk of it."""


@dataclass(frozen=True, slots=True)
class HydratedPage:
    passages: tuple[HydratedPassage, ...]
    total: int


def hydrate_page(query: Query, candidates: Candidates, arranged: Arrangement, passages: PassageSource) -> HydratedPage:
    """A passage that the truth no longer has makes room for the next one."""
    order, ids = arranged.order.tolist(), candidates.ids.tolist()
    end = query.offset + query.limit
    truth: dict[int, tuple[Chunk, Document]] = {}
    there: list[int] = []
    looked_at = 0
    while len(there) < end and looked_at < len(order):
        part = range(looked_at, min(looked_at + end - len(there), len(order)))
        truth |= passages.hits([ids[place] for at in part for place in arranged.run_of(order[at])])
        there += [at for at in part if ids[order[at]] in truth]
        looked_at = part.stop
    page = tuple(_hydrate_passage(at, order[at], ids, arranged, truth) for at in there[query.offset : end])
    return HydratedPage(page, len(order) - (looked_at - len(there)))


def _hydrate_passage(
    at: int, place: int, ids: list[int], arranged: Arrangement, truth: StoredPassages
) -> HydratedPassage:
    chunk, document = truth[ids[place]]
    run = arranged.runs.get(place, ())
    text, indexes = _join_neighbours(chunk, [truth[ids[each]][0] for each in run if ids[each] in truth])
    relevance, weight = float(arranged.relevance[at]), float(arranged.weight[at])
    return HydratedPassage(place, relevance, weight, chunk, document, text, indexes)


def _join_neighbours(best: Chunk, run: Sequence[Chunk]) -> tuple[str, tuple[int, int]]:
    """One text of the chunks that really stand side by side with the best one, and the first and last of them."""
    by_index = {chunk.index: chunk for chunk in run if chunk.document_id == best.document_id}
    first = last = best.index
    while first - 1 in by_index:
        first -= 1
    while last + 1 in by_index:
        last += 1
    if first == last:
        return best.text, (first, last)
    return join_passages([by_index[index].text for index in range(first, last + 1)]), (first, last)
