"""Searching and changing the embedded index."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from knowledge.index import bm25, vectors
from knowledge.index.api import Candidates, IndexEntry, IndexFilter, QueryTerms
from knowledge.index.embedded import EmbeddedIndex
from knowledge.text import analyzer
from tests.support.small_index import (
    EVERYTHING,
    apply_entries,
    make_entry,
    make_vector,
    open_index,
    parse_question,
    search_vectors,
    search_words,
)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = open_index(tmp_path / "index")
    yield index
    index.close()


def found_by_words(index: EmbeddedIndex, text: str) -> Candidates:
    return index.snapshot.find_candidates(parse_question(text), None, EVERYTHING, 10)


def bm25_of(index: EmbeddedIndex, words: QueryTerms, ids: list[int], within: IndexFilter = EVERYTHING) -> list[float]:
    """Return the BM25 of chosen chunks from their packed terms."""
    snapshot = index.snapshot
    slots = snapshot.slots.find_slots(np.array(ids, np.int64))
    return [
        float(score)
        for score in bm25.score_slots(snapshot.slots, snapshot.statistics(within).get_weighted_query(words), slots)
    ]


def test_a_new_index_is_empty_and_asks_for_a_rebuild(index: EmbeddedIndex) -> None:
    assert (index.checkpoint(), index.count(), index.count_document_chunks()) == (-1, 0, {})
    assert search_words(index, "tea") == search_vectors(index, 1) == []


def test_a_passage_is_found_by_its_words_and_by_its_meaning(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, [make_entry(1, "green tea"), make_entry(2, "black coffee"), make_entry(3, "tea for two")])
    assert search_words(index, "green tea") == [1, 3]
    assert search_vectors(index, 2)[0] == 2
    nearest = index.snapshot.find_candidates(QueryTerms(()), make_vector(2), EVERYTHING, 1, by_words=False)
    assert nearest.cosine[0] == pytest.approx(1.0, abs=1e-3)


def test_a_document_is_replaced_as_a_whole(index: EmbeddedIndex) -> None:
    apply_entries(
        index,
        1,
        [make_entry(1, "old tea", document_id=7), make_entry(2, "older tea", document_id=7), make_entry(9, "tea")],
    )
    index.apply(2, [7], [make_entry(3, "new coffee", document_id=7)])
    assert search_words(index, "tea") == [9]
    assert search_words(index, "coffee") == [3]
    assert set(search_vectors(index, 1)) == {3, 9}
    assert index.count_document_chunks() == {7: 1, 9: 1}


def test_a_document_without_entries_is_gone(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, [make_entry(1, "tea"), make_entry(2, "tea")])
    index.apply(2, [1], [])
    assert (search_words(index, "tea"), search_vectors(index, 1), index.count()) == ([2], [2], 1)


def test_applying_a_change_twice_changes_nothing(index: EmbeddedIndex) -> None:
    for _ in range(2):
        apply_entries(index, 1, [make_entry(1, "tea", document_id=5), make_entry(2, "tea pot", document_id=5)])
    assert (sorted(search_words(index, "tea")), index.count(), index.count_document_chunks()) == ([1, 2], 2, {5: 2})


def test_a_term_that_is_asked_for_twice_counts_twice(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, [make_entry(1, "tea leaf"), make_entry(2, "coffee leaf"), make_entry(3, "milk")])
    once, twice = (found_by_words(index, text) for text in ("tea coffee", "tea coffee coffee"))
    assert once.bm25[0] == pytest.approx(once.bm25[1])
    assert twice.ids.tolist() == [2, 1]
    assert twice.bm25[0] == pytest.approx(2 * twice.bm25[1], rel=1e-5)


def test_bm25_of_chosen_chunks_equals_that_of_tantivy(index: EmbeddedIndex) -> None:
    texts = ["tea " * (number % 5 + 1) + "pot " * (number % 3) + "filler " * number for number in range(60)]
    apply_entries(index, 1, [make_entry(number, text) for number, text in enumerate(texts)])
    words = parse_question("tea tea pot unknown")
    found = index.snapshot.find_candidates(words, None, EVERYTHING, 100)
    assert len(found.ids) == 60
    np.testing.assert_allclose(bm25_of(index, words, found.ids.tolist()), found.bm25, rtol=1e-4)
    assert index.snapshot.compute_ceiling(words) == found.ceiling > found.bm25.max()


def test_a_collection_is_weighed_as_if_it_were_alone(index: EmbeddedIndex, tmp_path: Path) -> None:
    texts = ["tea in the kitchen", "tea and more tea, in a long sentence about the house", "a boat", "the kitchen"]
    mine = [make_entry(number, text, collection_id=1) for number, text in enumerate(texts, 1)]
    others = [make_entry(number, f"boat and kitchen {number}", collection_id=2) for number in range(10, 60)]
    apply_entries(index, 1, [*mine, *others])
    alone = open_index(tmp_path / "alone")
    apply_entries(alone, 1, mine)
    words, inside = analyzer.analyse_question("tea kitchen boat", ["en"]), IndexFilter(owner=0, collections=(1,))
    wanted = alone.snapshot.find_candidates(words, None, EVERYTHING, 10)
    found = index.snapshot.find_candidates(words, None, inside, 10)
    assert found.ids.tolist() == wanted.ids.tolist()
    assert found.bm25 == pytest.approx(wanted.bm25, rel=1e-5)
    assert bm25_of(index, words, found.ids.tolist(), inside) == pytest.approx(found.bm25, rel=1e-5)
    assert index.snapshot.compute_ceiling(words, inside) == pytest.approx(alone.snapshot.compute_ceiling(words))
    assert index.snapshot.compute_ceiling(words) != pytest.approx(index.snapshot.compute_ceiling(words, inside))
    alone.close()


def test_bm25_is_zero_without_a_match_and_cosine_is_nan_without_a_vector(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, [make_entry(1, "tea"), make_entry(2, "coffee", embedded=False)])
    assert [score > 0 for score in bm25_of(index, parse_question("tea"), [1, 2])] == [True, False]
    found = index.snapshot.find_candidates(parse_question("tea coffee"), make_vector(1), EVERYTHING, 10)
    by_id = dict(zip(found.ids.tolist(), found.cosine.tolist(), strict=True))
    assert [by_id[1], by_id[2]] == pytest.approx([1.0, np.nan], abs=1e-3, nan_ok=True)
    cosines = index.snapshot.compute_cosines(make_vector(1), np.array([1, 2, 99]))
    assert cosines == pytest.approx([1.0, np.nan, np.nan], abs=1e-3, nan_ok=True)


def test_a_passage_has_its_place_for_as_long_as_it_is_there(index: EmbeddedIndex) -> None:
    apply_entries(
        index, 1, [make_entry(1, "tea"), make_entry(2, "coffee", document_id=7), make_entry(3, "coffee", document_id=7)]
    )
    before = index.snapshot
    found = before.find_candidates(parse_question("tea coffee"), None, EVERYTHING, 10)
    rows = {int(found.ids[row]): (int(found.documents[row]), int(found.places[row])) for row in range(3)}
    assert [rows[number][0] for number in (1, 2, 3)] == [1, 7, 7]
    assert rows[3][1] == rows[2][1] + 1, "the next passage of a document has the next place"
    index.apply(2, [7], [])
    left = index.snapshot.find_candidates(parse_question("tea coffee"), None, EVERYTHING, 10)
    assert (left.ids.tolist(), left.places.tolist()) == ([1], [rows[1][1]])
    assert np.isnan(index.snapshot.compute_cosines(make_vector(2), np.array([2]))).all()
    assert before.compute_cosines(make_vector(2), np.array([2])) == pytest.approx([1.0], abs=1e-3), (
        "a snapshot does not change"
    )


def test_passages_out_of_reading_order_are_refused_and_leave_what_was_there(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, [make_entry(1, "tea", document_id=7)])
    with pytest.raises(ValueError, match="Chunk 0 of document 7 follows chunk 1"):
        index.apply(2, [7], [make_entry(2, document_id=7, position=1), make_entry(3, document_id=7, position=0)])
    assert (search_words(index, "tea"), index.count()) == ([1], 1)


def test_candidates_of_both_sides_come_with_both_scores(index: EmbeddedIndex) -> None:
    apply_entries(
        index,
        1,
        [
            make_entry(1, "green tea"),
            make_entry(2, "black coffee"),
            make_entry(3, "tea", embedded=False),
            make_entry(4, "milk"),
        ],
    )
    found = index.snapshot.find_candidates(parse_question("green tea"), make_vector(2), EVERYTHING, 2)
    assert found.ids[:2].tolist() == [1, 3] and found.words_rank[:2].tolist() == [0, 1], "first what the words found"
    rows = {number: row for row, number in enumerate(found.ids.tolist())}
    assert (found.meaning_rank[rows[2]], found.words_rank[rows[2]], found.bm25[rows[2]]) == (0, -1, 0.0)
    assert found.cosine[rows[1]] == pytest.approx(make_vector(1) @ make_vector(2), abs=1e-3)
    assert found.cosine[rows[2]] == pytest.approx(1.0, abs=1e-3) and np.isnan(found.cosine[rows[3]])
    assert found.ceiling == index.snapshot.compute_ceiling(parse_question("green tea"), EVERYTHING)


def test_a_passage_without_a_vector_is_found_by_words_only(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, [make_entry(1, "tea"), make_entry(2, "tea", embedded=False)])
    assert (sorted(search_words(index, "tea")), search_vectors(index, 2)) == ([1, 2], [1])


def test_an_index_without_a_model_finds_words(tmp_path: Path) -> None:
    index = open_index(tmp_path, dimension=0, fingerprint="")
    apply_entries(index, 1, [make_entry(1, "tea", embedded=False)])
    index.flush()
    index.close()
    again = open_index(tmp_path, dimension=0, fingerprint="")
    assert (search_words(again, "tea"), again.count(), again.checkpoint()) == ([1], 1, 1)
    again.close()


def test_a_phrase_must_stand_side_by_side(index: EmbeddedIndex) -> None:
    apply_entries(
        index,
        1,
        [make_entry(1, "green tea leaves"), make_entry(2, "tea that is green"), make_entry(3, "green and tea")],
    )
    assert search_words(index, '"green tea"') == [1]
    exact = index.snapshot.find_candidates(parse_question('"green tea"'), make_vector(2), EVERYTHING, 10)
    assert exact.ids.tolist() == [1], "what the vector alone found is judged by the phrase too"
    mixed = index.snapshot.find_candidates(parse_question('"green tea" leaves'), make_vector(2), EVERYTHING, 10)
    assert mixed.quoted is not None and dict(zip(mixed.ids.tolist(), mixed.quoted.tolist(), strict=True)) == {
        1: True, 2: False, 3: False,
    }  # fmt: skip


def test_a_question_is_asked_in_every_language_of_the_index(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, [make_entry(1, "viele Häuser", language="de"), make_entry(2, "many houses", language="en")])
    assert set(index.snapshot.languages()) == {"de", "en"}
    assert search_words(index, "Haus") == [1]
    assert search_words(index, "house") == [2]
    index.apply(2, [1], [])
    assert index.snapshot.languages() == ("en",)


# -- filters ------------------------------------------------------------------------------------

SHELF = [
    make_entry(1, "tea", collection_id=1, tags=("a", "b"), doc_type="md", day=10),
    make_entry(2, "tea", collection_id=1, tags=("a",), doc_type="pdf", day=20),
    make_entry(3, "tea", collection_id=2, tags=("b",), doc_type="pdf", day=30),
    make_entry(4, "tea", collection_id=3, owner=7, tags=("a",), day=30),
    make_entry(5, "tea", collection_id=4, owner=7, day=30),
    make_entry(6, "tea", collection_id=5, owner=-1, day=30),
]
FILTERS = [
    (IndexFilter(owner=0), [1, 2, 3]),
    (IndexFilter(owner=7), [4, 5]),
    (IndexFilter(owner=-1), [6]),
    (IndexFilter(owner=5), []),
    (IndexFilter(owner=0, shared_collections=(3,)), [1, 2, 3, 4]),
    (IndexFilter(owner=0, collections=(1,)), [1, 2]),
    (IndexFilter(owner=0, collections=(1, 2, 3, 4, 5, 6)), [1, 2, 3]),
    (IndexFilter(owner=0, tags=("a", "b")), [1]),
    (IndexFilter(owner=0, tags=("nowhere",)), []),
    (IndexFilter(owner=0, doc_types=("pdf", "unknown")), [2, 3]),
    (IndexFilter(owner=0, documents=(1, 3, 4)), [1, 3]),
    (IndexFilter(owner=0, day_from=20), [2, 3]),
    (IndexFilter(owner=0, day_to=20), [1, 2]),
    (IndexFilter(owner=0, day_from=15, day_to=25), [2]),
    (IndexFilter(owner=0, shared_collections=(3,), tags=("a",), day_from=20), [2, 4]),
]


@pytest.mark.parametrize(("within", "expected"), FILTERS)
def test_both_searches_stay_inside_the_filter(index: EmbeddedIndex, within: IndexFilter, expected: list[int]) -> None:
    apply_entries(index, 1, SHELF)
    assert sorted(search_words(index, "tea", within)) == expected
    assert sorted(search_vectors(index, 1, within)) == expected


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.97])
def test_a_filter_never_costs_a_hit_in_a_long_index(index: EmbeddedIndex, kept: float) -> None:
    """All ways to apply a filter return the best `limit` of the matching chunks."""
    total = 6000
    passing = {number for number in range(total) if (number * 7919) % total < kept * total}
    apply_entries(
        index, 1, [make_entry(n, f"tea leaf{n % 50}", collection_id=1 if n in passing else 2) for n in range(total)]
    )
    within = IndexFilter(owner=0, collections=(1,))
    ranked = sorted(passing, key=lambda n: -float(make_vector(n) @ make_vector(3)))[:100]
    found = search_vectors(index, 3, within)
    assert len(found) == 100
    assert len(set(found) & set(ranked)) >= 97
    words = search_words(index, "tea", within)
    assert len(words) == 100
    assert set(words) <= passing


def test_a_repeated_filter_sees_later_changes(index: EmbeddedIndex) -> None:
    apply_entries(
        index, 1, [make_entry(number, collection_id=number % 10) for number in range(vectors.FIRST_TAIL_CHUNKS)]
    )
    within = IndexFilter(owner=0, collections=(3,))
    nearest = search_vectors(index, 3, within)
    assert search_vectors(index, 3, within) == nearest
    apply_entries(index, 2, [make_entry(100_003, collection_id=3)])
    index.apply(3, nearest[:2], [])
    assert search_vectors(index, 100_003, within)[0] == 100_003
    assert not set(nearest[:2]) & set(search_vectors(index, 3, within))


def test_deleted_chunks_do_not_displace_others(index: EmbeddedIndex) -> None:
    total = vectors.FIRST_TAIL_CHUNKS + 100
    apply_entries(index, 1, [make_entry(number) for number in range(total)])
    nearest = search_vectors(index, 5, limit=1000)
    index.apply(2, nearest, [])
    assert len(nearest) == 1000
    after = search_vectors(index, 5)
    assert len(after) == 100
    assert not set(after) & set(nearest)


def test_the_nearest_are_found_in_a_long_index(index: EmbeddedIndex) -> None:
    total = vectors.FIRST_TAIL_CHUNKS + vectors.TAIL_CHUNKS + 500
    for first in range(0, total, 1000):
        apply_entries(index, first, [make_entry(number) for number in range(first, min(first + 1000, total))])
        assert search_vectors(index, first)[0] == first  # searched while it grows
    everything = np.stack([make_vector(number) for number in range(total)])
    hits = 0
    for seed in range(100_000, 100_020):
        exact = set(np.argsort(-(everything @ make_vector(seed)))[:10].tolist())
        hits += len(exact & set(search_vectors(index, seed)[:10]))
    assert hits >= 0.97 * 200


# -- concurrency and failures -------------------------------------------------------------------


def test_searches_go_on_beside_a_writer_and_see_whole_documents(index: EmbeddedIndex) -> None:
    """Each version of a document has three chunks of one colour; no search sees a mixture."""

    def colour(number: int) -> list[int]:
        return [10 * number + place for place in range(3)]

    apply_entries(index, 0, [make_entry(chunk, "tea", document_id=1) for chunk in colour(0)])
    stop, wrong = threading.Event(), list[list[int]]()

    def read() -> None:
        while not stop.is_set():
            seen = (search_words(index, "tea"), search_vectors(index, 1))
            wrong.extend(found for found in seen if len(found) != 3 or len({chunk // 10 for chunk in found}) != 1)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(1, 12):
        index.apply(number, [1], [make_entry(chunk, "tea", document_id=1) for chunk in colour(number)])
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_a_change_that_fails_leaves_what_was_there(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, [make_entry(1, "tea", tags=("a",)), make_entry(2, "coffee")])

    def entries() -> Iterator[object]:
        yield from (make_entry(number, "milk", document_id=1, tags=("a",)) for number in range(10, 700))
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        index.apply(2, [1], entries())  # type: ignore[arg-type]
    assert (search_words(index, "tea"), search_words(index, "milk"), index.count()) == ([1], [], 2)
    index.apply(2, [1], [make_entry(11, "milk", document_id=1, tags=("b",))])
    assert (search_words(index, "milk"), search_words(index, "tea"), search_vectors(index, 11)[0]) == ([11], [], 11)
    assert search_vectors(index, 1, IndexFilter(owner=0, tags=("a",))) == []


@pytest.mark.parametrize("before", [0, 3, 700])
def test_a_long_change_that_fails_leaves_what_was_there(
    index: EmbeddedIndex, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "FIRST_TAIL_CHUNKS", 600)
    monkeypatch.setattr(vectors, "TAIL_CHUNKS", 100)
    apply_entries(index, 1, [make_entry(number) for number in range(before)])

    def entries() -> Iterator[IndexEntry]:
        yield from (make_entry(number) for number in range(before, before + 2000))
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        index.apply(2, [], entries())
    assert (index.count(), search_vectors(index, 1)[:1]) == (before, [1] if before else [])
    apply_entries(index, 2, [make_entry(number) for number in range(before, before + 900)])
    assert [search_vectors(index, number)[0] for number in range(0, before + 900, 100)] == [
        *range(0, before + 900, 100)
    ]
    index.flush()
