"""A search from the question to the hits, over a real index and a small truth in memory."""

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
    DocumentStatus,
    ExtractionMethod,
    Query,
    SearchAnswer,
    SearchMode,
)
from knowledge.text import analyzer

MEANINGS = {"tea": 0, "beverage": 0, "drink": 0, "car": 1, "vehicle": 1, "tree": 2, "🍵": 0}
DIMENSION = 32


class Meanings:
    """A model that knows a few words that mean the same."""

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


class BrokenModel(Meanings):
    def embed_question(self, question: str) -> Vectors:
        raise EmbeddingFailed("The remote model does not answer")


class Shelf:
    """The truth in memory, and an index of it."""

    def __init__(self, folder: Path) -> None:
        self.index = EmbeddedIndex.open(folder, DIMENSION, "meanings")
        self.model = Meanings()
        self.truth: dict[int, tuple[Chunk, Document]] = {}

    def add(self, *texts: str, language: str | None = None, embedded: bool = True) -> list[int]:
        first = len(self.truth) + 1
        numbers = list(range(first, first + len(texts)))
        for number, text in zip(numbers, texts, strict=True):
            chunk = Chunk(number, UUID(int=number), number, 0, text, None, ())
            self.truth[number] = (chunk, document(number, text))
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
        return {chunk: self.truth[chunk] for chunk in chunk_ids if chunk in self.truth}

    def ask(
        self,
        query: Query | str,
        model: Meanings | None = None,
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
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path / "index")
    yield shelf
    shelf.index.close()


def test_words_and_meaning_find_together(shelf: Shelf) -> None:
    shelf.add("a cup of tea", "some beverage", "a fast car", "tea")
    answer = shelf.ask("tea")
    assert (answer.mode, answer.total, answer.notes) == (SearchMode.HYBRID, 4, ())
    assert ids(answer)[:3] == [4, 1, 2]
    assert [hit.matched_by for hit in answer.hits] == ["both", "both", "meaning", "meaning"]
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_each_mode_goes_by_what_it_says(shelf: Shelf) -> None:
    shelf.add("the tea", "the beverage", "the car")
    by_words = shelf.ask(Query(text="tea", mode=SearchMode.TEXT))
    assert (ids(by_words), by_words.mode, by_words.hits[0].matched_by) == ([1], SearchMode.TEXT, "words")
    by_meaning = shelf.ask(Query(text="tea", mode=SearchMode.VECTOR))
    assert (ids(by_meaning)[:2], by_meaning.mode, by_meaning.hits[0].matched_by) == (
        [1, 2],
        SearchMode.VECTOR,
        "meaning",
    )


def test_reranking_that_is_not_there_is_said(shelf: Shelf) -> None:
    shelf.add("tea")
    answer = shelf.ask(Query(text="tea", mode=SearchMode.RERANK))
    assert (answer.mode, ids(answer), len(answer.notes)) == (SearchMode.HYBRID, [1], 1)


def test_without_a_model_words_go_on(shelf: Shelf) -> None:
    shelf.add("tea")
    answer = shelf.ask("tea", words_only=True)
    assert (answer.mode, ids(answer), len(answer.notes)) == (SearchMode.TEXT, [1], 1)


def test_a_model_that_fails_leaves_the_words(shelf: Shelf) -> None:
    shelf.add("tea")
    answer = shelf.ask("tea", BrokenModel("broken"))
    assert (answer.mode, ids(answer)) == (SearchMode.TEXT, [1])
    assert "does not answer" in answer.notes[0]


def test_search_by_meaning_without_a_model_is_refused(shelf: Shelf) -> None:
    with pytest.raises(ModelUnavailable):
        shelf.ask(Query(text="tea", mode=SearchMode.VECTOR), words_only=True)


@pytest.mark.parametrize("text", ["", " \n\t", "?!", '""', "...", "--"])
def test_a_question_without_a_word_is_refused(shelf: Shelf, text: str) -> None:
    shelf.add("tea")
    for mode in SearchMode:
        with pytest.raises(EmptyQuery):
            shelf.ask(Query(text=text, mode=mode))


def test_a_picture_is_answered_by_meaning(shelf: Shelf) -> None:
    shelf.add("a car", "some tea")
    assert ids(shelf.ask("🍵"))[0] == 2
    with pytest.raises(EmptyQuery):
        shelf.ask("🍵", words_only=True)
    with pytest.raises(EmptyQuery):
        shelf.ask(Query(text="🍵", mode=SearchMode.TEXT))


def test_a_question_of_ten_thousand_characters_is_answered(shelf: Shelf) -> None:
    shelf.add("tea in the kitchen", "a car")
    assert ids(shelf.ask("tea " + "something else entirely " * 420))[0] == 1


def test_a_question_of_small_words_only_is_answered(shelf: Shelf) -> None:
    shelf.add("to be or not to be", "a car")
    assert ids(shelf.ask(Query(text="to be or not to be", mode=SearchMode.TEXT)))[0] == 1


def test_quoted_words_must_stand_side_by_side(shelf: Shelf) -> None:
    shelf.add("green tea", "tea that is green", "a drink")
    assert ids(shelf.ask('"green tea"')) == [1]
    nothing = shelf.ask('"tea green"')
    assert (ids(nothing), nothing.total, len(nothing.notes)) == ([], 0, 1)


