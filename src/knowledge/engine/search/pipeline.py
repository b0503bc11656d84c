"""A search in six steps: embed the question, ask the index, fuse and calibrate, arrange, join to the truth, shape."""

from __future__ import annotations

import logging
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from knowledge.embed.base import Embedder
from knowledge.engine.search import fusion, phrases
from knowledge.engine.search.diversify import arrange
from knowledge.engine.search.fusion import Candidates, Ranking
from knowledge.engine.search.hydrate import PageOfHits, Passages, Shown, join
from knowledge.engine.search.rerank import BEST, Passage, Reranker
from knowledge.engine.search.spelling import mended
from knowledge.errors import EmbeddingFailed, EmptyQuery, IndexFailed, ModelUnavailable, Unavailable
from knowledge.index.api import Index, Scored, Within, Words
from knowledge.model import Answer, Hit, Json, JsonValue, Mode, Query
from knowledge.split import passage_text
from knowledge.text import analyzer

DEPTH = 100
"""How many candidates each side brings: always the same, so that pages never repeat or skip a passage."""
KEPT_QUESTIONS = 1024

Vector = NDArray[np.float32]

log = logging.getLogger(__name__)


def search(
    query: Query,
    within: Within,
    *,
    index: Index,
    passages: Passages,
    embedder: Embedder | None,
    reranker: Reranker | None = None,
) -> Answer:
    """The passages that answer a question, best first."""
    costs, index = Costs(query.explain), index.still()
    asked = understand(query, index, embedder)
    costs.of("embed")
    with asking_the_index():
        found, asked = find(well_spelt(query, asked, within, index), within, index)
    costs.of("find")
    ranking = fuse(found, asked)
    costs.of("rank")
    if query.mode is Mode.RERANK and asked.mode is Mode.HYBRID:
        ranking, asked = read_again(query, asked, found, ranking, index=index, passages=passages, reranker=reranker)
        costs.of("rerank")
    with asking_the_index():
        arranged = arrange(found, ranking, query.threshold, index)
    costs.of("arrange")
    page = join(query, found, arranged, passages)
    costs.of("join")
    return shape(query, asked, found, ranking, page, costs)


# -- the question -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, understood: what is asked of each side, and by which mode."""

    mode: Mode
    words: Words
    vector: Vector | None
    model: str
    notes: tuple[str, ...] = ()
    instead: Mapping[str, list[str]] = field(default_factory=dict)
    """What is searched for in place of a word that nothing holds."""


def understand(query: Query, index: Index, embedder: Embedder | None) -> Asked:
    """Words and vector of the question, and the mode that can really be used for it."""
    words = analyzer.question(query.text, index.languages())
    refuse_empty(query, words, embedder)
    if query.mode is Mode.TEXT:
        return Asked(Mode.TEXT, words, None, "")
    if embedder is None:
        return without_model(query, words, "No embedding model is loaded")
    try:
        vector = question_vector(embedder, query.text)
    except Unavailable as error:
        if isinstance(error, EmbeddingFailed) and not query.fallback:
            raise
        return without_model(query, words, str(error))
    if query.mode is Mode.VECTOR:
        return Asked(Mode.VECTOR, words, vector, embedder.name)
    return Asked(Mode.HYBRID, words, vector, embedder.name)


def well_spelt(query: Query, asked: Asked, within: Within, index: Index) -> Asked:
    """The question with others in place of words that no passage holds, where words are searched for."""
    if asked.mode is Mode.VECTOR:
        return asked
    spelling = mended(query.text, asked.words, within, index)
    return replace(asked, words=spelling.words, instead=spelling.instead) if spelling.instead else asked


def refuse_empty(query: Query, words: Words, embedder: Embedder | None) -> None:
    """A question without a word is refused, unless it is one that a model can make something of."""
    if words.terms:
        return
    pictures = any(unicodedata.category(character) == "So" for character in query.text)
    if not (pictures and embedder is not None and query.mode is not Mode.TEXT):
        raise EmptyQuery("The question holds no word to search for", query=query.text[:200])


