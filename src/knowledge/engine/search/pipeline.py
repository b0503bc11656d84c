"""The search pipeline: embed the question, find candidates, rank, rerank, diversify, hydrate, build the answer."""

from __future__ import annotations

import logging
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from knowledge.embed.embedder import Embedder
from knowledge.engine.search import fusion
from knowledge.engine.search.details import describe_answer
from knowledge.engine.search.diversify import Arrangement, arrange_candidates
from knowledge.engine.search.fusion import Ranking
from knowledge.engine.search.highlight import find_highlights
from knowledge.engine.search.hydrate import HydratedPage, HydratedPassage, PassageSource, hydrate_page
from knowledge.engine.search.rerank import MAX_RERANKED_PASSAGES, Reranker, RerankPassage
from knowledge.engine.search.spelling import complete_last_word, correct_words
from knowledge.errors import EmbeddingFailed, EmptyQuery, IndexFailed, ModelUnavailable, Unavailable
from knowledge.index.api import Candidates, Index, IndexFilter, IndexSnapshot, QueryTerms
from knowledge.model import Hit, Json, JsonValue, Query, Scope, SearchAnswer, SearchFilter, SearchMode
from knowledge.split import build_embedding_text
from knowledge.store.collections import CollectionStore
from knowledge.store.documents import DocumentStore
from knowledge.telemetry import metrics
from knowledge.text import analyzer

NO_PHRASE_MATCH_NOTE = (
    "No passage contains the quoted phrase; search without the quotation marks to match the words separately."
)
PHRASE_FALLBACK_NOTE = "No passage contains the quoted phrase; these are the hits for its separate words."
OTHERS_FOLLOW_NOTE = "Passages that contain the quoted phrase come first; the others follow."


def resolve_phrases(found: Candidates, words: QueryTerms, *, enough: int) -> tuple[Candidates, tuple[str, ...]]:
    """Return the candidates of a question with phrases, and the note for the answer."""
    matches = 0 if found.quoted is None else int(found.quoted.sum())
    if words.exact or matches >= enough:
        return replace(found, quoted=None), () if matches else (NO_PHRASE_MATCH_NOTE,)
    if not matches:
        return replace(found, quoted=None), (PHRASE_FALLBACK_NOTE,)
    return found, () if matches == len(found.ids) else (OTHERS_FOLLOW_NOTE,)


def count_rerankable(candidates: Candidates, max_count: int) -> int:
    """Return how many candidates may be reranked: only those with the quoted phrase, if some lack it."""
    return max_count if candidates.quoted is None else min(max_count, int(candidates.quoted.sum()))


CANDIDATES_PER_SIDE = 100
"""Candidates of BM25 and of the vectors; the same for every page, so that pages never repeat or skip a passage."""
MAX_CACHED_QUESTIONS = 1024
NO_COLLECTION = 0
"""An id that no collection has: ids start at 1, and an empty filter would search all collections."""

Vector = NDArray[np.float32]

log = logging.getLogger(__name__)


def search(
    query: Query,
    within: IndexFilter,
    *,
    index: Index,
    passages: PassageSource,
    embedder: Embedder | None,
    reranker: Reranker | None = None,
) -> SearchAnswer:
    """Search an index and return the passages that answer a question, best first."""
    timer, snapshot = StepTimer(query.explain), index.snapshot
    languages = snapshot.languages()
    asked = parse_query(query, languages, embedder)
    timer.mark("embed")
    with wrap_index_errors():
        asked = complete_typing(query, asked, languages, within, snapshot) if query.typing else asked
        found, asked = find_candidates(correct_spelling(query, asked, languages, within, snapshot), within, snapshot)
    timer.mark("find")
    ranking = rank_candidates(found, asked)
    timer.mark("rank")
    if query.mode is SearchMode.RERANK and asked.mode is SearchMode.HYBRID and not query.typing:
        ranking, asked = rerank_candidates(
            query, asked, found, ranking, index=snapshot, passages=passages, reranker=reranker
        )
        timer.mark("rerank")
    with wrap_index_errors():
        arranged = arrange_candidates(found, ranking, query.threshold, snapshot)
    timer.mark("arrange")
    page = hydrate_page(query, found, arranged, passages)
    timer.mark("join")
    answer = build_answer(query, asked, found, ranking, page, timer)
    if not (query.highlight or query.facets or query.typing):
        return answer
    with wrap_index_errors():
        return add_details(query, asked, answer, found, arranged, within, index=snapshot, passages=passages)