def test_what_holds_quoted_words_stands_first_in_a_question_that_says_more(shelf: Shelf) -> None:
    shelf.add("tea that is green in the morning", "a drink", "green tea", "the green car in the evening")
    answer = shelf.ask(Query(text='when is "green tea" drunk in the morning?', explain=True))
    assert ids(answer)[0] == 3 and set(ids(answer)) >= {1, 3}
    assert [hit.explanation["quoted"] for hit in answer.hits if hit.explanation][:2] == [True, False]
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert answer.notes == (pipeline.OTHERS_FOLLOW_NOTE,)
    plain = shelf.ask("when is green tea drunk in the morning?")
    assert ids(plain)[0] == 1 and not plain.notes


class Backwards:
    """Likes best what stands last."""

    def score_passages(self, request: RerankRequest) -> Numbers:
        return np.arange(len(request.passages), dtype=np.float64)


def test_reading_again_keeps_what_holds_the_quoted_words_first(shelf: Shelf) -> None:
    shelf.add("green tea", "much green tea in the morning", "tea that is green in the morning", "a drink")
    reranker = Reranker(Backwards, 20_000)
    question = Query(text='is "green tea" drunk in the morning?', mode=SearchMode.RERANK)
    first = ids(shelf.ask(replace(question, mode=SearchMode.HYBRID)))
    again = ids(shelf.ask(question, reranker=reranker))
    assert again[:2] == first[1::-1] and again[2:] == first[2:]


def test_a_question_quotes_in_vain_and_is_answered_by_its_words(shelf: Shelf) -> None:
    shelf.add("tea that is green in the morning", "a drink")
    answer = shelf.ask(Query(text='is "green tea" drunk in the morning?', mode=SearchMode.TEXT))
    plain = shelf.ask(Query(text="is green tea drunk in the morning?", mode=SearchMode.TEXT))
    assert answer.notes == (pipeline.PHRASE_FALLBACK_NOTE,) and not plain.notes
    assert [(hit.chunk.id, hit.score) for hit in answer.hits] == [(hit.chunk.id, hit.score) for hit in plain.hits]
    assert ids(shelf.ask('is "green tea" drunk in the morning?'))[0] == 1


def test_where_enough_hold_the_quoted_words_no_others_follow(shelf: Shelf) -> None:
    shelf.add("tea that is green", *(f"green tea number {number}" for number in range(120)))
    answer = shelf.ask(Query(text='which "green tea" is the best?', limit=1000))
    assert 1 not in ids(answer) and len(answer.hits) >= 100 and not answer.notes


def test_a_passage_in_a_language_that_the_model_does_not_read_is_found_by_its_words(shelf: Shelf) -> None:
    shelf.add("the car in the street", "the tree")
    (german,) = shelf.add("die Häuser der Straße", language="de", embedded=False)
    answer = shelf.ask("Haus")
    assert ids(answer)[0] == german
    assert answer.hits[0].matched_by == "words"


def test_pages_neither_repeat_nor_skip(shelf: Shelf) -> None:
    shelf.add(*(f"tea number {number} " + "leaf " * (number % 7) for number in range(150)))
    whole = ids(shelf.ask(Query(text="tea leaf", limit=1000)))
    paged = [
        chunk for offset in range(0, 200, 7) for chunk in ids(shelf.ask(Query(text="tea leaf", limit=7, offset=offset)))
    ]
    assert paged == whole
    assert len(set(whole)) == len(whole) >= 100


def test_a_deleted_passage_makes_room_for_the_next(shelf: Shelf) -> None:
    shelf.add(*(f"tea {'leaf ' * number}" for number in range(20)))
    whole = ids(shelf.ask(Query(text="tea", limit=20)))
    for gone in whole[:3]:
        del shelf.truth[gone]
    assert ids(shelf.ask(Query(text="tea", limit=5))) == whole[3:8]
    assert ids(shelf.ask(Query(text="tea", limit=5, offset=5))) == whole[8:13]
    assert shelf.ask(Query(text="tea", limit=20)).total == 17


def test_the_threshold_keeps_what_is_relevant_enough(shelf: Shelf) -> None:
    shelf.add("tea", "a car")
    scores = [hit.score for hit in shelf.ask("tea").hits]
    middle = sum(scores) / 2
    answer = shelf.ask(Query(text="tea", threshold=middle))
    assert (ids(answer), answer.total) == ([1], 1)
    assert shelf.ask(Query(text="car", threshold=1.0, mode=SearchMode.TEXT)).hits == ()


def test_an_unknown_model_is_said_to_be_uncalibrated(shelf: Shelf) -> None:
    shelf.add("tea", "a car")
    answer = shelf.ask("tea", Meanings("somebody/else"))
    assert ids(answer)[0] == 1
    assert "uncalibrated" in answer.notes[0]


def test_a_question_is_embedded_once(shelf: Shelf) -> None:
    shelf.add("tea")
    model = Meanings("asked-twice")
    for _ in range(3):
        shelf.ask("a question that nobody asked before", model)
    assert model.questions == 1


def test_an_explanation_says_what_each_step_gave_and_cost(shelf: Shelf) -> None:
    shelf.add("tea", "a beverage", "a car")
    answer = shelf.ask(Query(text="tea", explain=True))
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
    assert shelf.ask("tea").explanation is None


def test_an_empty_index_answers_nothing(shelf: Shelf) -> None:
    answer = shelf.ask("tea")
    assert (answer.hits, answer.total) == ((), 0)
