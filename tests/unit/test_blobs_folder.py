"""Originals: written atomically, pinned while referenced, and deleted when unreferenced."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from knowledge.blobs.folder import FolderBlobs
from knowledge.errors import TooLarge


def store(files: FolderBlobs, data: bytes) -> str:
    incoming = files.open_incoming(1 << 20)
    incoming.write(data)
    with files.adopt_incoming(incoming, lambda _: True) as received:
        return received.sha256


def test_a_file_is_stored_under_its_hash(tmp_path: Path) -> None:
    files = FolderBlobs(tmp_path)
    sha256 = store(files, b"hello")
    assert sha256 == hashlib.sha256(b"hello").hexdigest()
    assert files.get_path(sha256).read_bytes() == b"hello"
    assert store(files, b"hello") == sha256
    assert [path.name for path in files.iter_files()] == [sha256]


def test_an_unreferenced_file_is_discarded(tmp_path: Path) -> None:
    files = FolderBlobs(tmp_path)
    sha256 = store(files, b"hello")
    assert files.discard(sha256, lambda _: True) == 0
    assert files.discard(sha256, lambda _: False) == 5
    assert not files.get_path(sha256).exists()


def test_a_pinned_file_is_not_discarded(tmp_path: Path) -> None:
    files = FolderBlobs(tmp_path)
    incoming = files.open_incoming(100)
    incoming.write(b"pinned")
    with files.adopt_incoming(incoming, lambda _: True) as received:
        assert files.discard(received.sha256, lambda _: False) == 0
        assert files.get_path(received.sha256).exists()


def test_a_file_whose_row_is_not_written_is_discarded(tmp_path: Path) -> None:
    files = FolderBlobs(tmp_path)
    kept = store(files, b"named already")
    for data in (b"unwanted", b"named already"):
        incoming = files.open_incoming(100)
        incoming.write(data)
        with pytest.raises(ValueError, match="refused"), files.adopt_incoming(incoming, lambda sha256: sha256 == kept):
            raise ValueError("refused")
    assert [path.name for path in files.iter_files()] == [kept]


def test_a_file_over_the_limit_is_rejected_with_both_sizes(tmp_path: Path) -> None:
    incoming = FolderBlobs(tmp_path).open_incoming(2 << 20)
    with pytest.raises(TooLarge) as caught:
        incoming.write(b"x" * (3 << 20))
    assert caught.value.details == {"size_mb": 3.0, "max_size_mb": 2}
    incoming.discard()
    assert list((tmp_path / "incoming").iterdir()) == []


def test_the_sweep_deletes_only_old_unreferenced_files(tmp_path: Path) -> None:
    files = FolderBlobs(tmp_path)
    kept, lost = store(files, b"kept"), store(files, b"lost")
    (tmp_path / "incoming" / "half").write_bytes(b"half a file")
    assert files.sweep_unreferenced(lambda sha256: sha256 == kept, older_than=3600) == 0
    assert files.sweep_unreferenced(lambda sha256: sha256 == kept, older_than=-1) == 2
    assert [path.name for path in files.iter_files()] == [kept] and lost
