"""`verify` finds damage in the database, and backup and restore refuse damaged data."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from knowledge.config import Settings
from knowledge.engine import backup
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.engine.verify import check_database
from knowledge.errors import DatabaseFailed
from knowledge.model import DocumentEdit, Finding
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.command_line import Shell
from tests.support.engines import add_file, add_note

PAGE_BYTES = 4096
LEAVES = (0x0A, 0x0D)
"""The first byte of a leaf page of an index and of a table (SQLite file format, section 1.6)."""
SEED = 16


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, parsers: SharedParsers) -> Iterator[Path]:
    """The data folder of a closed engine, with a database of a few hundred pages."""
    import asyncio

    data = tmp_path_factory.mktemp("filled") / "data"
    engine = make_test_engine(Settings(data=data, workers=2), parsers=parsers)
    engine.start()

    async def fill() -> None:
        for number in range(24):
            text = "\n\n".join(f"## Part {part}\n\n" + f"word{number}x{part} again " * 60 for part in range(12))
            await add_file(engine, f"long-{number}.md", text, title=f"Long text {number}", tags=("long", f"n{number}"))
        await add_note(engine, "Tea is at four.", title="Tea")

    asyncio.run(fill())
    engine.close()
    yield data


def leaf_pages(database: Path) -> list[int]:
    """Return the numbers of the leaf pages in use."""
    connection = sqlite3.connect(database)
    try:
        rows = connection.execute("SELECT pageno FROM dbstat WHERE pagetype = 'leaf'")
        return sorted(int(row[0]) for row in rows if row[0] > 1)
    except sqlite3.OperationalError:  # built without dbstat; the fixture frees nothing, so every leaf is in use
        data = database.read_bytes()
        starts = range(PAGE_BYTES, len(data), PAGE_BYTES)
        return [1 + start // PAGE_BYTES for start in starts if data[start] in LEAVES]
    finally:
        connection.close()


def overwrite(database: Path, page: int, randomness: random.Random) -> None:
    with database.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(randomness.randbytes(PAGE_BYTES))


def copy_folder(filled: Path, target: Path) -> Path:
    shutil.copytree(filled, target)
    return target / "knowledge.db"


def test_each_of_fifty_overwritten_leaf_pages_is_found(filled: Path, tmp_path: Path) -> None:
    randomness, database = random.Random(SEED), tmp_path / "knowledge.db"
    pages = leaf_pages(filled / "knowledge.db")
    assert list(check_database(filled / "knowledge.db")) == [] and len(pages) >= 50
    for page in randomness.sample(pages, 50):
        shutil.copyfile(filled / "knowledge.db", database)
        overwrite(database, page, randomness)
        assert list(check_database(database)), page


def run_verify(data: Path) -> tuple[int, str]:
    result = Shell({"KNOWLEDGE_EMBEDDING": "none"}).run("verify", "--data", data)
    assert "Traceback" not in result.output
    return result.exit_code, result.output


@pytest.mark.parametrize("table", ["chunks", "contents", "jobs", "ix_chunks_digest"])
def test_the_command_reports_a_damaged_page_with_a_hint(filled: Path, tmp_path: Path, table: str) -> None:
    database, randomness = copy_folder(filled, tmp_path / "data"), random.Random(SEED)
    connection = sqlite3.connect(database)
    query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno DESC"
    (page,) = connection.execute(query, (table,)).fetchone()
    connection.close()
    overwrite(database, page, randomness)
    code, printed = run_verify(tmp_path / "data")
    assert code == cli_errors.FAILED and "knowledge restore" in printed
    assert table != "chunks" or "Long text" in printed or "Tea" in printed


@pytest.mark.long
def test_the_command_finds_each_of_fifty_overwritten_leaf_pages(filled: Path, tmp_path: Path) -> None:
    randomness = random.Random(SEED)
    for page in randomness.sample(leaf_pages(filled / "knowledge.db"), 50):
        data = tmp_path / f"data-{page}"
        overwrite(copy_folder(filled, data), page, randomness)
        assert run_verify(data)[0] == cli_errors.FAILED, page
        shutil.rmtree(data)


async def change_passage(local: LocalEngine, before: str, after: str) -> None:
    statement = text("UPDATE chunks SET text = replace(text, :before, :after)")
    values = {"before": before, "after": after}
    assert local._parts.database.write(lambda connection: connection.execute(statement, values).rowcount)


async def test_a_changed_passage_is_reported_with_its_document(engine: Engine, local: LocalEngine) -> None:
    tea = await add_note(engine, "Tea is at four.", title="When tea is")
    await add_note(engine, "Coffee is at ten.", title="When coffee is")
    assert await engine.verify() == []
    await change_passage(local, "four", "five")
    (finding,) = await engine.verify()
    assert (finding.part, finding.document_id) == ("store", tea.id)
    assert "When tea is" in finding.message and "add it again" in finding.hint


async def test_a_new_title_is_not_reported_as_damage(engine: Engine) -> None:
    note = await add_note(engine, "Tea is at four.", title="When tea is")
    for number in range(5):
        await engine.edit(note.id, DocumentEdit(title=f"Tea time {number}"))
        assert await engine.verify() == []


async def test_a_backup_of_a_damaged_database_is_refused(
    engine: Engine, local: LocalEngine, settings: Settings
) -> None:
    await add_note(engine, "Tea is at four.", title="When tea is")
    await change_passage(local, "four", "five")
    with pytest.raises(DatabaseFailed, match="When tea is") as refused:
        await engine.backup()
    assert "knowledge verify" in refused.value.hint
    assert not list(settings.data.glob("backup-*"))


async def test_a_backup_with_a_damaged_original_is_refused(engine: Engine, settings: Settings) -> None:
    note = await add_note(engine, "Tea is at four.", title="When tea is")
    (settings.data / "files" / note.sha256[:2] / note.sha256).write_text("Tea is at five.")
    with pytest.raises(DatabaseFailed, match="When tea is"):
        await engine.backup()


def test_the_command_makes_no_backup_of_a_damaged_database(filled: Path, tmp_path: Path) -> None:
    database = copy_folder(filled, tmp_path / "data")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE chunks SET text = 'x' || text")
    connection.close()
    target = tmp_path / "all.tar"
    result = Shell({"KNOWLEDGE_EMBEDDING": "none"}).run("backup", target, "--data", tmp_path / "data")
    assert result.exit_code == cli_errors.FAILED and "Long text" in result.stderr
    assert not target.exists() and "Traceback" not in result.output


async def read_backup(engine: LocalEngine) -> dict[str, bytes]:
    data = b"".join([piece async for piece in (await engine.backup()).pieces])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def pack_backup(members: dict[str, bytes]) -> io.BytesIO:
    """Make a backup of these members, with a manifest that matches its database."""
    manifest = json.loads(members[backup.MANIFEST_MEMBER])
    manifest["database_sha256"] = hashlib.sha256(members[backup.DATABASE_MEMBER]).hexdigest()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in {**members, backup.MANIFEST_MEMBER: json.dumps(manifest).encode()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    out.seek(0)
    return out


async def test_a_damaged_backup_is_not_restored(local: LocalEngine, tmp_path: Path) -> None:
    await add_note(local, "Tea is at four.", title="When tea is")
    members = await read_backup(local)
    members[backup.DATABASE_MEMBER] = members[backup.DATABASE_MEMBER].replace(b"Tea is at four.", b"Tea is at five.")
    home = tmp_path / "restored"
    with pytest.raises(DatabaseFailed, match="When tea is") as refused:
        backup.restore_backup(pack_backup(members), home)
    assert "older" in refused.value.hint
    assert not home.exists() and not list(tmp_path.glob("restored.restoring-*"))


def test_a_finding_of_an_older_server_can_be_loaded() -> None:
    from knowledge.wire import FindingsShape, load

    older = {"clean": False, "findings": [{"part": "index", "message": "It is damaged"}]}
    assert load(FindingsShape, older).findings == (Finding("index", "It is damaged"),)
