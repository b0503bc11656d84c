"""The embedded index: what is put in is found, inside its filters, and nothing else is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from knowledge.index import vectors
from knowledge.index.api import Entry, Within
from knowledge.index.embedded import EmbeddedIndex
from knowledge.text import analyzer
from tests.support.small_index import EVERYTHING, asked, by_meaning, by_words, entry, open_index, put, vector


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = open_index(tmp_path / "index")
    yield index
    index.close()


def test_a_new_index_is_empty_and_asks_for_a_rebuild(index: EmbeddedIndex) -> None:
    assert (index.checkpoint(), index.count(), index.document_chunks()) == (-1, 0, {})
    assert by_words(index, "tea") == by_meaning(index, 1) == []


def test_a_passage_is_found_by_its_words_and_by_its_meaning(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "green tea"), entry(2, "black coffee"), entry(3, "tea for two")])
    assert by_words(index, "green tea") == [1, 3]
    assert by_meaning(index, 2)[0] == 2
    assert index.meaning(vector(2), EVERYTHING, 1).scores[0] == pytest.approx(1.0, abs=1e-3)


def test_a_document_is_replaced_as_a_whole(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "old tea", document_id=7), entry(2, "older tea", document_id=7), entry(9, "tea")])
    index.apply(2, [7], [entry(3, "new coffee", document_id=7)])
    assert by_words(index, "tea") == [9]
    assert by_words(index, "coffee") == [3]
    assert set(by_meaning(index, 1)) == {3, 9}
    assert index.document_chunks() == {7: 1, 9: 1}


def test_a_document_without_entries_is_gone(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "tea"), entry(2, "tea")])
    index.apply(2, [1], [])
    assert (by_words(index, "tea"), by_meaning(index, 1), index.count()) == ([2], [2], 1)


def test_to_apply_a_change_twice_changes_nothing(index: EmbeddedIndex) -> None:
    for _ in range(2):
        put(index, 1, [entry(1, "tea", document_id=5), entry(2, "tea pot", document_id=5)])
    assert (sorted(by_words(index, "tea")), index.count(), index.document_chunks()) == ([1, 2], 2, {5: 2})


def test_a_term_that_is_asked_for_twice_counts_twice(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "tea leaf"), entry(2, "coffee leaf"), entry(3, "milk")])
    once, twice = (index.words(asked(text), EVERYTHING, 10) for text in ("tea coffee", "tea coffee coffee"))
    assert once.scores[0] == pytest.approx(once.scores[1])
    assert index.ids(twice.places).tolist() == [2, 1]
    assert twice.scores[0] == pytest.approx(2 * twice.scores[1], rel=1e-5)


def test_the_word_score_of_any_passage_is_the_one_that_the_search_gives(index: EmbeddedIndex) -> None:
    texts = ["tea " * (number % 5 + 1) + "pot " * (number % 3) + "filler " * number for number in range(60)]
    put(index, 1, [entry(number, text) for number, text in enumerate(texts)])
    words = asked("tea tea pot unknown")
    found = index.words(words, EVERYTHING, 100)
    assert len(found.places) == 60
    np.testing.assert_allclose(index.bm25(words, found.places), found.scores, rtol=1e-4)
    assert index.ceiling(words) > found.scores.max()


def test_a_collection_is_weighed_as_if_it_were_alone(index: EmbeddedIndex, tmp_path: Path) -> None:
    texts = ["tea in the kitchen", "tea and more tea, in a long sentence about the house", "a boat", "the kitchen"]
    mine = [entry(number, text, collection_id=1) for number, text in enumerate(texts, 1)]
    others = [entry(number, f"boat and kitchen {number}", collection_id=2) for number in range(10, 60)]
    put(index, 1, [*mine, *others])
    alone = open_index(tmp_path / "alone")
    put(alone, 1, mine)
    words, inside = analyzer.question("tea kitchen boat", ["en"]), Within(owner=0, collections=(1,))
    wanted, found = alone.words(words, EVERYTHING, 10), index.words(words, inside, 10)
    assert index.ids(found.places).tolist() == alone.ids(wanted.places).tolist()
    assert found.scores == pytest.approx(wanted.scores, rel=1e-5)
    assert index.bm25(words, found.places, inside) == pytest.approx(found.scores, rel=1e-5)
    assert index.ceiling(words, inside) == pytest.approx(alone.ceiling(words))
    assert index.ceiling(words) != pytest.approx(index.ceiling(words, inside))
    alone.close()


def test_what_does_not_match_scores_zero_and_what_was_not_read_nan(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "tea"), entry(2, "coffee", embedded=False)])
    places = index.places(np.array([1, 2]))
    assert index.bm25(asked("tea"), places).astype(bool).tolist() == [True, False]
    assert index.cosines(vector(1), places) == pytest.approx([1.0, np.nan], abs=1e-3, nan_ok=True)


def test_a_passage_has_its_place_for_as_long_as_it_is_there(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "tea"), entry(2, "coffee", document_id=7)])
    places = index.places(np.array([2, 99, 1]))
    assert places[1] == -1
    assert (index.ids(places[::2]).tolist(), index.documents(places[::2]).tolist()) == ([2, 1], [7, 1])
    index.apply(2, [7], [])
    assert index.places(np.array([2, 1])).tolist() == [-1, places[2]]


def test_a_passage_without_a_vector_is_found_by_words_only(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "tea"), entry(2, "tea", embedded=False)])
    assert (sorted(by_words(index, "tea")), by_meaning(index, 2)) == ([1, 2], [1])


def test_an_index_without_a_model_finds_words(tmp_path: Path) -> None:
    index = open_index(tmp_path, dimension=0, fingerprint="")
    put(index, 1, [entry(1, "tea", embedded=False)])
    index.flush()
    index.close()
    again = open_index(tmp_path, dimension=0, fingerprint="")
    assert (by_words(again, "tea"), again.count(), again.checkpoint()) == ([1], 1, 1)
    again.close()


def test_a_phrase_must_stand_side_by_side(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "green tea leaves"), entry(2, "tea that is green"), entry(3, "green and tea")])
    assert by_words(index, '"green tea"') == [1]
    assert index.bm25(asked('"green tea"'), index.places(np.array([1, 2, 3]))).astype(bool).tolist() == [
        True,
        False,
        False,
    ]


def test_a_question_is_asked_in_every_language_of_the_index(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "viele Häuser", language="de"), entry(2, "many houses", language="en")])
    assert set(index.languages()) == {"de", "en"}
    assert by_words(index, "Haus") == [1]
    assert by_words(index, "house") == [2]
    index.apply(2, [1], [])
    assert index.languages() == ("en",)


# -- filters ------------------------------------------------------------------------------------

SHELF = [
    entry(1, "tea", collection_id=1, tags=("a", "b"), doc_type="md", day=10),
    entry(2, "tea", collection_id=1, tags=("a",), doc_type="pdf", day=20),
    entry(3, "tea", collection_id=2, tags=("b",), doc_type="pdf", day=30),
    entry(4, "tea", collection_id=3, owner=7, tags=("a",), day=30),
    entry(5, "tea", collection_id=4, owner=7, day=30),
    entry(6, "tea", collection_id=5, owner=-1, day=30),
]
FILTERS = [
    (Within(owner=0), [1, 2, 3]),
    (Within(owner=7), [4, 5]),
    (Within(owner=-1), [6]),
    (Within(owner=5), []),
    (Within(owner=0, shared_collections=(3,)), [1, 2, 3, 4]),
    (Within(owner=0, collections=(1,)), [1, 2]),
    (Within(owner=0, collections=(1, 2, 3, 4, 5, 6)), [1, 2, 3]),
    (Within(owner=0, tags=("a", "b")), [1]),
    (Within(owner=0, tags=("nowhere",)), []),
    (Within(owner=0, doc_types=("pdf", "unknown")), [2, 3]),
    (Within(owner=0, documents=(1, 3, 4)), [1, 3]),
    (Within(owner=0, day_from=20), [2, 3]),
    (Within(owner=0, day_to=20), [1, 2]),
    (Within(owner=0, day_from=15, day_to=25), [2]),
    (Within(owner=0, shared_collections=(3,), tags=("a",), day_from=20), [2, 4]),
]


@pytest.mark.parametrize(("within", "expected"), FILTERS)
def test_both_searches_stay_inside_the_filter(index: EmbeddedIndex, within: Within, expected: list[int]) -> None:
    put(index, 1, SHELF)
    assert sorted(by_words(index, "tea", within)) == expected
    assert sorted(by_meaning(index, 1, within)) == expected


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.97])
def test_a_filter_never_costs_a_hit_in_a_long_index(index: EmbeddedIndex, kept: float) -> None:
    """Whatever road is taken inside: as many as were asked for, the best of those that pass."""
    total = 6000
    passing = {number for number in range(total) if (number * 7919) % total < kept * total}
    put(index, 1, [entry(n, f"tea leaf{n % 50}", collection_id=1 if n in passing else 2) for n in range(total)])
    within = Within(owner=0, collections=(1,))
    ranked = sorted(passing, key=lambda n: -float(vector(n) @ vector(3)))[:100]
    found = by_meaning(index, 3, within)
    assert len(found) == 100
    assert len(set(found) & set(ranked)) >= 97
    words = by_words(index, "tea", within)
    assert len(words) == 100
    assert set(words) <= passing


def test_a_filter_that_is_asked_again_sees_what_has_come_and_gone_since(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(number, collection_id=number % 10) for number in range(vectors.FIRST_TAIL)])
    within = Within(owner=0, collections=(3,))
    nearest = by_meaning(index, 3, within)
    assert by_meaning(index, 3, within) == nearest
    put(index, 2, [entry(100_003, collection_id=3)])
    index.apply(3, nearest[:2], [])
    assert by_meaning(index, 100_003, within)[0] == 100_003
    assert not set(nearest[:2]) & set(by_meaning(index, 3, within))


def test_removed_passages_never_crowd_out_the_others(index: EmbeddedIndex) -> None:
    total = vectors.FIRST_TAIL + 100
    put(index, 1, [entry(number) for number in range(total)])
    nearest = by_meaning(index, 5, limit=1000)
    index.apply(2, nearest, [])
    assert len(nearest) == 1000
    after = by_meaning(index, 5)
    assert len(after) == 100
    assert not set(after) & set(nearest)


def test_the_nearest_are_found_in_a_long_index(index: EmbeddedIndex) -> None:
    total = vectors.FIRST_TAIL + vectors.TAIL + 500
    for first in range(0, total, 1000):
        put(index, first, [entry(number) for number in range(first, min(first + 1000, total))])
        assert by_meaning(index, first)[0] == first  # searched while it grows
    everything = np.stack([vector(number) for number in range(total)])
    hits = 0
    for seed in range(100_000, 100_020):
        exact = set(np.argsort(-(everything @ vector(seed)))[:10].tolist())
        hits += len(exact & set(by_meaning(index, seed)[:10]))
    assert hits >= 0.97 * 200


# -- many at once -------------------------------------------------------------------------------


def test_searches_go_on_beside_a_writer_and_see_whole_documents(index: EmbeddedIndex) -> None:
    """A document always has three passages of one colour; nobody ever sees another number or two colours."""

    def colour(number: int) -> list[int]:
        return [10 * number + place for place in range(3)]

    put(index, 0, [entry(chunk, "tea", document_id=1) for chunk in colour(0)])
    stop, wrong = threading.Event(), list[list[int]]()

    def read() -> None:
        while not stop.is_set():
            seen = (by_words(index, "tea"), by_meaning(index, 1))
            wrong.extend(found for found in seen if len(found) != 3 or len({chunk // 10 for chunk in found}) != 1)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(1, 12):
        index.apply(number, [1], [entry(chunk, "tea", document_id=1) for chunk in colour(number)])
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_a_change_that_fails_leaves_what_was_there(index: EmbeddedIndex) -> None:
    put(index, 1, [entry(1, "tea", tags=("a",)), entry(2, "coffee")])

    def entries() -> Iterator[object]:
        yield from (entry(number, "milk", document_id=1, tags=("a",)) for number in range(10, 700))
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        index.apply(2, [1], entries())  # type: ignore[arg-type]
    assert (by_words(index, "tea"), by_words(index, "milk"), index.count()) == ([1], [], 2)
    index.apply(2, [1], [entry(11, "milk", document_id=1, tags=("b",))])
    assert (by_words(index, "milk"), by_words(index, "tea"), by_meaning(index, 11)[0]) == ([11], [], 11)
    assert by_meaning(index, 1, Within(owner=0, tags=("a",))) == []


@pytest.mark.parametrize("before", [0, 3, 700])
def test_a_long_change_that_fails_leaves_what_was_there(
    index: EmbeddedIndex, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "FIRST_TAIL", 600)
    monkeypatch.setattr(vectors, "TAIL", 100)
    put(index, 1, [entry(number) for number in range(before)])

    def entries() -> Iterator[Entry]:
        yield from (entry(number) for number in range(before, before + 2000))
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        index.apply(2, [], entries())
    assert (index.count(), by_meaning(index, 1)[:1]) == (before, [1] if before else [])
    put(index, 2, [entry(number) for number in range(before, before + 900)])
    assert [by_meaning(index, number)[0] for number in range(0, before + 900, 100)] == [*range(0, before + 900, 100)]
    index.flush()
