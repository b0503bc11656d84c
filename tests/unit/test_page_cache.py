"""The cache of drawn pages on disk, and the packed words of a page."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from knowledge.extract.pages.packed_words import HEADER, clamp_box, pack_words, unpack_words
from knowledge.model.pages import PageWord, PageWords, WordSource
from knowledge.store.pages.cache import PageCache

A, B = "a" * 64, "b" * 64


def wanted() -> bool:
    return True


def list_files(folder: Path) -> set[str]:
    return {f"{path.parent.name[0]}/{path.name}" for path in folder.rglob("*") if path.is_file()}


def test_the_least_recently_used_page_goes_first(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "pages", 25)
    cache.put(A, "1", b"x" * 10, wanted)
    cache.put(A, "2", b"x" * 10, wanted)
    assert cache.get(A, "1") == b"x" * 10
    cache.put(B, "1", b"x" * 10, wanted)
    assert list_files(tmp_path) == {"a/1.webp", "b/1.webp"}
    assert cache.total_bytes == 20


def test_a_page_larger_than_the_cache_and_a_cache_of_nothing_keep_no_file(tmp_path: Path) -> None:
    for size in (5, 0):
        cache = PageCache(tmp_path / "pages", size)
        cache.put(A, "1", b"x" * 10, wanted)
        assert cache.get(A, "1") is None
    assert list_files(tmp_path) == set()


def test_a_new_start_knows_the_files_and_their_order_and_removes_drafts(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "pages", 100)
    for place, name in enumerate(("1", "2", "3")):
        cache.put(A, name, b"x" * 10, wanted)
        os.utime(tmp_path / "pages" / A / f"{name}.webp", (100 - place, 100 - place))
    (tmp_path / "pages" / A / ".draft").write_bytes(b"half")
    again = PageCache(tmp_path / "pages", 20)
    assert again.total_bytes == 20
    assert list_files(tmp_path) == {"a/1.webp", "a/2.webp"}


def test_a_page_of_an_original_that_was_deleted_meanwhile_is_not_kept(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "pages", 100)
    cache.put(A, "1", b"x" * 10, lambda: False)
    assert (list_files(tmp_path), cache.total_bytes) == (set(), 0)


def test_pages_of_originals_that_are_gone_are_swept(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "pages", 100)
    cache.put(A, "1", b"x", wanted)
    cache.put(B, "1", b"x", wanted)
    cache.sweep(lambda sha256: sha256 == B)
    assert (list_files(tmp_path), cache.total_bytes) == ({"b/1.webp"}, 1)


# -- packed words ---------------------------------------------------------------------------------

WORDS = PageWords(
    3, 595.5, 842.0, (PageWord("Hafen", (0.1, 0.2, 0.3, 0.25)), PageWord("日", (0.0, 0.0, 1.0, 1.0))), WordSource.OCR
)


def test_words_are_packed_and_unpacked() -> None:
    found = unpack_words(pack_words(WORDS), 3)
    assert (found.width, found.height, found.source) == (595.5, 842.0, WordSource.OCR)
    assert [word.text for word in found.words] == ["Hafen", "日"]
    assert found.words[0].box == pytest.approx((0.1, 0.2, 0.3, 0.25), abs=1e-4)
    empty = PageWords(1, 1.0, 1.0, (), WordSource.NONE)
    assert unpack_words(pack_words(empty), 1) == empty


def test_a_page_of_words_takes_a_few_bytes_per_word() -> None:
    words = tuple(PageWord(f"word{n}", (n / 1000, n / 1000, n / 900, n / 900)) for n in range(500))
    assert len(pack_words(PageWords(1, 595.0, 842.0, words, WordSource.OCR))) < 500 * 14


@pytest.mark.parametrize(
    "data",
    [
        b"", b"words", pack_words(WORDS)[:-4], zlib.compress(b"short"), zlib.compress(b"\0" * 100),
        zlib.compress(HEADER.pack(1, 9, 1.0, 1.0, 0)), zlib.compress(HEADER.pack(1, 1, 1.0, 1.0, 50_000)),
        zlib.compress(HEADER.pack(1, 1, float("nan"), 1.0, 0)), zlib.compress(HEADER.pack(1, 1, -1.0, 1.0, 0)),
        zlib.compress(HEADER.pack(1, 1, 1.0, 1.0, 1) + b"\0" * 8 + b"a\nb"), zlib.compress(b"\0" * (20 << 20)),
        zlib.compress(HEADER.pack(1, 1, 1.0, 1.0, 1) + b"\0" * 8 + b"\xff"),
    ],
)  # fmt: skip
def test_damaged_or_hostile_words_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"page 7|utf-8"):
        unpack_words(data, 7)


def test_a_box_stays_on_the_page() -> None:
    assert clamp_box(1.2, 0.5, -0.1, 0.4) == (0.0, 0.4, 1.0, 0.5)
