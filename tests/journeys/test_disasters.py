"""A full disk, damaged files and a read-only folder are reported as errors, and repaired where possible."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine import backup
from knowledge.engine.local import LocalEngine
from knowledge.errors import Damaged, KnowledgeError, StorageFailed
from knowledge.model import Content, Document, DocumentFilter, NewFile, Query
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.engines import add_file, add_note, search_ids, wait_until_done
from tests.support.mounts import READ_ONLY_MOUNT, SMALL_MOUNT, can_mount, make_mount_command

FULL_DISK = Path(__file__).with_name("full_disk.py")


@pytest.mark.skipif(not can_mount(), reason="cannot mount a small disk")
def test_a_full_disk_is_reported_and_nothing_that_was_accepted_is_lost(tmp_path: Path) -> None:
    command = make_mount_command(SMALL_MOUNT, str(tmp_path), sys.executable, str(FULL_DISK))
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "The disk of the data folder is full" in ended.stdout and "Free space on the disk" in ended.stdout
    assert "kept:" in ended.stdout.splitlines()[-1]


@asynccontextmanager
async def open_engine(settings: Settings, parsers: SharedParsers) -> AsyncIterator[LocalEngine]:
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    try:
        yield engine
    finally:
        await asyncio.to_thread(engine.close)


async def fill_data_folder(settings: Settings, parsers: SharedParsers) -> Document:
    async with open_engine(settings, parsers) as engine:
        await add_note(engine, "coffee at noon")
        return await add_file(engine, "tea.md", "# Tea\n\nTea in the kitchen.", source_path="/tea.md")


def list_index_files(settings: Settings) -> list[Path]:
    """Return the index files that are checked at start; of the mapped `.rows` files only the length is checked."""
    files = (path for path in (settings.data / "index").rglob("*") if path.is_file())
    return sorted(path for path in files if path.suffix != ".rows")


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def overwrite_file(path: Path) -> None:
    path.write_bytes(os.urandom(max(path.stat().st_size, 8)))


@pytest.mark.parametrize("damage", [empty_file, overwrite_file, Path.unlink])
async def test_any_damaged_file_of_the_index_is_rebuilt_at_the_next_start(
    settings: Settings, parsers: SharedParsers, damage: Callable[[Path], None]
) -> None:
    document = await fill_data_folder(settings, parsers)
    assert list_index_files(settings)
    for number in range(len(list_index_files(settings))):
        files = list_index_files(settings)
        damaged = files[number % len(files)]
        damage(damaged)
        print("damaged", damaged)
        async with open_engine(settings, parsers) as engine:
            assert (await search_ids(engine, "tea"))[0] == document.id, damaged
            assert await engine.verify() == [], damaged


async def test_verify_names_a_missing_original_and_adding_it_again_repairs_it(
    settings: Settings, parsers: SharedParsers
) -> None:
    document = await fill_data_folder(settings, parsers)
    original = settings.data / "files" / document.sha256[:2] / document.sha256
    original.unlink()
    async with open_engine(settings, parsers) as engine:
        (finding,) = await engine.verify()
        assert finding.part == "files" and document.sha256 in finding.message and "missing" in finding.message
        assert f"document {document.id}" in finding.message and "tea.md" in finding.message
        with pytest.raises(StorageFailed, match="missing"):
            await engine.original(document.id)
        assert (await search_ids(engine, "tea"))[0] == document.id
        with pytest.raises(KnowledgeError):
            content = Content.from_bytes(b"# Tea\n\nTea in the kitchen.")
            await wait_until_done(
                engine, await engine.add(NewFile(filename="tea.md", content=content, source_path="/tea.md"))
            )
        assert await engine.verify() == []


@pytest.mark.parametrize(
    ("damage", "message"), [(empty_file, "has 0 bytes instead of"), (overwrite_file, "its SHA-256 does not match")]
)
async def test_verify_distinguishes_a_damaged_original_from_a_short_one(
    settings: Settings, parsers: SharedParsers, damage: Callable[[Path], None], message: str
) -> None:
    document = await fill_data_folder(settings, parsers)
    damage(settings.data / "files" / document.sha256[:2] / document.sha256)
    async with open_engine(settings, parsers) as engine:
        (finding,) = await engine.verify()
        assert finding.part == "files" and message in finding.message and f"document {document.id}" in finding.message


@pytest.mark.parametrize(
    ("name", "message"), [("*.idx", ".idx is damaged"), ("vectors.rows", "different vectors of document")]
)
async def test_verify_names_what_is_damaged_in_the_index(
    settings: Settings, parsers: SharedParsers, name: str, message: str
) -> None:
    await fill_data_folder(settings, parsers)
    async with open_engine(settings, parsers) as engine:
        for path in (settings.data / "index").rglob(name):
            data = path.read_bytes()
            with path.open("r+b") as file:  # in place, like a failing disk
                file.write(bytes(255 - byte for byte in data[:40]))
        assert any(message in finding.message and finding.part == "index" for finding in await engine.verify())
        await engine.reindex()
        assert await engine.verify() == []


async def test_a_search_in_a_damaged_index_rebuilds_it(settings: Settings, parsers: SharedParsers) -> None:
    document = await fill_data_folder(settings, parsers)
    paths = [*(settings.data / "index").rglob("*.pos")]
    assert paths
    for path in paths:
        data = path.read_bytes()
        path.write_bytes(bytes(255 - byte for byte in data[:24]) + data[24:])
    async with open_engine(settings, parsers) as engine:
        assert (await search_ids(engine, '"in the kitchen"'))[0] == document.id
        assert await engine.verify() == []


async def test_verify_reports_missing_passages(settings: Settings, parsers: SharedParsers) -> None:
    document = await fill_data_folder(settings, parsers)
    with sqlite3.connect(settings.data / "knowledge.db") as database:
        database.execute("PRAGMA foreign_keys=ON")
        database.execute(
            "DELETE FROM chunks WHERE content_id = (SELECT content_id FROM documents WHERE id = ?)", (document.id,)
        )
    database.close()
    async with open_engine(settings, parsers) as engine:
        findings = await engine.verify()
        assert f"Document {document.id} should have" in findings[0].message and findings[0].part == "store"


def cut_file_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


async def test_a_truncated_database_is_reported_as_an_error(settings: Settings, parsers: SharedParsers) -> None:
    await fill_data_folder(settings, parsers)
    database = settings.data / "knowledge.db"
    for _ in range(3):
        cut_file_in_half(database)
        before = database.read_bytes()
        with pytest.raises(StorageFailed, match="database"):
            async with open_engine(settings, parsers) as engine:
                await engine.documents(DocumentFilter())
                await search_ids(engine, "tea")
                await engine.verify()
                raise AssertionError("the damage was not detected")
        assert database.read_bytes() == before or database.stat().st_size >= len(before)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
async def test_a_truncated_backup_is_refused_and_leaves_nothing(
    settings: Settings, parsers: SharedParsers, tmp_path: Path, share: float
) -> None:
    await fill_data_folder(settings, parsers)
    archive = tmp_path / "all.tar"
    async with open_engine(settings, parsers) as engine:
        archive.write_bytes(b"".join([piece async for piece in (await engine.backup()).pieces]))
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * share)])
    with archive.open("rb") as file, pytest.raises(Damaged):
        backup.restore_backup(file, tmp_path / "restored")
    assert not (tmp_path / "restored").exists() and not list(tmp_path.glob("*.restoring-*"))


async def test_a_backup_with_changed_bytes_is_refused_with_the_damaged_part(
    settings: Settings, parsers: SharedParsers, tmp_path: Path
) -> None:
    await fill_data_folder(settings, parsers)
    async with open_engine(settings, parsers) as engine:
        whole = b"".join([piece async for piece in (await engine.backup()).pieces])
    for text, part in ((b"coffee at noon", "original"), (b"SQLite format 3", "database")):
        archive = tmp_path / "all.tar"
        at = whole.rindex(text) if part == "original" else whole.index(text)
        archive.write_bytes(whole[:at] + b"?" + whole[at + 1 :])
        with archive.open("rb") as file, pytest.raises(Damaged, match=part):
            backup.restore_backup(file, tmp_path / "restored")
        assert not (tmp_path / "restored").exists()


async def test_a_backup_made_during_writes_gives_the_same_answers_after_a_restore(
    settings: Settings, parsers: SharedParsers, tmp_path: Path
) -> None:
    archive = tmp_path / "all.tar"
    async with open_engine(settings, parsers) as engine:
        before = [await add_note(engine, f"tea number {number} in the kitchen") for number in range(5)]
        writing = asyncio.create_task(add_notes(engine))
        archive.write_bytes(b"".join([piece async for piece in (await engine.backup()).pieces]))
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await wait_until_idle(engine)
    with archive.open("rb") as file:
        backup.restore_backup(file, tmp_path / "restored")
    async with open_engine(settings.model_copy(update={"data": tmp_path / "restored"}), parsers) as copy:
        await wait_until_idle(copy)
        assert await copy.verify() == []
        documents = await list_ids(copy)
        assert documents >= {document.id for document in before}
        async with open_engine(settings, parsers) as engine:
            await wait_until_idle(engine)  # a cancelled add may have been accepted
            for gone in await list_ids(engine) - documents:
                await engine.remove(gone)
            await engine.reindex()  # so that removed documents do not count in the scores
            for question in ("tea number 3", "kitchen", "written meanwhile"):
                assert await search_texts(engine, question) == await search_texts(copy, question)


async def list_ids(engine: LocalEngine) -> set[int]:
    return {document.id for document in (await engine.documents(DocumentFilter(per_page=200))).items}


async def search_texts(engine: LocalEngine, question: str) -> list[tuple[int, str, float]]:
    hits = (await engine.search(Query(text=question, limit=50))).hits
    return sorted((hit.document.id, hit.chunk.text, round(hit.score, 3)) for hit in hits)


async def add_notes(engine: LocalEngine) -> None:
    for number in range(40):  # few enough for one page of documents and one answer
        await add_note(engine, f"written meanwhile {number}")


async def wait_until_idle(engine: LocalEngine) -> None:
    while (status := await engine.status()).queued + status.processing:
        await asyncio.sleep(0.01)


@pytest.mark.skipif(not can_mount(), reason="cannot mount a read-only disk")
def test_a_read_only_disk_is_reported_in_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    command = make_mount_command(READ_ONLY_MOUNT, str(data), sys.executable, "-m", "knowledge")
    for words in (["status"], ["search", "tea"], ["add", __file__]):
        ended = subprocess.run([*command, *words, "--data", str(data)], capture_output=True, text=True, check=False)
        assert ended.returncode == 1 and ended.stdout == "", ended
        assert "cannot be used: Read-only file system" in ended.stderr and "--data" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