def without_model(query: Query, words: Words, reason: str) -> Asked:
    if query.mode is Mode.VECTOR:
        raise ModelUnavailable(f"Search by meaning needs an embedding model. {reason}", mode=query.mode.value)
    if not words.terms:
        raise EmptyQuery("The question holds no word to search for", query=query.text[:200])
    return Asked(Mode.TEXT, words, None, "", (f"{reason}; these are the hits by words alone.",))


class QuestionCache:
    """The vectors of the latest questions, for every model that asked."""

    def __init__(self, size: int = KEPT_QUESTIONS) -> None:
        self._size, self._lock = size, Lock()
        self._vectors: OrderedDict[tuple[str, str], Vector] = OrderedDict()

    def get(self, embedder: Embedder, text: str) -> Vector:
        key = (embedder.fingerprint, text)
        with self._lock:
            vector = self._vectors.get(key)
            if vector is not None:
                self._vectors.move_to_end(key)
                return vector
        vector = np.ascontiguousarray(embedder.embed_question(text)[0], np.float32)
        with self._lock:
            self._vectors[key] = vector
            if len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return vector


_QUESTIONS = QuestionCache()


def question_vector(embedder: Embedder, text: str) -> Vector:
    return _QUESTIONS.get(embedder, text)


# -- asking the index ---------------------------------------------------------------------------


def find(asked: Asked, within: Within, index: Index) -> tuple[Candidates, Asked]:
    """The candidates of both sides, with both scores for each; what holds quoted words is told from the rest."""
    by_meaning = NOTHING if asked.vector is None else index.meaning(asked.vector, within, DEPTH)

    def both(words: Words) -> Candidates:
        by_words = NOTHING if asked.mode is Mode.VECTOR else index.words(words, within, DEPTH)
        return both_scores(replace(asked, words=words), within, by_words, by_meaning, index)

    if asked.mode is Mode.VECTOR or not asked.words.phrases:
        return both(asked.words), asked
    found, note = phrases.found(both, asked.words, enough=DEPTH)
    return found, replace(asked, notes=(*asked.notes, *note))