# -- the question -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The terms, the vector and the effective mode of a query."""

    mode: SearchMode
    words: QueryTerms
    vector: Vector | None
    model: str
    notes: tuple[str, ...] = ()
    instead: Mapping[str, list[str]] = field(default_factory=dict)
    """Spelling corrections of words that no passage contains."""
    completed: str | None = None
    """The last word, if the question is being typed and terms begin with it."""


def parse_query(query: Query, languages: tuple[str, ...], embedder: Embedder | None) -> ParsedQuery:
    """Analyse and embed the question; without a model, fall back to search by words."""
    words = analyzer.analyse_question(query.text, languages)
    refuse_empty_query(query, words, embedder)
    if query.mode is SearchMode.TEXT:
        return ParsedQuery(SearchMode.TEXT, words, None, "")
    if embedder is None:
        return fall_back_to_words(query, words, "No embedding model is loaded")
    try:
        vector = embed_question(embedder, query.text)
    except Unavailable as error:
        if isinstance(error, EmbeddingFailed) and not query.fallback:
            raise
        return fall_back_to_words(query, words, str(error))
    if query.mode is SearchMode.VECTOR:
        return ParsedQuery(SearchMode.VECTOR, words, vector, embedder.name)
    return ParsedQuery(SearchMode.HYBRID, words, vector, embedder.name)


def complete_typing(
    query: Query, asked: ParsedQuery, languages: tuple[str, ...], within: IndexFilter, index: IndexSnapshot
) -> ParsedQuery:
    """Search for the completions of the last word too, unless only vectors are searched."""
    last = None if asked.mode is SearchMode.VECTOR else analyzer.find_last_word(query.text, languages)
    words = None if last is None else complete_last_word(asked.words, last, within, index)
    return asked if words is None or last is None else replace(asked, words=words, completed=last.token)


def correct_spelling(
    query: Query, asked: ParsedQuery, languages: tuple[str, ...], within: IndexFilter, index: IndexSnapshot
) -> ParsedQuery:
    """Correct query words that no passage contains, unless only vectors are searched."""
    if asked.mode is SearchMode.VECTOR:
        return asked
    unsure = analyzer.find_possible_misspellings(query.text, languages)
    counts = index.count_chunks_by_term({form for forms in unsure.values() for form in forms}, within)
    unknown = {
        word: forms
        for word, forms in unsure.items()
        if word != asked.completed and not any(counts[form] for form in forms)
    }
    if not unknown:
        return asked
    spelling = correct_words(asked.words, unknown, languages, within, index)
    return replace(asked, words=spelling.words, instead=spelling.instead) if spelling.instead else asked


def refuse_empty_query(query: Query, words: QueryTerms, embedder: Embedder | None) -> None:
    """Raise EmptyQuery for a question without words, unless it has symbols such as emoji that a model can embed."""
    if words.terms:
        return
    symbols = any(unicodedata.category(character) == "So" for character in query.text)
    if not (symbols and embedder is not None and query.mode is not SearchMode.TEXT):
        raise make_empty_query_error(query)


def make_empty_query_error(query: Query) -> EmptyQuery:
    return EmptyQuery("The query contains no word to search for", query=query.text[:200])


def fall_back_to_words(query: Query, words: QueryTerms, reason: str) -> ParsedQuery:
    if query.mode is SearchMode.VECTOR:
        raise ModelUnavailable(f"Search by meaning needs an embedding model. {reason}", mode=query.mode.value)
    if not words.terms:
        raise make_empty_query_error(query)
    return ParsedQuery(SearchMode.TEXT, words, None, "", (f"{reason}; these are the hits by words alone.",))


class QuestionCache:
    """LRU cache of question vectors by model and text."""

    def __init__(self, size: int = MAX_CACHED_QUESTIONS) -> None:
        self._size, self._lock = size, Lock()
        self._vectors: OrderedDict[tuple[str, str], Vector] = OrderedDict()

    def get(self, embedder: Embedder, text: str) -> Vector:
        key = (embedder.fingerprint, text)
        with self._lock:
            vector = self._vectors.get(key)
            if vector is not None:
                self._vectors.move_to_end(key)
        if vector is not None:
            metrics.CACHE_HITS["questions"].inc()
            return vector
        metrics.CACHE_MISSES["questions"].inc()
        vector = np.ascontiguousarray(embedder.embed_question(text)[0], np.float32)
        with self._lock:
            self._vectors[key] = vector
            if len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return vector


_QUESTION_CACHE = QuestionCache()


def embed_question(embedder: Embedder, text: str) -> Vector:
    return _QUESTION_CACHE.get(embedder, text)


# -- searching the index ------------------------------------------------------------------------


