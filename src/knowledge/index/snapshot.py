"""Immutable snapshot of the embedded index: full text, columns and vectors, searched together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import tantivy
from numpy.typing import NDArray

from knowledge.index import bm25 as bm25_scores
from knowledge.index.api import Candidates, IndexFilter, QueryTerms
from knowledge.index.bm25 import COUNT_BITS, CollectionStatistics, DocumentFrequency
from knowledge.index.columns_view import Selection, Slots, SlotView
from knowledge.index.fulltext import FulltextView, filter_queries
from knowledge.index.vectors import VectorView
from knowledge.telemetry import metrics

Scores: TypeAlias = NDArray[np.float32]
SlotScores: TypeAlias = tuple[Slots, Scores]
"""Slots in descending order of their scores."""

MIN_POST_FILTER_RATIO = 0.5
# Filters that keep more than this are applied to a longer list of hits, which is cheaper than inside the query.
MIN_WHOLE_INDEX_RATIO = 0.9
# From this share on the statistics of the whole index are used; the difference is negligible.
MAX_CACHED_SCOPES, MAX_CACHED_TERMS = 64, 4096
HASHED_WORD_BITS = 1024
# Near-duplicates are compared by hashed words; at this width collisions within a chunk are rare.
LONG_PASSAGE_WORDS = 50
# Distinct words: shorter chunks need MIN_SHORT_SIMILARITY.
MIN_SHORT_SIMILARITY, MIN_LONG_SIMILARITY = 0.9, 0.75
# Jaccard similarity. Below 1, because the words include title and headings, which differ between copies of a text.
NOTHING: SlotScores = (np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True, slots=True)
class EmbeddedSnapshot:
    fulltext: FulltextView
    slots: SlotView
    vectors: VectorView
    _statistics: dict[IndexFilter | None, CollectionStatistics] = field(default_factory=dict)

    # -- searching ------------------------------------------------------------------------------

    def find_candidates(
        self,
        words: QueryTerms,
        vector: Scores | None,
        within: IndexFilter,
        limit: int,
        *,
        by_words: bool = True,
    ) -> Candidates:
        search = _Search(self, within, self.slots.select(within), self.statistics(within), vector, limit)
        began = time.perf_counter()
        nearest = NOTHING if vector is None else self.vectors.search(vector, search.selection, limit)
        now = time.perf_counter()
        if vector is not None:
            metrics.SEARCH_STAGE_SECONDS["meaning"].observe(now - began)
        if not by_words:
            return search.score(words, None, nearest)
        found = search.score(words, search.find_by_words(words), nearest)
        metrics.SEARCH_STAGE_SECONDS["words"].observe(time.perf_counter() - now)
        if not words.phrases:
            return found
        holding = _take(found, np.flatnonzero(found.bm25 > 0.0), quoted=True)  # BM25 is 0 without the phrases
        if words.exact or len(holding.ids) >= limit:
            return holding
        plain = replace(words, phrases=())
        return _append_unquoted(holding, search.score(plain, search.find_by_words(plain), nearest))

    def find_near_duplicates(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return find_near_duplicates(self.slots, self.slots.find_slots(ids))

    def compute_cosines(self, vector: Scores, ids: NDArray[np.int64]) -> Scores:
        slots = self.slots.find_slots(ids)
        scores = np.full(len(ids), np.nan, np.float32)
        here = slots >= 0
        scores[here] = self.compute_slot_cosines(vector, slots[here])
        return scores

    def compute_slot_cosines(self, vector: Scores, slots: Slots) -> Scores:
        embedded = self.slots.embedded.take(slots)
        if embedded.all():
            return self.vectors.compute_cosines(vector, slots)
        scores = np.full(len(slots), np.nan, np.float32)
        scores[embedded] = self.vectors.compute_cosines(vector, slots[embedded])
        return scores

    def count_chunks_by_term(self, terms: Iterable[str], within: IndexFilter) -> dict[str, int]:
        document_frequency = self.statistics(within).document_frequency
        return {term: document_frequency(term) for term in terms}

    def find_completions(self, prefix: str, within: IndexFilter, limit: int) -> list[str]:
        scope = IndexFilter(within.owner, within.shared_collections, within.collections)
        whole = self.statistics(within).whole
        conditions = () if whole else filter_queries(scope, by_owner=not self.slots.select(scope).all_readable)
        return self.fulltext.find_terms_with_prefix(prefix, conditions, limit)

    def compute_ceiling(self, words: QueryTerms, within: IndexFilter | None = None) -> float:
        return self.statistics(within).get_weighted_query(words).ceiling

    def languages(self) -> tuple[str, ...]:
        return self.slots.languages

    # -- term statistics ------------------------------------------------------------------------

    def statistics(self, within: IndexFilter | None) -> CollectionStatistics:
        """Return the term statistics of the filtered collections, or of the index if they are nearly all of it."""
        found = self._statistics.get(within)
        if found is None:
            scope = None if within is None else IndexFilter(within.owner, within.shared_collections, within.collections)
            if len(self._statistics) >= MAX_CACHED_SCOPES:
                self._statistics.clear()
            found = self._statistics.get(scope) or self._compute_statistics(scope)
            self._statistics[scope] = self._statistics[within] = found
        return found

    def _compute_statistics(self, scope: IndexFilter | None) -> CollectionStatistics:
        selection = None if scope is None else self.slots.select(scope)
        if (
            scope is None
            or selection is None
            or not 0 < selection.count <= MIN_WHOLE_INDEX_RATIO * self.slots.live_count
        ):
            return self._compute_whole_statistics()
        lengths, conditions = (
            self.slots.columns.length[selection.mask],
            filter_queries(scope, by_owner=not selection.all_readable),
        )
        return CollectionStatistics(
            selection.count, float(lengths.mean()), self._count_chunks_within(conditions), whole=False
        )

    def _compute_whole_statistics(self) -> CollectionStatistics:
        """Return the statistics of the whole index: those of tantivy, unless they count deleted chunks."""
        words, average_length = self.fulltext, self.slots.average_length
        if words.has_exact_statistics:
            return CollectionStatistics(words.chunk_count, average_length, words.document_frequency)
        return CollectionStatistics(words.chunk_count, average_length, self._count_chunks_within([]), whole=False)

    def _count_chunks_within(self, conditions: Sequence[tantivy.Query]) -> DocumentFrequency:
        words = self.fulltext  # not self: the cycle would keep files of deleted segments open
        return lru_cache(MAX_CACHED_TERMS)(lambda form: words.document_frequency_within(form, conditions))


@dataclass(frozen=True, slots=True)
class _Search:
    """One search in a snapshot, with its filter and statistics resolved."""

    view: EmbeddedSnapshot
    within: IndexFilter
    selection: Selection
    statistics: CollectionStatistics
    vector: Scores | None
    limit: int

    def score(self, words: QueryTerms, by_words: SlotScores | None, by_meaning: SlotScores) -> Candidates:
        """Merge both result lists into one row for each chunk, BM25 hits first, and compute the missing scores.

        BM25 is 0 in all rows if the words were not searched.
        """
        slots_by_words, scores_by_words = NOTHING if by_words is None else by_words
        rows = {slot: row for row, slot in enumerate(slots_by_words.tolist())}
        first, meant = len(rows), [rows.setdefault(slot, len(rows)) for slot in by_meaning[0].tolist()]
        slots = np.fromiter(rows, np.int64, len(rows))
        words_rank, meaning_rank = np.full(len(slots), -1), np.full(len(slots), -1)
        words_rank[:first], meaning_rank[meant] = np.arange(first), np.arange(len(meant))
        bm25, cosine = np.zeros(len(slots)), np.full(len(slots), np.nan)
        bm25[:first] = scores_by_words
        if by_words is not None:
            bm25[first:] = self.bm25(words, slots[first:])
        if self.vector is not None:
            cosine[:first] = self.view.compute_slot_cosines(self.vector, slots[:first])
            cosine[meant] = by_meaning[1]
        columns, ceiling = self.view.slots.columns, self.statistics.get_weighted_query(words).ceiling
        return Candidates(
            columns.chunk.take(slots), bm25, ceiling, cosine, words_rank, meaning_rank, columns.document.take(slots),
            slots,  # the chunks of a document have consecutive slots
        )  # fmt: skip

    def bm25(self, words: QueryTerms, slots: Slots) -> Scores:
        """Return the BM25 score of each slot; 0 for a slot that lacks a phrase."""
        if not len(slots) or not words.terms:
            return np.zeros(len(slots), np.float32)
        scores = bm25_scores.score_slots(self.view.slots, self.statistics.get_weighted_query(words), slots)
        if words.phrases and scores.any():
            ids = self.view.slots.columns.chunk.take(slots).tolist()
            held = self.view.fulltext.find_holding_phrases(words, ids)
            scores *= np.asarray([chunk in held for chunk in ids], np.float32)
        return scores

    def find_by_words(self, words: QueryTerms) -> SlotScores:
        """Return the best of the selected slots by BM25."""
        if not self.selection.count or not words.terms:
            return NOTHING
        found = self._find_by_tantivy(words)
        if self.statistics.whole or not len(found[0]):
            return found
        # tantivy normalizes by the average length of the whole index, so its scores are replaced.
        slots = found[0]
        scores = bm25_scores.score_slots(self.view.slots, self.statistics.get_weighted_query(words), slots)
        order = np.argsort(-scores, kind="stable")
        return slots[order], scores[order]

    def _find_by_tantivy(self, words: QueryTerms) -> SlotScores:
        selection, fulltext, limit = self.selection, self.view.fulltext, self.limit
        if selection.ratio == 1.0:
            return self._to_selected_slots(*fulltext.search(words, (), limit, self.statistics))
        if selection.ratio > MIN_POST_FILTER_RATIO:
            wanted = int(limit / selection.ratio * 1.2) + 20
            ids, scores = fulltext.search(words, (), wanted, self.statistics)
            found = self._to_selected_slots(ids, scores)
            if len(found[0]) >= limit or len(ids) < wanted:
                return found[0][:limit], found[1][:limit]
        conditions = filter_queries(self.within, by_owner=not selection.all_readable)
        return self._to_selected_slots(*fulltext.search(words, conditions, limit, self.statistics))

    def _to_selected_slots(self, ids: NDArray[np.int64], scores: Scores) -> SlotScores:
        """Return the selected slots among tantivy's hits, which after a crash may include chunks without a slot."""
        slots, mask = self.view.slots.lookup.find_slots(ids), self.selection.mask
        here = (slots >= 0) & (slots < len(mask)) & mask.take(slots, mode="clip")
        return (slots, scores) if here.all() else (slots[here], scores[here])