@contextmanager
def asking_the_index() -> Iterator[None]:
    """A disk or an index that fails is no fault in the question, nor one of ours."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        log.exception("The index could not be searched")
        raise IndexFailed("The index could not be searched") from error


NOTHING = Scored(np.empty(0, np.int64), np.empty(0, np.float32))


def both_scores(asked: Asked, within: Within, by_words: Scored, by_meaning: Scored, index: Index) -> Candidates:
    """One row a passage: first what the words found, then what the meaning found beside it. The score that only one
    side knows is computed for the other."""
    rows = {place: row for row, place in enumerate(by_words.places.tolist())}
    first, meant = len(rows), [rows.setdefault(place, len(rows)) for place in by_meaning.places.tolist()]
    places = np.fromiter(rows, np.int64, len(rows))
    words_rank, meaning_rank = np.full(len(places), -1), np.full(len(places), -1)
    words_rank[:first], meaning_rank[meant] = np.arange(first), np.arange(len(meant))
    bm25, cosine = np.zeros(len(places)), np.full(len(places), np.nan)
    bm25[:first] = by_words.scores
    if asked.mode is not Mode.VECTOR:
        bm25[first:] = index.bm25(asked.words, places[first:], within)
    if asked.vector is not None:
        cosine[:first], cosine[meant] = index.cosines(asked.vector, places[:first]), by_meaning.scores
    ceiling = index.ceiling(asked.words, within)
    return Candidates(index.ids(places), bm25, ceiling, cosine, words_rank, meaning_rank, places)


# -- ranking, joining, shaping ------------------------------------------------------------------


def fuse(found: Candidates, asked: Asked) -> Ranking:
    match asked.mode:
        case Mode.TEXT:
            return fusion.words_alone(found)
        case Mode.VECTOR:
            return fusion.meaning_alone(found, fusion.calibration(asked.model))
        case _:
            return fusion.hybrid(found, fusion.calibration(asked.model))


def read_again(
    query: Query,
    asked: Asked,
    found: Candidates,
    ranking: Ranking,
    *,
    index: Index,
    passages: Passages,
    reranker: Reranker | None,
) -> tuple[Ranking, Asked]:
    """The best few passages in a better order; where that is not possible, the order as it was and a note."""
    if reranker is None:
        return ranking, replace(asked, notes=(*asked.notes, "Reranking is switched off; this is the fused order."))
    first = ranking.order[: phrases.alike(found, BEST)].tolist()
    joined = passages.hits(found.ids[first].tolist()) if first else {}
    there = [place for place in first if int(found.ids[place]) in joined]
    best = [
        Passage(chunk.id, passage_text(document.title, chunk.section, chunk.text))
        for chunk, document in (joined[int(found.ids[place])] for place in there)
    ]
    fused = replace(ranking, order=np.concatenate([np.array(there, np.int64), ranking.order[len(first) :]]))
    better, note = reranker.rerank(query, asked.model, fused, best, index)
    asked = asked if note is None else replace(asked, notes=(*asked.notes, note))
    return better, asked if note is not None and better is fused else replace(asked, mode=Mode.RERANK)


def shape(query: Query, asked: Asked, found: Candidates, ranking: Ranking, page: PageOfHits, costs: Costs) -> Answer:
    notes = asked.notes
    if not ranking.calibrated and len(found.ids):
        notes = (*notes, "The scores are uncalibrated: this model's constants are not known. The order is sound.")
    hits = tuple(hit(shown, found, ranking, explain=query.explain) for shown in page.shown)
    explanation = explain_answer(asked, found, ranking, costs) if query.explain else None
    return Answer(hits, page.total, asked.mode, notes, explanation)


def hit(shown: Shown, found: Candidates, ranking: Ranking, *, explain: bool) -> Hit:
    explanation = explain_hit(shown, found, ranking) if explain else None
    way = matched_by(shown.place, found)
    return Hit(shown.chunk, shown.document, shown.relevance, way, explanation, shown.joined)


def matched_by(place: int, found: Candidates) -> str:
    by_words, by_meaning = found.bm25[place] > 0.0, found.meaning_rank[place] >= 0
    if by_words and by_meaning:
        return "both"
    return "words" if by_words else "meaning"


# -- explaining ---------------------------------------------------------------------------------


class Costs:
    """What each step took, if anybody wants to know: milliseconds of this thread's processor time, and by the clock."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._marks = wanted, list[tuple[str, float, float]]()
        self.of("")

    def of(self, step: str) -> None:
        """This step ends here, and the next begins."""
        if self._wanted:
            self._marks.append((step, time.thread_time(), time.perf_counter()))

    def steps(self) -> Iterator[Json]:
        for (_, cpu, wall), (step, cpu_then, wall_then) in pairwise(self._marks):
            spent, waited = round((cpu_then - cpu) * 1000, 3), round((wall_then - wall) * 1000, 3)
            yield {"step": step, "cpu_ms": spent, "wall_ms": waited}


def explain_hit(shown: Shown, found: Candidates, ranking: Ranking) -> Json:
    """What each step contributed; a rank counts from 1 and is null where that side did not find the passage."""
    place = shown.place
    cosine = float(found.cosine[place])
    explained: Json = {
        "bm25": round(float(found.bm25[place]), 4),
        "words": round(float(found.words[place]), 4),
        "words_rank": _from_one(found.words_rank[place]),
        "cosine": None if np.isnan(cosine) else round(cosine, 4),
        "meaning_rank": _from_one(found.meaning_rank[place]),
        "score": round(float(ranking.score[place]), 4),
        "relevance": round(float(ranking.relevance[place]), 4),
        "weight": round(shown.weight, 4),
    }
    if found.quoted is not None:
        explained["quoted"] = bool(found.quoted[place])
    return explained


def _from_one(place: np.int64) -> int | None:
    return None if place < 0 else int(place) + 1


def explain_answer(asked: Asked, found: Candidates, ranking: Ranking, costs: Costs) -> Json:
    terms: list[JsonValue] = ["|".join(forms) for forms in asked.words.terms]
    steps: list[JsonValue] = [*costs.steps()]
    return {
        "mode": asked.mode.value,
        "model": asked.model or None,
        "terms": terms,
        "instead": {word: [*near] for word, near in asked.instead.items()},
        "ceiling": round(found.ceiling, 4),
        "candidates": len(found.ids),
        "calibrated": ranking.calibrated,
        "steps": steps,
    }
