"""What searches see: words, columns and vectors of one moment, published whole after every change."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import Scored, Within, Words
from knowledge.index.collection_statistics import Statistics
from knowledge.index.columns_view import Selection, SlotView
from knowledge.index.fulltext import WordView, filters
from knowledge.index.vectors import MeaningView

LOOSE_RATIO = 0.5
"""A filter that lets more than this through is cheaper to test on a longer list of hits than inside the query."""
NEARLY_ALL = 0.9
"""Who asks so much of the index has its words weighed by all of it: the difference could not be seen."""
MOST_SCOPES, MOST_TERMS = 64, 4096


@dataclass(frozen=True, slots=True)
class View:
    words: WordView
    slots: SlotView
    meaning: MeaningView
    _statistics: dict[Within | None, Statistics] = field(default_factory=dict)

    def statistics(self, within: Within | None) -> Statistics:
        """Of the collections that are asked, and of the whole index where that is nearly all of it."""
        found = self._statistics.get(within)
        if found is None:
            scope = None if within is None else Within(within.owner, within.shared_collections, within.collections)
            if len(self._statistics) >= MOST_SCOPES:
                self._statistics.clear()
            found = self._statistics.get(scope) or self._measured(scope)
            self._statistics[scope] = self._statistics[within] = found
        return found

    def _measured(self, scope: Within | None) -> Statistics:
        selection = None if scope is None else self.slots.select(scope)
        if scope is None or selection is None or not 0 < selection.count <= NEARLY_ALL * self.slots.live:
            return Statistics(self.words.passages, self.slots.average_length, self.words.holding)
        lengths, conditions = (
            self.slots.columns.length[selection.mask],
            filters(scope, by_owner=not selection.all_readable),
        )
        words = self.words  # and not this view: a cycle would keep the files of deleted segments open
        holding = lru_cache(MOST_TERMS)(lambda form: words.holding_within(form, conditions))
        return Statistics(selection.count, float(lengths.mean()), holding, whole=False)

    def best(self, words: Words, within: Within, limit: int, selection: Selection, statistics: Statistics) -> Scored:
        """The best of the selected passages, as tantivy scores them."""
        if selection.ratio == 1.0:
            return self._passing(*self.words.search(words, (), limit, statistics), selection)
        if selection.ratio > LOOSE_RATIO:
            wanted = int(limit / selection.ratio * 1.2) + 20
            ids, scores = self.words.search(words, (), wanted, statistics)
            found = self._passing(ids, scores, selection)
            if len(found.places) >= limit or len(ids) < wanted:
                return Scored(found.places[:limit], found.scores[:limit])
        conditions = filters(within, by_owner=not selection.all_readable)
        return self._passing(*self.words.search(words, conditions, limit, statistics), selection)

    def _passing(self, ids: NDArray[np.int64], scores: NDArray[np.float32], selection: Selection) -> Scored:
        """What tantivy found, where it stands: after a crash it may know passages that are not here yet."""
        places = self.slots.lookup.slots_of(ids)
        here = (places >= 0) & (places < len(selection.mask)) & selection.mask.take(places, mode="clip")
        return Scored(places, scores) if here.all() else Scored(places[here], scores[here])