# -- phrases ------------------------------------------------------------------------------------


def _take(found: Candidates, rows: NDArray[np.int64], *, quoted: bool) -> Candidates:
    """Return these rows with `quoted` set to one value."""
    return replace(
        found,
        ids=found.ids[rows],
        bm25=found.bm25[rows],
        cosine=found.cosine[rows],
        words_rank=found.words_rank[rows],
        meaning_rank=found.meaning_rank[rows],
        documents=found.documents[rows],
        places=found.places[rows],
        quoted=np.full(len(rows), quoted),
    )


def _append_unquoted(holding: Candidates, found: Candidates) -> Candidates:
    """Append the rows of `found` that are not in `holding`."""
    others = _take(found, np.flatnonzero(~np.isin(found.places, holding.places)), quoted=False)
    return Candidates(
        np.concatenate((holding.ids, others.ids)),
        np.concatenate((holding.bm25, others.bm25)),
        found.ceiling,
        np.concatenate((holding.cosine, others.cosine)),
        np.concatenate((holding.words_rank, others.words_rank)),
        np.concatenate((holding.meaning_rank, others.meaning_rank)),
        np.concatenate((holding.documents, others.documents)),
        np.concatenate((holding.places, others.places)),
        quoted=np.arange(len(holding.ids) + len(others.ids)) < len(holding.ids),
    )


