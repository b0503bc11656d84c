"""Path traversal protection: symbolic links never lead out of the allowed folder, even if they change meanwhile."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowledge.errors import AccessDenied, FileNotFound
from knowledge.filesystem import open_beneath
from knowledge.toolsets.file_access import AllowedFolders, _open_path, open_file
from knowledge.toolsets.sage.content_folder import ContentFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")

TRIES = 3000
RACE_SECONDS = 3.0
INSIDE, OUTSIDE = "inside", "the secret"


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    """An allowed folder, with a forbidden one beside it."""
    for name, text in (("allowed/folder", INSIDE), ("outside", OUTSIDE)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file.txt").write_text(text)
    return (tmp_path / "allowed").resolve()


@pytest.fixture(params=["openat2", "checked afterwards", "checked without /proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each implementation of open_beneath; openat2 is skipped on kernels without it."""
    way = str(request.param)
    if way == "openat2" and not open_beneath.has_openat2():
        pytest.skip("this kernel has no openat2")
    if way != "openat2":
        monkeypatch.setattr(open_beneath, "has_openat2", lambda: False)
    if way == "checked without /proc":
        monkeypatch.setattr(open_beneath, "find_location", open_beneath._confirm_path)
    return way


def read(given: Path | str, folders: AllowedFolders) -> str:
    _, file = _open_path(str(given), folders)
    with file:
        return file.read().decode()


def replace_by_link(folder: Path, outside: Path) -> None:
    """Replace a folder by a symbolic link."""
    shutil.rmtree(folder)
    folder.symlink_to(outside)


def test_a_folder_that_becomes_a_link_after_the_check_is_not_followed(allowed: Path, tmp_path: Path, way: str) -> None:
    folders = AllowedFolders((allowed,))
    resolved = folders.resolve(str(allowed / "folder" / "file.txt"))
    replace_by_link(allowed / "folder", tmp_path / "outside")
    with pytest.raises(open_beneath.PathEscaped):
        folders.open(resolved)


def test_a_link_to_private_files_of_the_server_is_not_followed(allowed: Path, way: str) -> None:
    (allowed / "data").mkdir()
    (allowed / "data" / "file.txt").write_text(OUTSIDE)
    folders = AllowedFolders((allowed,), private=(allowed / "data",))
    resolved = folders.resolve(str(allowed / "folder" / "file.txt"))
    replace_by_link(allowed / "folder", allowed / "data")
    with pytest.raises(open_beneath.PathEscaped):
        folders.open(resolved)


def test_links_within_the_folder_are_followed(allowed: Path, way: str) -> None:
    (allowed / "relative").symlink_to("folder")
    (allowed / "absolute").symlink_to(allowed / "folder")
    (allowed / "file").symlink_to(allowed / "folder" / "file.txt")
    folders = AllowedFolders((allowed,))
    for given in ("relative/file.txt", "absolute/file.txt", "file", "folder/../folder/file.txt"):
        assert read(allowed / given, folders) == INSIDE


def test_links_that_lead_out_are_refused(allowed: Path, tmp_path: Path, way: str) -> None:
    (allowed / "out").symlink_to(tmp_path / "outside")
    with pytest.raises(AccessDenied):
        read(allowed / "out" / "file.txt", AllowedFolders((allowed,)))
    with pytest.raises(AccessDenied):
        read(allowed / ".." / "outside" / "file.txt", AllowedFolders((allowed,)))


async def test_a_named_pipe_is_refused_without_blocking(allowed: Path, way: str) -> None:
    os.mkfifo(allowed / "pipe")
    began = time.monotonic()
    with pytest.raises(FileNotFound):
        async with open_file(str(allowed / "pipe"), AllowedFolders((allowed,)), 1000):
            pass
    with pytest.raises(FileNotFound):
        async with open_file(str(allowed / "folder"), AllowedFolders((allowed,)), 1000):
            pass
    assert time.monotonic() - began < 5


@pytest.fixture
def swapping(allowed: Path, tmp_path: Path) -> Iterator[None]:
    """A thread that swaps a folder for a link and back as fast as it can."""
    stop, folder, aside, link = threading.Event(), allowed / "folder", allowed / "aside", allowed / "link"
    link.symlink_to(tmp_path / "outside")

    def swap() -> None:
        while not stop.is_set():
            for before, after in ((folder, aside), (link, folder), (folder, link), (aside, folder)):
                before.rename(after)

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    stop.set()
    thread.join()


def race(attempt: Callable[[], str]) -> tuple[int, int]:
    """Read while the folder is swapped; return how often the file inside and the file outside was read."""
    read_right = escaped = 0
    deadline = time.monotonic() + RACE_SECONDS
    for _ in range(TRIES):
        if time.monotonic() > deadline:
            break
        try:
            text = attempt()
        except (AccessDenied, FileNotFound, OSError):
            continue
        read_right += text == INSIDE
        escaped += text == OUTSIDE
    return read_right, escaped


def test_a_link_race_never_leads_out(allowed: Path, swapping: None, way: str) -> None:
    folders = AllowedFolders((allowed,))
    if way == "checked without /proc":
        pytest.skip("without /proc the check itself races; it only narrows the window")
    _, escaped = race(lambda: read(allowed / "folder" / "file.txt", folders))
    assert escaped == 0


def test_a_link_race_never_leads_out_of_a_content_folder(allowed: Path, swapping: None) -> None:
    disk = ContentFolder(allowed)
    _, escaped = race(lambda: disk.read("folder/file.txt").decode())
    assert escaped == 0
