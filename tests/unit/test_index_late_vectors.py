"""Vectors that reach the index after the words of their chunks, and statistics without deleted chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from knowledge.index import vectors
from knowledge.index.api import Candidates, ChunkVector, IndexEntry, IndexFilter
from knowledge.index.embedded import EmbeddedIndex
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

QUESTIONS = ("tea", "tea kitchen", "zqfx tea", "zqkx zqcx garden")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = open_index(tmp_path / "index")
    yield index
    index.close()


def make_entries(numbers: Iterable[int], *, embedded: bool) -> list[IndexEntry]:
    return [make_entry(number, make_text(number), tags=(f"t{number % 3}",), embedded=embedded) for number in numbers]


def make_text(number: int) -> str:
    words = ("tea", "kitchen", "garden", "boat", make_word(number % 5))
    return f"{make_word(number)} " + " ".join(
        word for at, word in enumerate(words) for _ in range(number * (at + 1) % 4)
    )


def make_word(number: int) -> str:
    """Return a word of letters, since a word with digits is split."""
    return "zq" + "".join("bcdfghjklm"[int(digit)] for digit in str(number)) + "x"


def make_vectors(numbers: Iterable[int], seed: int = 0) -> list[ChunkVector]:
    return [ChunkVector(number, make_vector(number + seed).astype(np.float16)) for number in numbers]


def search_all(index: EmbeddedIndex) -> list[Candidates]:
    snapshot = index.snapshot
    return [
        snapshot.find_candidates(parse_question(text, "en"), make_vector(at), EVERYTHING, 100)
        for at, text in enumerate(QUESTIONS)
    ]


def require_same_answers(one: EmbeddedIndex, other: EmbeddedIndex) -> None:
    """Assert that both indexes give each chunk the same scores."""
    for found, expected in zip(search_all(one), search_all(other), strict=True):
        assert found.ceiling == pytest.approx(expected.ceiling, rel=1e-6)
        mine, theirs = (sort_rows(candidates) for candidates in (found, expected))
        assert [row[0] for row in mine] == [row[0] for row in theirs]
        np.testing.assert_allclose([row[1:] for row in mine], [row[1:] for row in theirs], rtol=1e-5, atol=1e-6)


def sort_rows(found: Candidates) -> list[tuple[int, float, float]]:
    rows = zip(found.ids.tolist(), found.bm25.tolist(), found.cosine.tolist(), strict=True)
    return sorted(rows, key=lambda row: (round(-row[1], 4), row[0]))


# -- vectors alone --------------------------------------------------------------------------------


def test_a_chunk_is_found_by_meaning_when_its_vector_arrives(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, make_entries(range(1, 9), embedded=False))
    assert search_words(index, make_word(3)) == [3] and search_vectors(index, 3) == []
    index.apply(2, (), (), make_vectors([5, 3]))
    assert search_vectors(index, 3) == [3, 5] and search_words(index, make_word(3)) == [3]
    assert search_vectors(index, 3, IndexFilter(owner=0, tags=("t2",))) == [5]
    assert index.count() == 8


def test_the_words_of_a_chunk_are_not_written_again_for_its_vector(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, make_entries(range(1, 9), embedded=False))
    before = index.snapshot.fulltext
    index.apply(2, (), (), make_vectors(range(1, 9)))
    assert index.snapshot.fulltext is before and index.count_unpurged() == 0


def test_late_vectors_give_the_same_answers_as_vectors_from_the_start(index: EmbeddedIndex, tmp_path: Path) -> None:
    apply_entries(index, 1, make_entries(range(40), embedded=False))
    for seq, numbers in enumerate((range(20, 40), range(0, 20, 2), range(1, 20, 2)), 2):
        index.apply(seq, (), (), make_vectors(numbers))
    fresh = open_index(tmp_path / "fresh")
    apply_entries(fresh, 1, make_entries(range(40), embedded=True))
    require_same_answers(index, fresh)
    fresh.close()


def test_setting_the_same_vectors_again_stores_nothing(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, make_entries(range(4), embedded=False))
    for seq in (2, 3):
        index.apply(seq, (), (), make_vectors(range(4)))
    assert len(index.snapshot.vectors.vectors) == 4 and sorted(search_vectors(index, 1)) == [0, 1, 2, 3]


def test_a_new_vector_replaces_the_old_one(index: EmbeddedIndex, tmp_path: Path) -> None:
    apply_entries(index, 1, make_entries(range(4), embedded=True))
    index.apply(2, (), (), make_vectors([2], seed=100))
    assert search_vectors(index, 102)[0] == 2
    assert sorted(search_vectors(index, 2)) == [0, 1, 2, 3], "a chunk is found once"
    index.flush()
    index.close()
    again = open_index(tmp_path / "index")
    assert search_vectors(again, 102)[0] == 2 and sorted(search_vectors(again, 2)) == [0, 1, 2, 3]
    again.close()


def test_vectors_of_unknown_and_removed_chunks_are_ignored(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, make_entries((1, 2), embedded=False))
    index.apply(2, [1], ())
    index.apply(3, (), (), make_vectors((1, 2, 77)))
    assert search_vectors(index, 1) == [2] and index.count() == 1


def test_a_document_and_the_vectors_of_another_change_together(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, make_entries((1, 2), embedded=False))
    index.apply(2, [3], make_entries([3], embedded=True), make_vectors([1]))
    assert sorted(search_vectors(index, 1)) == [1, 3] and sorted(
        search_words(index, f"{make_word(1)} {make_word(3)}")
    ) == [1, 3]


def test_late_vectors_are_kept_when_the_index_is_opened_again(index: EmbeddedIndex, tmp_path: Path) -> None:
    apply_entries(index, 1, make_entries(range(10), embedded=False))
    index.flush()
    index.apply(2, (), (), make_vectors((7, 3)))
    index.flush()
    index.close()
    again = open_index(tmp_path / "index")
    assert (again.checkpoint(), search_vectors(again, 3)) == (2, [3, 7])
    again.close()


def test_vectors_that_a_crash_lost_are_set_by_the_replay(index: EmbeddedIndex, tmp_path: Path) -> None:
    apply_entries(index, 1, make_entries(range(10), embedded=False))
    index.flush()
    index.apply(2, (), (), make_vectors((7, 3)))
    index.close()  # without a flush, as in a crash
    again = open_index(tmp_path / "index")
    assert (again.checkpoint(), search_vectors(again, 3)) == (1, [])
    again.apply(2, (), (), make_vectors((7, 3)))
    assert search_vectors(again, 3) == [3, 7]
    again.close()


def test_a_failed_change_of_vectors_leaves_the_index_as_it_was(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, make_entries(range(10), embedded=False))
    index.apply(2, (), (), make_vectors([3]))

    def fail() -> Iterator[ChunkVector]:
        yield from make_vectors([4])
        raise OSError("the store went away")

    with pytest.raises(OSError, match="went away"):
        index.apply(3, (), (), fail())
    assert search_vectors(index, 3) == [3] and index.count() == 10
    index.apply(3, (), (), make_vectors([4]))
    assert sorted(search_vectors(index, 3)) == [3, 4]


def test_late_vectors_are_kept_by_a_purge(index: EmbeddedIndex, tmp_path: Path) -> None:
    entries = {entry.chunk_id: entry for entry in make_entries(range(10), embedded=False)}
    apply_entries(index, 1, entries.values())
    index.apply(2, (), (), make_vectors((7, 3, 5)))
    index.apply(3, [5, 6], ())
    while not index.purge(lambda ids: [entries[number] for number in ids]):
        pass
    assert index.count_unpurged() == 0 and search_vectors(index, 3) == [3, 7]
    index.apply(4, (), (), make_vectors([0]))
    assert sorted(search_vectors(index, 3)) == [0, 3, 7]
    index.flush()
    index.close()
    again = open_index(tmp_path / "index")
    assert sorted(search_vectors(again, 3)) == [0, 3, 7]
    again.close()


def test_quantized_vectors_in_any_order_belong_to_their_chunks(
    index: EmbeddedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "FIRST_TAIL_CHUNKS", 1500)
    monkeypatch.setattr(vectors, "TAIL_CHUNKS", 200)
    numbers = np.random.default_rng(3).permutation(3000)
    apply_entries(index, 1, make_entries(range(3000), embedded=False))
    assert index.snapshot.vectors.coded is None and not len(index.snapshot.vectors.tail)
    for seq, part in enumerate(np.array_split(numbers[:2500], 10), 2):
        index.apply(seq, (), (), make_vectors(part.tolist()))
    assert index.snapshot.vectors.coded is not None
    for number in numbers[:2500:250].tolist():
        assert search_vectors(index, number, limit=1) == [number]
        assert search_vectors(index, number, IndexFilter(owner=0, tags=(f"t{number % 3}",)), 1) == [number]
    assert int(numbers[2600]) not in search_vectors(index, int(numbers[2600]))


def test_a_running_search_still_finds_chunks_that_are_entered_again(index: EmbeddedIndex) -> None:
    apply_entries(index, 1, make_entries(range(5), embedded=True))
    snapshot = index.snapshot
    apply_entries(index, 2, make_entries(range(5), embedded=True))
    found = snapshot.find_candidates(parse_question(make_word(3), "en"), None, EVERYTHING, 10)
    assert found.ids.tolist() == [3]


# -- statistics -----------------------------------------------------------------------------------


def test_deleted_and_replaced_chunks_do_not_count_in_the_scores(index: EmbeddedIndex, tmp_path: Path) -> None:
    apply_entries(index, 1, make_entries(range(60), embedded=True))
    index.apply(2, list(range(40, 60)), ())
    apply_entries(index, 3, make_entries(range(10), embedded=True))
    assert index.count_unpurged() > 0
    fresh = open_index(tmp_path / "fresh")
    apply_entries(fresh, 1, make_entries(range(40), embedded=True))
    require_same_answers(index, fresh)
    words = parse_question("tea zqfx", "en")
    for form in ("tea", "zqfx", make_word(55)):
        assert index.snapshot.count_chunks_by_term([form], EVERYTHING) == fresh.snapshot.count_chunks_by_term(
            [form], EVERYTHING
        )
    assert index.snapshot.compute_ceiling(words) == fresh.snapshot.compute_ceiling(words)
    fresh.close()
