"""The page that was asked for, from the truth: what it no longer has is not shown, and neighbours are one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from knowledge.engine.search.diversify import Arrangement
from knowledge.engine.search.fusion import Candidates
from knowledge.model import Chunk, Document, Joined, Query
from knowledge.split.joining import joined_text

Truth: TypeAlias = Mapping[int, tuple[Chunk, Document]]


class Passages(Protocol):
    """The truth: what a deleted passage is not in."""

    def hits(self, chunk_ids: Sequence[int]) -> dict[int, tuple[Chunk, Document]]: ...


@dataclass(frozen=True, slots=True)
class Shown:
    place: int
    """Where it stands in Candidates."""
    relevance: float
    weight: float
    chunk: Chunk
    document: Document
    joined: Joined | None


@dataclass(frozen=True, slots=True)
class PageOfHits:
    shown: tuple[Shown, ...]
    total: int


def join(query: Query, found: Candidates, arranged: Arrangement, passages: Passages) -> PageOfHits:
    """A passage that the truth no longer has makes room for the next one."""
    order, ids = arranged.order.tolist(), found.ids.tolist()
    end = query.offset + query.limit
    truth: dict[int, tuple[Chunk, Document]] = {}
    there: list[int] = []
    looked_at = 0
    while len(there) < end and looked_at < len(order):
        part = range(looked_at, min(looked_at + end - len(there), len(order)))
        truth |= passages.hits([ids[place] for at in part for place in arranged.run(order[at])])
        there += [at for at in part if ids[order[at]] in truth]
        looked_at = part.stop
    page = tuple(_shown(at, order[at], ids, arranged, truth) for at in there[query.offset : end])
    return PageOfHits(page, len(order) - (looked_at - len(there)))


def _shown(at: int, place: int, ids: list[int], arranged: Arrangement, truth: Truth) -> Shown:
    chunk, document = truth[ids[place]]
    run = arranged.runs.get(place)
    joined = _joined(chunk, [truth[ids[each]][0] for each in run if ids[each] in truth]) if run else None
    return Shown(place, float(arranged.relevance[at]), float(arranged.weight[at]), chunk, document, joined)


def _joined(best: Chunk, run: Sequence[Chunk]) -> Joined | None:
    """One text of the chunks that really stand side by side with the best one; None where there is no other."""
    by_index = {chunk.index: chunk for chunk in run if chunk.document_id == best.document_id}
    first = last = best.index
    while first - 1 in by_index:
        first -= 1
    while last + 1 in by_index:
        last += 1
    if first == last:
        return None
    return Joined(joined_text([by_index[index].text for index in range(first, last + 1)]), first, last)
