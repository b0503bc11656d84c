"""`add --watch` keeps a collection in sync with folders; and file selection without an engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import CollectionNotFound, FileNotFound, NameTaken, NotNow
from knowledge.model import DocumentEdit, DocumentFilter, JobFilter
from knowledge.surfaces.cli.add.document_options import DocumentOptions
from knowledge.surfaces.cli.add.file_selection import FolderWalk, gather_files
from knowledge.surfaces.cli.add.watch import FolderWatch, plan_sync
from tests.support.engines import add_file, add_note, search_ids

WAIT_SECONDS = 30.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "notes"
    home.mkdir()
    (home / "tea.md").write_text("Tea is served at four.")
    return home


def watch(engine: LocalEngine, folder: Path) -> FolderWatch:
    return FolderWatch(
        engine, [folder], FolderWalk(), DocumentOptions(collection="notes"), as_json=False, document_ids=[]
    )


async def contents(engine: LocalEngine) -> dict[str, str]:
    """Return the text of each document by filename."""
    found = await engine.documents(DocumentFilter(collection="notes"))
    return {
        Path(document.source_path or "").name: (await engine.chunks(document.id))[0].text for document in found.items
    }


async def test_added_changed_renamed_and_deleted_files_are_synced(local: LocalEngine, folder: Path) -> None:
    mirror = watch(local, folder)
    await mirror.sync()
    assert await contents(local) == {"tea.md": "Tea is served at four."}

    (folder / "tea.md").write_text("Tea is served at five now.")
    (folder / "milk.md").write_text("Milk comes in last.")
    await mirror.sync()
    assert await contents(local) == {"tea.md": "Tea is served at five now.", "milk.md": "Milk comes in last."}

    (folder / "milk.md").rename(folder / "cream.md")
    await mirror.sync()
    assert set(await contents(local)) == {"tea.md", "cream.md"}

    (folder / "tea.md").unlink()
    await mirror.sync()
    assert await contents(local) == {"cream.md": "Milk comes in last."}


async def numbers(engine: LocalEngine) -> dict[str, int]:
    found = await engine.documents(DocumentFilter(collection="notes"))
    return {Path(document.source_path or "").name: document.id for document in found.items}


async def test_a_renamed_file_keeps_its_document_and_is_not_read_again(local: LocalEngine, folder: Path) -> None:
    (folder / "milk.md").write_text("Milk comes in last")  # the same size as the other file
    (folder / "tea.md").write_text("Tea comes in first")
    mirror = watch(local, folder)
    await mirror.sync()
    before, jobs = await numbers(local), (await local.jobs(JobFilter())).total
    await local.edit(before["tea.md"], DocumentEdit(add_tags=("hot",)))
    (folder / "drinks").mkdir()
    (folder / "tea.md").rename(folder / "drinks" / "chai.md")
    (folder / "milk.md").rename(folder / "drinks" / "milk.md")
    await mirror.sync()
    assert await numbers(local) == {"chai.md": before["tea.md"], "milk.md": before["milk.md"]}
    renamed = await local.document(before["tea.md"])
    assert (renamed.filename, renamed.tags) == ("chai.md", ("hot",))
    assert (await local.jobs(JobFilter())).total == jobs
    assert (await search_ids(local, "first"))[0] == before["tea.md"]

    (folder / "drinks" / "chai.md").write_text("Tea comes in late!")
    await mirror.sync()
    assert (await contents(local))["chai.md"] == "Tea comes in late!"
    assert (await numbers(local))["chai.md"] == before["tea.md"]


@dataclass(frozen=True)
class Listing(FolderWalk):
    """A folder walk during which the folder changes."""

    happenings: list[Callable[[], object]] = field(default_factory=list)
    """Called once, between the listing and the files."""

    def list_files(self, root: Path) -> Iterator[Path]:
        listed = list(super().list_files(root))
        while self.happenings:
            self.happenings.pop()()
        yield from listed


async def test_a_file_renamed_while_its_folder_is_listed_keeps_its_document(local: LocalEngine, folder: Path) -> None:
    mirror = watch(local, folder)
    await mirror.sync()
    before = await numbers(local)
    mirror.walk = listing = Listing(happenings=[lambda: (folder / "tea.md").rename(folder / "chai.md")])
    await mirror.sync()
    assert not listing.happenings
    assert await numbers(local) == {"chai.md": before["tea.md"]}


def test_a_folder_removed_while_it_is_listed_is_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "drinks").mkdir()
    (folder / "drinks" / "milk.md").write_text("Milk comes in last.")
    scan = os.scandir

    def moved(place: Path) -> Iterator[os.DirEntry[str]]:
        if place.name == "drinks":
            place.rename(folder.parent / "elsewhere")
        return scan(place)

    monkeypatch.setattr(os, "scandir", moved)
    assert [path.name for path in FolderWalk().list_files(folder)] == ["tea.md"]


async def test_a_file_renamed_to_another_suffix_is_read_again(local: LocalEngine, folder: Path) -> None:
    mirror = watch(local, folder)
    await mirror.sync()
    (folder / "tea.md").rename(folder / "tea.txt")
    await mirror.sync()
    (document,) = (await local.documents(DocumentFilter(collection="notes"))).items
    assert (document.filename, document.doc_type) == ("tea.txt", "txt")


async def test_a_path_has_one_document(engine: Engine) -> None:
    one = await add_file(engine, "a.md", "Tea at four.", source_path="/a.md")
    two = await add_file(engine, "b.md", "Milk at five.", source_path="/b.md")
    with pytest.raises(NameTaken, match=r"already has the path /a\.md"):
        await engine.edit(two.id, DocumentEdit(source_path="/a.md"))
    moved = await engine.edit(one.id, DocumentEdit(source_path="/c/a2.md"))
    assert (moved.source_path, moved.filename, moved.title) == ("/c/a2.md", "a2.md", one.title)


async def test_a_copy_replaces_its_removed_original(local: LocalEngine, folder: Path) -> None:
    (folder / "copy.md").write_bytes((folder / "tea.md").read_bytes())
    mirror = watch(local, folder)
    await mirror.sync()
    ((original, number),) = (await numbers(local)).items()
    (folder / original).unlink()
    await mirror.sync()
    (other,) = {"copy.md", "tea.md"} - {original}
    assert await numbers(local) == {other: number}


async def test_changes_made_before_the_watch_are_synced(local: LocalEngine, folder: Path) -> None:
    await watch(local, folder)._load_stored()
    (folder / "tea.md").rename(folder / "chai.md")
    (folder / "milk.md").write_text("Milk comes in last.")
    await watch(local, folder)._load_stored()
    assert set(await contents(local)) == {"chai.md", "milk.md"}


async def test_documents_from_other_folders_are_kept(local: LocalEngine, folder: Path) -> None:
    await add_note(local, "Not from the folder.", collection="notes")
    await watch(local, folder)._load_stored()
    (folder / "milk.md").write_text("Milk comes in last.")
    (folder / "tea.md").unlink()
    await watch(local, folder)._load_stored()
    assert len(await contents(local)) == 2


async def test_an_empty_folder_does_not_empty_its_collection(local: LocalEngine, folder: Path) -> None:
    """The folder may be a disk that is not mounted."""
    await watch(local, folder)._load_stored()
    (folder / "tea.md").unlink()
    with pytest.raises(NotNow, match="1 document came from it"):
        await watch(local, folder)._load_stored()
    assert len(await contents(local)) == 1


async def test_a_removed_folder_ends_the_watch_and_its_documents_are_kept(local: LocalEngine, folder: Path) -> None:
    mirror = watch(local, folder)
    await mirror.sync()
    (folder / "tea.md").unlink()
    folder.rmdir()
    with pytest.raises(FileNotFound):
        await mirror.sync()
    assert len(await contents(local)) == 1


async def test_a_file_written_while_watching_is_found(local: LocalEngine, folder: Path) -> None:
    running = asyncio.create_task(watch(local, folder).run())
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await until(local, {"tea.md"}, running)
            (folder / "milk.md").write_text("Milk comes in last.")
            await until(local, {"tea.md", "milk.md"}, running)
            (folder / "tea.md").unlink()
            await until(local, {"milk.md"}, running)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(engine: LocalEngine, names: set[str], running: asyncio.Task[None]) -> None:
    while not running.done() and await names_now(engine) != names:
        await asyncio.sleep(0.02)
    assert not running.done(), running.exception()


async def names_now(engine: LocalEngine) -> set[str]:
    """Return the filenames from one listing, because a document may be removed before a second call."""
    try:
        return set(await numbers(engine))
    except CollectionNotFound:
        return set()


def test_a_plan_removes_what_is_gone_and_adds_what_is_new_or_changed() -> None:
    handled = {"same": (1, 1), "changed": (1, 1), "gone": (1, 1)}
    found = {"same": (1, 1), "changed": (2, 1), "new": (1, 1)}
    work = plan_sync(handled, found, stored={"same", "changed", "gone"})
    assert (work.remove, work.add) == (("gone",), ("changed", "new"))
    assert not plan_sync(found, found, stored=found)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "repository"
    (home / ".git").mkdir(parents=True)
    (home / ".gitignore").write_text("*.log\nbuild/\n/secret.md\n")
    for path in ("a.md", "a.log", "build/b.md", "secret.md", "docs/secret.md", "docs/keep.log", "docs/deep/c.md"):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("text")
    (home / "docs" / ".gitignore").write_text("!keep.log\n")
    (home / "docs" / ".knowledgeignore").write_text("deep/\n")
    yield home


def names(folder: Path, walk: FolderWalk = FolderWalk()) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in walk.list_files(folder)]


def test_ignore_files_apply_from_the_root_of_the_repository(repository: Path) -> None:
    assert names(repository) == ["a.md", "docs/keep.log", "docs/secret.md"]
    assert names(repository / "docs") == ["keep.log", "secret.md"]


def test_an_ignored_folder_is_read_if_it_is_named(repository: Path) -> None:
    assert names(repository / "build") == ["b.md"]


def test_ignore_files_can_be_ignored(repository: Path) -> None:
    assert "build/b.md" in names(repository, FolderWalk(include_ignored=True))
    assert not any(
        name.startswith(".git")
        for name in names(repository, FolderWalk(include_ignored=True, include_hidden=True))
        if "/" in name
    )


def test_the_data_folder_is_never_read(repository: Path) -> None:
    assert names(repository, FolderWalk(private=(repository / "docs",))) == ["a.md"]


def test_a_symlink_loop_is_not_followed(repository: Path) -> None:
    (repository / "round").symlink_to(repository, target_is_directory=True)
    assert names(repository) == ["a.md", "docs/keep.log", "docs/secret.md"]


def test_a_file_named_twice_is_added_once(repository: Path) -> None:
    sources = gather_files(
        [str(repository / "a.md"), str(repository), str(repository / "docs" / ".." / "a.md")], FolderWalk()
    )
    assert sorted(path.name for path in sources.files.values()) == ["a.md", "keep.log", "secret.md"]