def find_candidates(asked: ParsedQuery, within: IndexFilter, index: IndexSnapshot) -> tuple[Candidates, ParsedQuery]:
    """Return the candidates of BM25 and vectors, each with both scores, and the query with notes about phrases."""
    by_words = asked.mode is not SearchMode.VECTOR
    found = index.find_candidates(asked.words, asked.vector, within, CANDIDATES_PER_SIDE, by_words=by_words)
    if not by_words or not asked.words.phrases:
        return found, asked
    found, note = resolve_phrases(found, asked.words, enough=CANDIDATES_PER_SIDE)
    return found, replace(asked, notes=(*asked.notes, *note))


@contextmanager
def wrap_index_errors() -> Iterator[None]:
    """Raise errors of the disk or the index library as IndexFailed, which triggers a rebuild."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        log.exception("searching the index failed")
        raise IndexFailed("The index could not be searched") from error


# -- ranking and building the answer ------------------------------------------------------------


def rank_candidates(candidates: Candidates, asked: ParsedQuery) -> Ranking:
    match asked.mode:
        case SearchMode.TEXT:
            return fusion.rank_by_words(candidates)
        case SearchMode.VECTOR:
            return fusion.rank_by_meaning(candidates, fusion.find_calibration(asked.model))
        case _:
            return fusion.rank_hybrid(candidates, fusion.find_calibration(asked.model))


def rerank_candidates(
    query: Query,
    asked: ParsedQuery,
    candidates: Candidates,
    ranking: Ranking,
    *,
    index: IndexSnapshot,
    passages: PassageSource,
    reranker: Reranker | None,
) -> tuple[Ranking, ParsedQuery]:
    """Rerank the best candidates; if that is not possible, keep their order and add a note."""
    if reranker is None:
        return ranking, replace(asked, notes=(*asked.notes, "Reranking is switched off; this is the fused order."))
    first = ranking.order[: count_rerankable(candidates, MAX_RERANKED_PASSAGES)].tolist()
    stored = passages.hits(candidates.ids[first].tolist()) if first else {}
    existing = [place for place in first if int(candidates.ids[place]) in stored]
    best = [
        RerankPassage(chunk.id, build_embedding_text(document.title, chunk.section, chunk.text))
        for chunk, document in (stored[int(candidates.ids[place])] for place in existing)
    ]
    fused = replace(ranking, order=np.concatenate([np.array(existing, np.int64), ranking.order[len(first) :]]))
    better, note = reranker.rerank(query, asked.model, fused, best, index)
    asked = asked if note is None else replace(asked, notes=(*asked.notes, note))
    return better, asked if note is not None and better is fused else replace(asked, mode=SearchMode.RERANK)


def build_answer(
    query: Query, asked: ParsedQuery, candidates: Candidates, ranking: Ranking, page: HydratedPage, timer: StepTimer
) -> SearchAnswer:
    notes = asked.notes
    if not ranking.calibrated and len(candidates.ids):
        notes = (*notes, "The scores are uncalibrated because this model was not measured; the order is not affected.")
    hits = tuple(build_hit(shown, candidates, ranking, explain=query.explain) for shown in page.passages)
    explanation = explain_answer(asked, candidates, ranking, timer) if query.explain else None
    return SearchAnswer(hits, page.total, asked.mode, notes, explanation)


def add_details(
    query: Query,
    asked: ParsedQuery,
    answer: SearchAnswer,
    candidates: Candidates,
    arranged: Arrangement,
    within: IndexFilter,
    *,
    index: IndexSnapshot,
    passages: PassageSource,
) -> SearchAnswer:
    """Add highlights, facets and counts to an answer."""
    hits = answer.hits
    if query.highlight:
        hits = tuple(
            replace(hit, highlights=find_highlights(hit.text, hit.document.language, asked.words)) for hit in hits
        )
    words = analyzer.list_question_words(query.text, index.languages())
    counts = index.count_chunks_by_term({form for forms in words.values() for form in forms}, within)
    absent = [word for word, forms in words.items() if word != asked.completed and not any(map(counts.get, forms))]
    documents = candidates.documents[arranged.order].tolist()
    details = describe_answer(query.facets, arranged.relevance, documents, absent, asked.instead, passages)
    return replace(answer, hits=hits, details=details)


def build_hit(shown: HydratedPassage, candidates: Candidates, ranking: Ranking, *, explain: bool) -> Hit:
    explanation = explain_hit(shown, candidates, ranking) if explain else None
    match = describe_match(shown.place, candidates)
    found = shown.relevance, match, shown.text, shown.indexes
    return Hit(shown.chunk, shown.document, *found, explanation, lines=shown.lines)


def describe_match(place: int, candidates: Candidates) -> str:
    by_words, by_meaning = candidates.bm25[place] > 0.0, candidates.meaning_rank[place] >= 0
    if by_words and by_meaning:
        return "both"
    return "words" if by_words else "meaning"


# -- explaining ---------------------------------------------------------------------------------


STAGES = {"embed": "embed", "rank": "fuse", "rerank": "rerank", "join": "hydrate"}
"""The steps that are stages of the metrics; the index measures the search by words and by meaning itself."""


class StepTimer:
    """Measures each step for the metrics, and its CPU time and wall time in milliseconds for an explanation."""

    def __init__(self, enabled: bool) -> None:
        self._enabled, self._marks = enabled, list[tuple[str, float, float]]()
        self._began = time.perf_counter()
        self.mark("")

    def mark(self, step: str) -> None:
        """End a step and start the next one."""
        now = time.perf_counter()
        stage = STAGES.get(step)
        if stage is not None:
            metrics.SEARCH_STAGE_SECONDS[stage].observe(now - self._began)
        self._began = now
        if self._enabled:
            self._marks.append((step, time.thread_time(), now))

    def list_steps(self) -> Iterator[Json]:
        for (_, cpu, wall), (step, cpu_then, wall_then) in pairwise(self._marks):
            spent, waited = round((cpu_then - cpu) * 1000, 3), round((wall_then - wall) * 1000, 3)
            yield {"step": step, "cpu_ms": spent, "wall_ms": waited}


def explain_hit(shown: HydratedPassage, candidates: Candidates, ranking: Ranking) -> Json:
    """Return the scores of a hit; a rank counts from 1 and is null if that side did not find the passage."""
    place = shown.place
    cosine = float(candidates.cosine[place])
    explained: Json = {
        "bm25": round(float(candidates.bm25[place]), 4),
        "words": round(float(fusion.normalize_bm25(candidates)[place]), 4),
        "words_rank": _one_based(candidates.words_rank[place]),
        "cosine": None if np.isnan(cosine) else round(cosine, 4),
        "meaning_rank": _one_based(candidates.meaning_rank[place]),
        "score": round(float(ranking.score[place]), 4),
        "relevance": round(float(ranking.relevance[place]), 4),
        "weight": round(shown.weight, 4),
    }
    if candidates.quoted is not None:
        explained["quoted"] = bool(candidates.quoted[place])
    return explained


def _one_based(place: np.int64) -> int | None:
    return None if place < 0 else int(place) + 1


def explain_answer(asked: ParsedQuery, candidates: Candidates, ranking: Ranking, timer: StepTimer) -> Json:
    terms: list[JsonValue] = ["|".join(forms) for forms in asked.words.terms]
    steps: list[JsonValue] = [*timer.list_steps()]
    calibration = fusion.find_calibration(asked.model or "")
    return {
        "mode": asked.mode.value,
        "model": asked.model or None,
        "terms": terms,
        "instead": {word: [*near] for word, near in asked.instead.items()},
        "ceiling": round(candidates.ceiling, 4),
        "candidates": len(candidates.ids),
        "calibrated": ranking.calibrated,
        "words_weight": None if calibration is None else calibration.words_weight,
        "steps": steps,
    }


def make_index_filter(
    wanted: SearchFilter, documents: DocumentStore, collections: CollectionStore, scope: Scope
) -> IndexFilter:
    """Convert scope and filter to ids; raises NotFound for an unknown collection or document."""
    return IndexFilter(
        owner=scope.owner,
        shared_collections=tuple(sorted(scope.collections)),
        collections=_find_collections(wanted, collections, scope),
        tags=wanted.tags,
        doc_types=wanted.doc_types,
        documents=documents.find_ids(wanted.documents, scope) if wanted.documents else (),
        day_from=to_day_number(wanted.date_from),
        day_to=to_day_number(wanted.date_to),
    )


def _find_collections(wanted: SearchFilter, collections: CollectionStore, scope: Scope) -> tuple[int, ...]:
    """Return the ids of the collections to search; empty searches all."""
    named = collections.find_ids(wanted.collections, scope) if wanted.collections else ()
    if not wanted.trusted_only:
        return named
    trusted = collections.find_trusted_ids(scope)
    return tuple(found for found in trusted if found in named or not named) or (NO_COLLECTION,)


def to_day_number(moment: datetime | None) -> int | None:
    """Return the UTC day as the number of days since 1970-01-01."""
    return None if moment is None else int(moment.astimezone(UTC).timestamp() // 86400)
