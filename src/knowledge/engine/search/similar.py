"""Documents that are near another one: the nearest passages to the mean of its vectors."""

from __future__ import annotations

import numpy as np

from knowledge.engine.search import fusion
from knowledge.engine.search.hydrate import PassageSource
from knowledge.engine.search.pipeline import CANDIDATES_PER_SIDE, Vector, wrap_index_errors
from knowledge.index.api import Candidates, Index, IndexFilter, QueryTerms
from knowledge.model import Document, Hit
from knowledge.store.chunks import ChunkStore

MAX_OWN_CHUNKS = 2000
"""The passages of the document itself are the nearest, so as many more candidates are asked for."""


def compute_mean_vector(chunks: ChunkStore, document: Document, model_id: int) -> Vector | None:
    """Return the normalized mean of the vectors of a document; None if it has none."""
    vectors = [np.frombuffer(data, np.float16) for _, data in chunks.read_vectors([document.id], model_id)]
    if not vectors:
        return None
    mean = np.asarray(np.mean(np.asarray(vectors, np.float32), axis=0), np.float32)
    length = float(np.linalg.norm(mean))
    return mean / length if length > 0 else None


def find_similar(
    document: Document,
    vector: Vector,
    within: IndexFilter,
    top: int,
    *,
    index: Index,
    passages: PassageSource,
    model: str,
) -> list[Hit]:
    """Return the best passage of each of the nearest other documents."""
    limit = CANDIDATES_PER_SIDE + min(document.chunk_count, MAX_OWN_CHUNKS)
    with wrap_index_errors():
        found = index.snapshot.find_candidates(QueryTerms(()), vector, within, limit, by_words=False)
    ranking = fusion.rank_by_meaning(found, fusion.find_calibration(model))
    best = _list_best_places(document.id, found, ranking.order.tolist())
    stored = passages.hits([int(found.ids[place]) for place in best])
    hits = []
    for place in best:
        if int(found.ids[place]) not in stored:
            continue
        chunk, near = stored[int(found.ids[place])]
        relevance = round(float(ranking.relevance[place]), 4)
        hits.append(Hit(chunk, near, relevance, "meaning", chunk.text, (chunk.index, chunk.index)))
        if len(hits) == top:
            break
    return hits


def _list_best_places(document_id: int, found: Candidates, order: list[int]) -> list[int]:
    """Return the place of the best passage of each other document, best first."""
    seen, best = {document_id}, list[int]()
    for place in order:
        near = int(found.documents[place])
        if near not in seen:
            seen.add(near)
            best.append(place)
    return best