# -- near-duplicates ----------------------------------------------------------------------------


def find_near_duplicates(view: SlotView, slots: Slots) -> NDArray[np.bool_]:
    """Return a matrix that marks pairs of slots with similar sets of words (Jaccard similarity)."""
    held = _hash_words_to_bits(view, slots)
    both = held @ held.T
    words = both.diagonal()
    either = words[:, None] + words - both
    same: NDArray[np.bool_] = both >= MIN_LONG_SIMILARITY * either
    if np.count_nonzero(same) > len(slots):  # more than the diagonal, which is rare
        same &= (both >= MIN_SHORT_SIMILARITY * either) | (np.minimum(words[:, None], words) >= LONG_PASSAGE_WORDS)
    return same & (both > 0)


def _hash_words_to_bits(view: SlotView, slots: Slots) -> NDArray[np.float32]:
    """Return a 0/1 row of hashed words for each slot; float32, because BLAS multiplies it fastest."""
    terms, sizes = view.gather_terms(slots)
    held = np.zeros(len(slots) * HASHED_WORD_BITS, np.float32)
    rows = np.arange(0, len(held), HASHED_WORD_BITS).repeat(sizes)
    held[rows + (terms >> np.uint32(COUNT_BITS) & np.uint32(HASHED_WORD_BITS - 1))] = 1.0
    return held.reshape(len(slots), HASHED_WORD_BITS)
