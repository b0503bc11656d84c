"""Durability of the embedded index: restart, crash, damaged files, full disk."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knowledge.errors import StorageFailed
from knowledge.index import embedded, vectors
from knowledge.index.api import IndexFilter
from tests.support.small_index import apply_entries, make_entry, open_index, search_vectors, search_words


def crashed(folder: Path) -> Path:
    """Copy the folder of an open index, as a power failure would leave it."""
    copy = folder.with_name("crashed")
    shutil.copytree(folder, copy)
    return copy


def test_a_flushed_index_comes_back_as_it_was(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    apply_entries(
        index, 4, [make_entry(1, "green tea", tags=("a",), language="de"), make_entry(2, "coffee", doc_type="pdf")]
    )
    index.apply(5, [2], [])
    index.flush()
    index.close()
    again = open_index(tmp_path / "index")
    assert (again.checkpoint(), again.count(), again.count_document_chunks()) == (5, 1, {1: 1})
    assert search_words(again, "tea", IndexFilter(owner=0, tags=("a",))) == search_vectors(again, 1) == [1]
    assert again.snapshot.languages() == ("de",)
    apply_entries(again, 6, [make_entry(3, "more tea", tags=("a",))])
    assert sorted(search_words(again, "tea")) == [1, 3]
    again.close()


def test_a_long_index_comes_back_with_its_codes(tmp_path: Path) -> None:
    total = vectors.FIRST_TAIL_CHUNKS + 300
    index = open_index(tmp_path / "index")
    apply_entries(index, 1, [make_entry(number) for number in range(total)])
    index.flush()
    apply_entries(index, 2, [make_entry(number) for number in range(total, total + embedded.FLUSH_TAIL_CHUNKS)])
    index.flush()
    before = search_vectors(index, 7)
    index.close()
    again = open_index(tmp_path / "index")
    assert search_vectors(again, 7) == before
    assert search_vectors(again, total)[0] == total
    again.close()
    (book,) = (tmp_path / "index" / "slots-0").glob("*.book")
    book.write_bytes(book.read_bytes()[:-4] + b"oops")
    spoilt = open_index(tmp_path / "index")
    assert spoilt.checkpoint() == -1
    spoilt.close()


def test_changes_after_the_last_flush_are_applied_again_after_a_crash(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    apply_entries(index, 1, [make_entry(1, "tea", document_id=1), make_entry(2, "coffee")])
    index.flush()
    index.apply(2, [1], [make_entry(3, "milk", document_id=1)])
    copy = crashed(tmp_path / "index")
    index.close()
    again = open_index(copy)
    assert again.checkpoint() == 1
    again.apply(2, [1], [make_entry(3, "milk", document_id=1)])
    assert (search_words(again, "milk"), search_words(again, "tea"), search_vectors(again, 3)[0]) == ([3], [], 3)
    assert again.count() == 2
    again.flush()
    again.close()
    last = open_index(copy)
    assert (last.checkpoint(), last.count()) == (2, 2)
    last.close()


def test_an_index_that_was_never_flushed_asks_for_a_rebuild(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    apply_entries(index, 1, [make_entry(1, "tea")])
    copy = crashed(tmp_path / "index")
    index.close()
    again = open_index(copy)
    assert (again.checkpoint(), again.count(), search_words(again, "tea")) == (-1, 0, [])
    again.close()


def spoil_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


def older_version(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "version": 0}))


def flip_a_column(folder: Path) -> None:
    path = folder / "slots-0" / "chunk.column"
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


def shorten_vectors(folder: Path) -> None:
    path = folder / "slots-0" / "vectors.rows"
    path.write_bytes(path.read_bytes()[:-2])


def lose_a_column(folder: Path) -> None:
    (folder / "slots-0" / "document.column").unlink()


def lose_the_words(folder: Path) -> None:
    shutil.rmtree(folder / "words")


def spoil_the_words(folder: Path) -> None:
    for path in (folder / "words").glob("*"):
        if path.suffix in (".term", ".idx", ".store", ".fast"):
            path.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        spoil_manifest,
        older_version,
        flip_a_column,
        shorten_vectors,
        lose_a_column,
        lose_the_words,
        spoil_the_words,
    ],
)
def test_any_damage_means_an_empty_index_that_asks_for_a_rebuild(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    index = open_index(tmp_path / "index")
    apply_entries(index, 1, [make_entry(1, "tea", tags=("a",)), make_entry(2, "coffee")])
    index.flush()
    index.close()
    damage(tmp_path / "index")
    again = open_index(tmp_path / "index")
    assert (again.checkpoint(), again.count(), search_words(again, "tea"), search_vectors(again, 1)) == (-1, 0, [], [])
    apply_entries(again, 2, [make_entry(1, "tea")])
    assert search_words(again, "tea") == [1]
    again.close()


@pytest.mark.parametrize("name", ["terms.rows", "vectors.rows"])
def test_verify_names_damaged_files_that_opening_does_not_read(tmp_path: Path, name: str) -> None:
    index = open_index(tmp_path / "index")
    apply_entries(index, 1, [make_entry(number, f"tea {number}") for number in range(1, 30)])
    index.flush()
    apply_entries(index, 2, [make_entry(30, "coffee")])
    assert index.find_damaged_files() == []
    index.flush()
    index.close()
    (path,) = (tmp_path / "index").glob(f"*/{name}")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    again = open_index(tmp_path / "index")
    assert again.count() == 30 and again.find_damaged_files() == [name]
    again.close()


@pytest.mark.parametrize(("dimension", "fingerprint"), [(32, "test/2"), (16, "test/1"), (0, "")])
def test_another_model_means_a_rebuild(tmp_path: Path, dimension: int, fingerprint: str) -> None:
    index = open_index(tmp_path / "index")
    apply_entries(index, 1, [make_entry(1, "tea")])
    index.flush()
    index.close()
    again = open_index(tmp_path / "index", dimension, fingerprint)
    assert (again.checkpoint(), again.count()) == (-1, 0)
    again.close()


def test_an_index_in_use_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    apply_entries(index, 1, [make_entry(1, "tea")])
    index.flush()
    with pytest.raises(StorageFailed):
        open_index(tmp_path / "index")
    assert search_words(index, "tea") == [1]
    index.close()


def test_removed_passages_are_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "COMPACT_DEAD_SLOTS", 50)
    index = open_index(tmp_path / "index")
    apply_entries(
        index, 1, [make_entry(number, f"tea leaf{number}", tags=(f"t{number % 3}",)) for number in range(200)]
    )
    index.flush()
    index.apply(2, list(range(0, 200, 2)), [])
    before = (search_words(index, "leaf151"), search_vectors(index, 151))
    index.flush()
    assert not (tmp_path / "index" / "slots-0").exists()
    assert (search_words(index, "leaf151"), search_vectors(index, 151)) == before
    apply_entries(index, 3, [make_entry(500, "late tea", tags=("t1",))])
    index.flush()
    index.close()
    again = open_index(tmp_path / "index")
    assert (again.checkpoint(), again.count()) == (3, 101)
    tagged = IndexFilter(owner=0, tags=("t1",))
    assert sorted(search_vectors(again, 1, tagged)) == sorted([n for n in range(1, 200, 2) if n % 3 == 1] + [500])
    assert search_words(again, "leaf151")[0] == 151
    assert search_vectors(again, 500, limit=1) == [500]
    again.close()


@contextmanager
def no_room() -> Iterator[None]:
    """Set RLIMIT_FSIZE to 0, so that every write fails as on a full disk."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_an_index_goes_on_when_a_full_disk_has_room_again(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    apply_entries(index, 1, [make_entry(1, "tea")])
    index.flush()
    more = [make_entry(number, f"coffee {'m' * number}") for number in range(2, 40)]
    for _ in range(2):
        with no_room(), pytest.raises((OSError, ValueError)):
            apply_entries(index, 2, more)
    with no_room(), pytest.raises((OSError, ValueError)):
        index.flush()
    assert (search_words(index, "tea"), search_words(index, "mmmmmmm"), search_vectors(index, 1)) == ([1], [], [1])
    apply_entries(index, 2, more)
    assert (search_words(index, "mmmmmmm"), index.count()) == ([7], 39)
    index.flush()
    index.close()
    again = open_index(tmp_path / "index")
    assert (again.checkpoint(), again.count(), search_words(again, "mmmmmmm"), search_words(again, "tea")) == (
        2,
        39,
        [7],
        [1],
    )
    assert again.find_damaged_files() == []
    again.close()
