"""The search pipeline over a real index and a small store in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from knowledge.embed.embedder import Vectors
from knowledge.engine.search import pipeline
from knowledge.engine.search import pipeline as search_pipeline
from knowledge.engine.search.fusion import Numbers
from knowledge.engine.search.rerank import Reranker, RerankRequest
from knowledge.errors import EmbeddingFailed, EmptyQuery, ModelUnavailable
from knowledge.index.api import IndexEntry, IndexFilter
from knowledge.index.embedded import EmbeddedIndex
from knowledge.model import (
    Chunk,
    Document,
    DocumentKind,
    DocumentLabels,
    DocumentStatus,
    ExtractionMethod,
    Query,
    SearchAnswer,
    SearchMode,
)
from knowledge.text import analyzer

MEANINGS = {"tea": 0, "beverage": 0, "drink": 0, "car": 1, "vehicle": 1, "tree": 2, "🍵": 0}
DIMENSION = 32


class SynonymEmbedder:
    """A model in which a few words have the same meaning."""

    dimension, languages = DIMENSION, None

    def __init__(self, name: str = "granite-embedding-30m-english") -> None:
        self.name, self.fingerprint, self.questions = name, f"{name}/meanings", 0

    def embed(self, passages: Sequence[str]) -> Vectors:
        return np.stack([self._one(text) for text in passages])

    def embed_question(self, question: str) -> Vectors:
        self.questions += 1
        return self._one(question)[None]

    def _one(self, text: str) -> Vectors:
        vector = np.full(DIMENSION, 0.2, np.float32)
        for word in text.lower().split():
            if word in MEANINGS:
                vector[MEANINGS[word]] += 2.0
        unit: Vectors = vector / np.linalg.norm(vector)
        return unit


class FailingEmbedder(SynonymEmbedder):
    def embed_question(self, question: str) -> Vectors:
        raise EmbeddingFailed("The remote model does not answer")


class SmallLibrary:
    """A store in memory with an index of it."""

    def __init__(self, folder: Path) -> None:
        self.index = EmbeddedIndex.open(folder, DIMENSION, "meanings")
        self.model = SynonymEmbedder()
        self.stored: dict[int, tuple[Chunk, Document]] = {}

    def add(self, *texts: str, language: str | None = None, embedded: bool = True) -> list[int]:
        first = len(self.stored) + 1
        numbers = list(range(first, first + len(texts)))
        for number, text in zip(numbers, texts, strict=True):
            chunk = Chunk(number, UUID(int=number), number, 0, text, None, ())
            self.stored[number] = (chunk, document(number, text))
        vectors = self.model.embed(texts).astype(np.float16)
        entries = [
            IndexEntry(
                n, n, 0, 1, 0, "md", 1, (), analyzer.extract_terms(t, language), vector if embedded else None, language
            )
            for n, t, vector in zip(numbers, texts, vectors, strict=True)
        ]
        self.index.apply(first, numbers, entries)
        return numbers

    def hits(self, chunk_ids: Sequence[int]) -> dict[int, tuple[Chunk, Document]]:
        return {chunk: self.stored[chunk] for chunk in chunk_ids if chunk in self.stored}

    def find_labels(self, document_ids: Sequence[int]) -> dict[int, DocumentLabels]:
        return {}

    def ask(
        self,
        query: Query | str,
        model: SynonymEmbedder | None = None,
        *,
        words_only: bool = False,
        reranker: Reranker | None = None,
    ) -> SearchAnswer:
        asked = Query(text=query) if isinstance(query, str) else query
        embedder = None if words_only else (model or self.model)
        within = IndexFilter(owner=0)
        return search_pipeline.search(
            asked, within, index=self.index, passages=self, embedder=embedder, reranker=reranker
        )


def document(number: int, title: str) -> Document:
    when = datetime(2024, 5, 1, tzinfo=UTC)
    return Document(
        number, UUID(int=number), title, DocumentKind.NOTE, "md", "documents", 1, 0, (), {}, None, None, None, "", 1,
        DocumentStatus.COMPLETED, ExtractionMethod.TEXT_EXTRACTION, (), None, None, 1, when, when,
    )  # fmt: skip


def ids(answer: SearchAnswer) -> list[int]:
    return [hit.chunk.id for hit in answer.hits]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[SmallLibrary]:
    library = SmallLibrary(tmp_path / "index")
    yield library
    library.index.close()


def test_hybrid_search_finds_by_words_and_by_meaning(library: SmallLibrary) -> None:
    library.add("a cup of tea", "some beverage", "a fast car", "tea")
    answer = library.ask("tea")
    assert (answer.mode, answer.total, answer.notes) == (SearchMode.HYBRID, 4, ())
    assert ids(answer)[:3] == [4, 1, 2]
    assert [hit.matched_by for hit in answer.hits] == ["both", "both", "meaning", "meaning"]
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_each_mode_uses_only_its_own_side(library: SmallLibrary) -> None:
    library.add("the tea", "the beverage", "the car")
    by_words = library.ask(Query(text="tea", mode=SearchMode.TEXT))
    assert (ids(by_words), by_words.mode, by_words.hits[0].matched_by) == ([1], SearchMode.TEXT, "words")
    by_meaning = library.ask(Query(text="tea", mode=SearchMode.VECTOR))
    assert (ids(by_meaning)[:2], by_meaning.mode, by_meaning.hits[0].matched_by) == (
        [1, 2],
        SearchMode.VECTOR,
        "meaning",
    )


def test_an_answer_notes_that_reranking_is_not_available(library: SmallLibrary) -> None:
    library.add("tea")
    answer = library.ask(Query(text="tea", mode=SearchMode.RERANK))
    assert (answer.mode, ids(answer), len(answer.notes)) == (SearchMode.HYBRID, [1], 1)


def test_without_a_model_search_falls_back_to_words(library: SmallLibrary) -> None:
    library.add("tea")
    answer = library.ask("tea", words_only=True)
    assert (answer.mode, ids(answer), len(answer.notes)) == (SearchMode.TEXT, [1], 1)


def test_with_a_failing_model_search_falls_back_to_words(library: SmallLibrary) -> None:
    library.add("tea")
    answer = library.ask("tea", FailingEmbedder("broken"))
    assert (answer.mode, ids(answer)) == (SearchMode.TEXT, [1])
    assert "does not answer" in answer.notes[0]


def test_search_by_meaning_without_a_model_is_refused(library: SmallLibrary) -> None:
    with pytest.raises(ModelUnavailable):
        library.ask(Query(text="tea", mode=SearchMode.VECTOR), words_only=True)


@pytest.mark.parametrize("text", ["", " \n\t", "?!", '""', "...", "--"])
def test_a_question_without_a_word_is_refused(library: SmallLibrary, text: str) -> None:
    library.add("tea")
    for mode in SearchMode:
        with pytest.raises(EmptyQuery):
            library.ask(Query(text=text, mode=mode))


def test_an_emoji_is_searched_by_meaning(library: SmallLibrary) -> None:
    library.add("a car", "some tea")
    assert ids(library.ask("🍵"))[0] == 2
    with pytest.raises(EmptyQuery):
        library.ask("🍵", words_only=True)
    with pytest.raises(EmptyQuery):
        library.ask(Query(text="🍵", mode=SearchMode.TEXT))


def test_a_question_of_ten_thousand_characters_is_answered(library: SmallLibrary) -> None:
    library.add("tea in the kitchen", "a car")
    assert ids(library.ask("tea " + "something else entirely " * 420))[0] == 1


def test_a_question_of_stop_words_only_is_answered(library: SmallLibrary) -> None:
    library.add("to be or not to be", "a car")
    assert ids(library.ask(Query(text="to be or not to be", mode=SearchMode.TEXT)))[0] == 1


def test_a_quoted_phrase_must_match_exactly(library: SmallLibrary) -> None:
    library.add("green tea", "tea that is green", "a drink")
    assert ids(library.ask('"green tea"')) == [1]
    nothing = library.ask('"tea green"')
    assert (ids(nothing), nothing.total, len(nothing.notes)) == ([], 0, 1)


def test_passages_with_the_quoted_phrase_come_first_in_a_longer_question(library: SmallLibrary) -> None:
    library.add("tea that is green in the morning", "a drink", "green tea", "the green car in the evening")
    answer = library.ask(Query(text='when is "green tea" drunk in the morning?', explain=True))
    assert ids(answer)[0] == 3 and set(ids(answer)) >= {1, 3}
    assert [hit.explanation["quoted"] for hit in answer.hits if hit.explanation][:2] == [True, False]
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert answer.notes == (pipeline.OTHERS_FOLLOW_NOTE,)
    plain = library.ask("when is green tea drunk in the morning?")
    assert ids(plain)[0] == 1 and not plain.notes


class ReversingScorer:
    """Gives the last passage the highest score."""

    def score_passages(self, request: RerankRequest) -> Numbers:
        return np.arange(len(request.passages), dtype=np.float64)


def test_reranking_keeps_passages_with_the_quoted_phrase_first(library: SmallLibrary) -> None:
    library.add("green tea", "much green tea in the morning", "tea that is green in the morning", "a drink")
    reranker = Reranker(ReversingScorer, 20_000)
    question = Query(text='is "green tea" drunk in the morning?', mode=SearchMode.RERANK)
    first = ids(library.ask(replace(question, mode=SearchMode.HYBRID)))
    again = ids(library.ask(question, reranker=reranker))
    assert again[:2] == first[1::-1] and again[2:] == first[2:]


def test_a_phrase_without_a_match_is_searched_by_its_words(library: SmallLibrary) -> None:
    library.add("tea that is green in the morning", "a drink")
    answer = library.ask(Query(text='is "green tea" drunk in the morning?', mode=SearchMode.TEXT))
    plain = library.ask(Query(text="is green tea drunk in the morning?", mode=SearchMode.TEXT))
    assert answer.notes == (pipeline.PHRASE_FALLBACK_NOTE,) and not plain.notes
    assert [(hit.chunk.id, hit.score) for hit in answer.hits] == [(hit.chunk.id, hit.score) for hit in plain.hits]
    assert ids(library.ask('is "green tea" drunk in the morning?'))[0] == 1


def test_with_enough_phrase_matches_no_other_passages_follow(library: SmallLibrary) -> None:
    library.add("tea that is green", *(f"green tea number {number}" for number in range(120)))
    answer = library.ask(Query(text='which "green tea" is the best?', limit=1000))
    assert 1 not in ids(answer) and len(answer.hits) >= 100 and not answer.notes


def test_a_passage_without_a_vector_is_found_by_its_words(library: SmallLibrary) -> None:
    library.add("the car in the street", "the tree")
    (german,) = library.add("die Häuser der Straße", language="de", embedded=False)
    answer = library.ask("Haus")
    assert ids(answer)[0] == german
    assert answer.hits[0].matched_by == "words"


def test_pages_neither_repeat_nor_skip(library: SmallLibrary) -> None:
    library.add(*(f"tea number {number} " + "leaf " * (number % 7) for number in range(150)))
    whole = ids(library.ask(Query(text="tea leaf", limit=1000)))
    paged = [
        chunk
        for offset in range(0, 200, 7)
        for chunk in ids(library.ask(Query(text="tea leaf", limit=7, offset=offset)))
    ]
    assert paged == whole
    assert len(set(whole)) == len(whole) >= 100


def test_a_deleted_passage_is_replaced_by_the_next(library: SmallLibrary) -> None:
    library.add(*(f"tea {'leaf ' * number}" for number in range(20)))
    whole = ids(library.ask(Query(text="tea", limit=20)))
    for gone in whole[:3]:
        del library.stored[gone]
    assert ids(library.ask(Query(text="tea", limit=5))) == whole[3:8]
    assert ids(library.ask(Query(text="tea", limit=5, offset=5))) == whole[8:13]
    assert library.ask(Query(text="tea", limit=20)).total == 17


def test_the_threshold_drops_less_relevant_hits(library: SmallLibrary) -> None:
    library.add("tea", "a car")
    scores = [hit.score for hit in library.ask("tea").hits]
    middle = sum(scores) / 2
    answer = library.ask(Query(text="tea", threshold=middle))
    assert (ids(answer), answer.total) == ([1], 1)
    assert library.ask(Query(text="car", threshold=1.0, mode=SearchMode.TEXT)).hits == ()


def test_an_answer_notes_that_an_unknown_model_is_uncalibrated(library: SmallLibrary) -> None:
    library.add("tea", "a car")
    answer = library.ask("tea", SynonymEmbedder("somebody/else"))
    assert ids(answer)[0] == 1
    assert "uncalibrated" in answer.notes[0]


def test_a_question_is_embedded_once(library: SmallLibrary) -> None:
    library.add("tea")
    model = SynonymEmbedder("asked-twice")
    for _ in range(3):
        library.ask("a question that nobody asked before", model)
    assert model.questions == 1


def test_an_explanation_has_the_scores_and_the_time_of_each_step(library: SmallLibrary) -> None:
    library.add("tea", "a beverage", "a car")
    answer = library.ask(Query(text="tea", explain=True))
    first, second = answer.hits[0].explanation, answer.hits[1].explanation
    assert first is not None
    assert second is not None
    assert (first["words_rank"], first["meaning_rank"], second["words_rank"]) == (1, 1, None)
    assert first["relevance"] == round(answer.hits[0].score, 4)
    assert set(first) == {"bm25", "words", "words_rank", "cosine", "meaning_rank", "score", "relevance", "weight"}
    assert answer.explanation is not None
    steps = answer.explanation["steps"]
    assert isinstance(steps, list)
    assert [step["step"] for step in steps if isinstance(step, dict)] == ["embed", "find", "rank", "arrange", "join"]
    assert library.ask("tea").explanation is None


def test_an_empty_index_has_no_hits(library: SmallLibrary) -> None:
    answer = library.ask("tea")
    assert (answer.hits, answer.total) == ((), 0)
