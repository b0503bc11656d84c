"""What BM25 weighs a word by: how many passages there are, how long they are, and how many of them hold it.

A question that is asked of one collection is weighed by that collection alone: what else is in the index does not
change what a score means, and a score tells nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge.index import bm25 as bm25_scores
from knowledge.index.api import Words
from knowledge.index.bm25 import Holding, Question

KEPT_QUESTIONS = 64


@dataclass(frozen=True, slots=True)
class Statistics:
    passages: int
    average_length: float
    holding: Holding
    whole: bool = True
    """Of the whole index, as tantivy has them."""
    _questions: dict[Words, Question] = field(default_factory=dict)

    def idf(self, form: str) -> float:
        return bm25_scores.idf(self.passages, self.holding(form))

    def question(self, words: Words) -> Question:
        """What the words weigh here; a search asks for it several times."""
        found = self._questions.get(words)
        if found is None:
            if len(self._questions) >= KEPT_QUESTIONS:
                self._questions.clear()
            found = bm25_scores.weighed(words, self.passages, self.average_length, self.holding)
            self._questions[words] = found
        return found
