"""Originals: whole before they are named, and gone when nothing names them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from knowledge.errors import TooLarge
from knowledge.store.files import FileStore


def keep(files: FileStore, data: bytes) -> str:
    incoming = files.open_incoming(1 << 20)
    incoming.write(data)
    with files.adopt_incoming(incoming, lambda _: True) as received:
        return received.sha256


def test_a_file_lies_under_its_hash(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    sha256 = keep(files, b"hello")
    assert sha256 == hashlib.sha256(b"hello").hexdigest()
    assert files.get_path(sha256).read_bytes() == b"hello"
    assert keep(files, b"hello") == sha256
    assert [path.name for path in files.iter_files()] == [sha256]


def test_what_no_row_names_is_discarded(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    sha256 = keep(files, b"hello")
    assert files.discard(sha256, lambda _: True) == 0
    assert files.discard(sha256, lambda _: False) == 5
    assert not files.get_path(sha256).exists()


def test_a_file_that_is_about_to_be_named_is_not_taken_away(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    incoming = files.open_incoming(100)
    incoming.write(b"pinned")
    with files.adopt_incoming(incoming, lambda _: True) as received:
        assert files.discard(received.sha256, lambda _: False) == 0
        assert files.get_path(received.sha256).exists()


def test_a_file_whose_row_was_refused_goes_again(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    kept = keep(files, b"named already")
    for data in (b"unwanted", b"named already"):
        incoming = files.open_incoming(100)
        incoming.write(data)
        with pytest.raises(ValueError, match="refused"), files.adopt_incoming(incoming, lambda sha256: sha256 == kept):
            raise ValueError("refused")
    assert [path.name for path in files.iter_files()] == [kept]


def test_a_file_over_the_limit_is_refused_with_both_sizes(tmp_path: Path) -> None:
    incoming = FileStore(tmp_path).open_incoming(2 << 20)
    with pytest.raises(TooLarge) as caught:
        incoming.write(b"x" * (3 << 20))
    assert caught.value.details == {"size_mb": 3.0, "max_size_mb": 2}
    incoming.discard()
    assert list((tmp_path / "incoming").iterdir()) == []


def test_the_sweep_takes_what_nobody_names_and_leaves_the_rest(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    kept, lost = keep(files, b"kept"), keep(files, b"lost")
    (tmp_path / "incoming" / "half").write_bytes(b"half a file")
    assert files.sweep_unreferenced(lambda sha256: sha256 == kept, older_than=3600) == 0
    assert files.sweep_unreferenced(lambda sha256: sha256 == kept, older_than=-1) == 2
    assert [path.name for path in files.iter_files()] == [kept] and lost
