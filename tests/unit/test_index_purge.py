"""Purge: afterwards the files contain no deleted chunks and searches return the same results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from knowledge.index import manifest
from knowledge.index.api import IndexEntry
from knowledge.index.embedded import EmbeddedIndex
from knowledge.index.tantivy_files import read_segments
from tests.support.small_index import DIMENSION, apply_entries, make_entry, open_index, search_vectors, search_words

COUNT = 5000
# More than the tail holds, so that some vectors are quantized.


def word(number: int) -> str:
    """Return a word of letters for each number, because the analyzer separates letters from digits."""
    return "quag" + "".join("bcdfghjklm"[int(digit)] for digit in str(number))


class Passages:
    """The chunks of the store."""

    def __init__(self) -> None:
        self.entries = {
            number: make_entry(number, f"kettle {word(number)}", tags=("all", f"tag{number}"))
            for number in range(COUNT)
        }
        self.read_again = 0

    def read(self, ids: Sequence[int]) -> list[IndexEntry]:
        self.read_again += len(ids)
        return [self.entries[number] for number in ids if number in self.entries]


def purge(index: EmbeddedIndex, passages: Passages) -> None:
    """Purge until nothing is left to do."""
    for _ in range(500):
        if index.purge(passages.read) and not index.count_unpurged():
            return
    raise AssertionError("a purge does not end")


def without(index: EmbeddedIndex, passages: Passages, seq: int, *numbers: int) -> None:
    for number in numbers:
        del passages.entries[number]
    index.apply(seq, numbers, ())
    index.flush()


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[tuple[EmbeddedIndex, Passages]]:
    passages, index = Passages(), open_index(tmp_path / "index")
    apply_entries(index, 1, passages.entries.values())
    index.flush()
    yield index, passages
    index.close()


def test_a_purge_leaves_nothing_of_deleted_passages(filled: tuple[EmbeddedIndex, Passages], tmp_path: Path) -> None:
    index, passages = filled
    assert index.count_unpurged() == 0
    without(index, passages, 2, 7, 4990)
    assert index.count_unpurged() > COUNT / 2, "tantivy keeps deleted passages with the others of their segment"
    purge(index, passages)
    assert index.count_unpurged() == 0 and not any(
        each.deleted_count for each in read_segments(tmp_path / "index" / "words")
    )
    assert sum(each.chunk_count for each in read_segments(tmp_path / "index" / "words")) == COUNT - 2
    kept = manifest.read_manifest(tmp_path / "index", DIMENSION, "test/1")
    assert (kept.slots, kept.live) == (COUNT - 2, COUNT - 2)
    assert not {"tag7", "tag4990"} & set(kept.tags) and len(kept.tags) == COUNT - 1


def test_a_purge_changes_no_answer(filled: tuple[EmbeddedIndex, Passages], tmp_path: Path) -> None:
    index, passages = filled
    without(index, passages, 2, *range(0, COUNT, 50))
    asked = [1, 49, 51, 2500 + 1, COUNT - 1]
    before = [(search_words(index, word(number)), search_vectors(index, number, limit=10)) for number in asked]
    purge(index, passages)
    assert [(search_words(index, word(number)), search_vectors(index, number, limit=10)) for number in asked] == before
    assert search_words(index, word(50)) == [] and index.find_damaged_files() == []
    index.close()
    opened = open_index(tmp_path / "index")
    assert opened.checkpoint() == 2 and opened.count_unpurged() == 0
    assert [
        (search_words(opened, word(number)), search_vectors(opened, number, limit=10)) for number in asked
    ] == before
    opened.close()


def test_an_interrupted_purge_continues_after_the_next_open(
    filled: tuple[EmbeddedIndex, Passages], tmp_path: Path
) -> None:
    index, passages = filled
    without(index, passages, 2, 7)
    index.purge(passages.read)  # one step that is not flushed
    index.close()
    opened = open_index(tmp_path / "index")
    assert opened.checkpoint() == 2 and opened.count_unpurged() > 0 and search_words(opened, word(8)) == [8]
    purge(opened, passages)
    assert opened.count_unpurged() == 0 and len(search_words(opened, "kettle", limit=COUNT)) == COUNT - 1
    opened.close()


def test_changes_between_two_steps_of_a_purge_are_kept(filled: tuple[EmbeddedIndex, Passages]) -> None:
    index, passages = filled
    without(index, passages, 2, 7)
    index.purge(passages.read)
    passages.entries[8] = make_entry(8, "teapot instead")
    apply_entries(index, 3, [passages.entries[8], make_entry(COUNT, "brand new")])
    passages.entries[COUNT] = make_entry(COUNT, "brand new")
    purge(index, passages)
    assert (
        search_words(index, "teapot") == [8]
        and search_words(index, "brand") == [COUNT]
        and search_words(index, word(8)) == []
    )
    assert len(search_words(index, "kettle", limit=COUNT)) == COUNT - 2 and index.count_unpurged() == 0
