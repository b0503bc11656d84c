"""The page that was asked for, from the truth: what it no longer has is not shown, and neighbours are one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from knowledge.engine.arrange import Arrangement
from knowledge.engine.rank import Candidates
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
    best, end = found.ids[arranged.order].tolist(), query.offset + query.limit
    truth: dict[int, tuple[Chunk, Document]] = {}
    there: list[int] = []
    looked_at = 0
    while len(there) < end and looked_at < len(best):
        part = range(looked_at, min(looked_at + end - len(there), len(best)))
        truth |= passages.hits([chunk for at in part for chunk in arranged.chunk_ids(at, found)])
        there += [at for at in part if best[at] in truth]
        looked_at = part.stop
    page = tuple(_shown(at, found, arranged, truth) for at in there[query.offset : end])
    return PageOfHits(page, len(best) - (looked_at - len(there)))


def _shown(at: int, found: Candidates, arranged: Arrangement, truth: Truth) -> Shown:
    place = int(arranged.order[at])
    chunk, document = truth[int(found.ids[place])]
    run = [truth[each][0] for each in arranged.chunk_ids(at, found) if each in truth]
    relevance, weight = float(arranged.relevance[at]), float(arranged.weight[at])
    return Shown(place, relevance, weight, chunk, document, _joined(chunk, run))


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
