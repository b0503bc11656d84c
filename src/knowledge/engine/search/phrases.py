"""What a question quotes: passages that hold it stand first, and alone where nothing but quotations was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from knowledge.engine.search.fusion import Candidates
from knowledge.index.api import Words

NONE_HOLDS = (
    "No passage holds the quoted words side by side; ask without the quotation marks to search for each of them."
)
NONE_OF_THESE = "No passage holds the quoted words side by side; these are the hits for each of them by itself."
OTHERS_FOLLOW = "Passages that hold the quoted words side by side stand first; the others follow."


def found(ask: Callable[[Words], Candidates], words: Words, *, enough: int) -> tuple[Candidates, tuple[str, ...]]:
    """What holds the quoted words, with others below it unless that is enough; and what is to be said about it."""
    holding = only_holding(ask(words))
    if words.exact or len(holding.ids) >= enough:
        return holding, () if len(holding.ids) else (NONE_HOLDS,)
    others = ask(replace(words, phrases=()))
    if not len(holding.ids):
        return others, (NONE_OF_THESE,)
    both = with_others(holding, others)
    return both, () if len(both.ids) == len(holding.ids) else (OTHERS_FOLLOW,)


def only_holding(candidates: Candidates) -> Candidates:
    """A passage without the phrase scores 0 by words."""
    return candidates.take(np.flatnonzero(candidates.bm25 > 0.0))


def with_others(holding: Candidates, candidates: Candidates) -> Candidates:
    others = candidates.take(np.flatnonzero(~np.isin(candidates.places, holding.places)))
    return Candidates(
        np.concatenate((holding.ids, others.ids)),
        np.concatenate((holding.bm25, others.bm25)),
        candidates.ceiling,
        np.concatenate((holding.cosine, others.cosine)),
        np.concatenate((holding.words_rank, others.words_rank)),
        np.concatenate((holding.meaning_rank, others.meaning_rank)),
        np.concatenate((holding.places, others.places)),
        quoted=np.arange(len(holding.ids) + len(others.ids)) < len(holding.ids),
    )


def alike(candidates: Candidates, most: int) -> int:
    """How many of the first may be put in another order: of those that hold the quoted words, where some do not."""
    return most if candidates.quoted is None else min(most, int(candidates.quoted.sum()))
