"""The data folder and backups are private (0600 and 0700), for any umask and after an upgrade."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine import backup
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.cli import cli
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.command_line import Shell
from tests.support.engines import add_file, add_note, search_ids
from tests.support.old_folders import DUMPS, restore_dump

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX file modes")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def find_public_paths(folder: Path) -> dict[str, str]:
    """Return the paths that group or others may access, with their modes."""
    paths = [folder, *folder.rglob("*")]
    modes = {str(path): stat.S_IMODE(path.lstat().st_mode) for path in paths if not path.is_symlink()}
    return {path: oct(mode) for path, mode in modes.items() if mode & 0o077}


async def use(engine: LocalEngine) -> bytes:
    await add_file(engine, "tea.md", "# Tea\n\nTea in the kitchen.", tags=("hot",))
    note = await add_note(engine, "coffee at noon")
    assert await search_ids(engine, "coffee")
    await engine.remove(note.id)
    await engine.reindex()
    return b"".join([piece async for piece in (await engine.backup()).pieces])


async def test_all_files_in_a_new_data_folder_are_private(settings: Settings, parsers: SharedParsers) -> None:
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    await use(engine)
    assert find_public_paths(settings.data) == {}
    await asyncio.to_thread(engine.close)
    assert find_public_paths(settings.data) == {}


@pytest.mark.only_sqlite(reason="earlier versions had no PostgreSQL")
@pytest.mark.parametrize("dump", DUMPS[-1:], ids=lambda path: path.stem)
async def test_a_folder_of_an_older_version_is_made_private_when_it_is_opened(
    settings: Settings, parsers: SharedParsers, dump: Path
) -> None:
    restore_dump(dump, settings.data)
    elsewhere = settings.data.parent / "elsewhere.txt"
    elsewhere.write_text("not ours")
    (settings.data / "link").symlink_to(elsewhere)
    assert len(find_public_paths(settings.data)) > 3
    engine = make_test_engine(settings, parsers=parsers)
    assert find_public_paths(settings.data) == {}
    engine.start()
    await use(engine)
    await asyncio.to_thread(engine.close)
    assert find_public_paths(settings.data) == {} and list(settings.data.glob("knowledge-before-*.db"))
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o644, "the target of a symbolic link is not changed"


async def test_a_restored_folder_is_private(settings: Settings, parsers: SharedParsers, tmp_path: Path) -> None:
    import io

    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    archive = await use(engine)
    await asyncio.to_thread(engine.close)
    home = tmp_path / "restored"
    backup.restore_backup(io.BytesIO(archive), home)
    assert find_public_paths(home) == {}


def test_files_written_by_commands_are_private(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "all.tar"
    shell = Shell({"KNOWLEDGE_EMBEDDING": "none"})
    shell.run_ok("note", "Tea is at four.", "--data", data)
    shell.run_ok("backup", target, "--data", data)
    assert find_public_paths(data) == {} and stat.S_IMODE(target.stat().st_mode) == 0o600
    assert cli.name


UMASK = """
import os, sys
from knowledge.surfaces.cli import cli
os.umask(0o022)
cli(["note", "Tea is at four.", "--data", sys.argv[1]], standalone_mode=False)
print(oct(os.umask(0o022)))
"""


def test_a_command_leaves_the_umask_as_it_was(tmp_path: Path) -> None:
    """Runs in a separate process, because an engine of another test may hold the umask of this one."""
    command = [sys.executable, "-c", UMASK, str(tmp_path / "data")]
    environment = {**os.environ, "KNOWLEDGE_EMBEDDING": "none"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0o22"


KILLED = """
import asyncio, sys
from pathlib import Path
from knowledge.config import Settings
from knowledge.model import NewNote
from knowledge.testing import make_test_engine
engine = make_test_engine(Settings(data=Path(sys.argv[1]), workers=1))
engine.start()
async def main():
    await engine.wait((await engine.add(NewNote(text="tea at four"))).id, 30)
    async for piece in (await engine.backup()).pieces: pass
asyncio.run(main())
"""


@pytest.mark.only_sqlite(reason="the killed process has a data folder alone")
async def test_the_copy_of_a_killed_backup_is_deleted_at_the_next_start(
    settings: Settings, parsers: SharedParsers
) -> None:
    environment = {**os.environ, "KNOWLEDGE_FAILPOINT": "backup.member:2"}
    command = [sys.executable, "-c", KILLED, str(settings.data)]
    ended = await asyncio.to_thread(subprocess.run, command, env=environment, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = settings.data.glob("backup-*.db")
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    assert not list(settings.data.glob("backup-*")) and await search_ids(engine, "tea") == [1]
    await asyncio.to_thread(engine.close)
