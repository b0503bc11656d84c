"""Point-in-time recovery with a versioned bucket, with the blocks of docs/how-to/back-up-and-repair.md."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from textwrap import dedent

import psycopg
import pytest

from knowledge.blobs.s3.originals import S3Blobs
from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller, DocumentFilter
from knowledge.testing import SharedParsers
from tests.moving.conftest import running
from tests.moving.test_migrate import make_shell
from tests.support.engines import add_note
from tests.support.postgres import MISSING, PostgresServer, find_binaries, find_unprivileged_id, run_postgres
from tests.support.s3 import S3Server
from tests.support.server_process import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "back-up-and-repair.md"
BUCKET, PREFIX = "versioned", "knowledge/"
DATABASE = "knowledge"


def read_block(heading: str, language: str, **replaced: str) -> str:
    """Return the code block of a section of the page, with the values of its examples replaced."""
    section = PAGE.read_text("utf-8").partition(f"### {heading}\n")[2].partition("\n##")[0]
    [block] = re.findall(rf"^ *```{language}\n(.*?)^ *```$", section, re.DOTALL | re.MULTILINE)
    text = dedent(block)
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def read_settings_block(heading: str, **replaced: str) -> dict[str, str]:
    lines = read_block(heading, "ini", **replaced).splitlines()
    return {name: value.strip("'") for name, _, value in (line.partition(" = ") for line in lines)}


PREPARE, GO_BACK = "Prepare point-in-time recovery, with a bucket", "Go back to a point in time"


class Recovery:
    """The steps of the page on this machine."""

    def __init__(self, folder: Path, s3: S3Server, binaries: Path) -> None:
        self.folder, self._s3, self._binaries = folder, s3, binaries
        self.environment = {**s3.make_environment(), "AWS_ENDPOINT_URL": s3.endpoint}
        self.originals_url = s3.make_url(PREFIX.strip("/"), bucket=BUCKET)
        self.safe = Path(tempfile.mkdtemp(prefix="knowledge-safe-"))  # PostgreSQL runs as another user and writes here
        (self.safe / "wal").mkdir()
        for made in (self.safe, self.safe / "wal"):
            give_to_postgres(made)
        documented = read_settings_block(PREPARE, **{"/mnt/safe": str(self.safe)})
        self.archiving = {**documented, "max_wal_senders": "4"}  # a default of PostgreSQL that the fixture turns off

    def run_python(self, heading: str, **replaced: str) -> None:
        script = read_block(heading, "python", **{"my-bucket": BUCKET}, **replaced)
        subprocess.run([sys.executable, "-c", script], env=self.environment, check=True, timeout=120)

    def make_base_backup(self, postgres: PostgresServer) -> None:
        url = postgres.make_url("postgres", driver="postgresql")
        example = {"postgresql://knowledge@db.example": url, "/mnt/safe": str(self.safe)}
        command = read_block(PREPARE, "sh", **example)
        subprocess.run(["/bin/sh", "-ec", command], env={"PATH": str(self._binaries)}, check=True, timeout=120)

    @contextmanager
    def go_back(self, time: datetime) -> Iterator[PostgresServer]:
        """Start PostgreSQL from the base backup, as it was at a time."""
        examples = {"/mnt/safe": str(self.safe), "2026-11-18 14:00:00+00:00": time.isoformat(" ")}
        restored = PostgresServer(self._binaries, **self.archiving, **read_settings_block(GO_BACK, **examples))
        try:
            shutil.copytree(self.safe / "base", restored.data)
            (restored.data / "recovery.signal").touch()
            for path in (restored.data.parent, restored.data, *restored.data.rglob("*")):
                give_to_postgres(path)
            restored.start()
            wait_until(lambda: not is_in_recovery(restored))
            yield restored
        finally:
            restored.remove()

    def make_settings(self, url: str) -> Settings:
        return Settings(data=self.folder / "server", database_url=url, originals_url=self.originals_url, workers=2)


def give_to_postgres(path: Path) -> None:
    if path.owner() == "root":
        shutil.chown(path, find_unprivileged_id(), find_unprivileged_id())


def is_in_recovery(postgres: PostgresServer) -> bool:
    with psycopg.connect(postgres.make_url("postgres", driver="postgresql")) as connection:
        [found] = connection.execute("SELECT pg_is_in_recovery()").fetchone() or (True,)
    return bool(found)


def read_time(postgres: PostgresServer) -> datetime:
    """Return the time of the database."""
    with psycopg.connect(postgres.make_url("postgres", driver="postgresql")) as connection:
        [found] = connection.execute("SELECT clock_timestamp()").fetchone() or (None,)
    assert isinstance(found, datetime)
    return found


async def list_titles(engine: LocalEngine) -> set[str]:
    listed = await engine.as_caller(Caller()).documents(DocumentFilter(per_page=100))
    return {document.title for document in listed.items}


def sweep_at_once(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> int:
    """Delete what no document needs, as the sweep does a day later."""
    blobs = engine._parts.files
    assert isinstance(blobs, S3Blobs)
    monkeypatch.setattr(blobs, "_keep_seconds", 0.0)
    return blobs.sweep_unreferenced(engine._parts.documents.is_file_referenced)


async def test_point_in_time_recovery_with_a_versioned_bucket_restores_what_was_removed(
    s3: S3Server, tmp_path: Path, parsers: SharedParsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    binaries = find_binaries()
    if binaries is None or not (binaries / "pg_basebackup").exists():
        pytest.skip(MISSING)
    client = s3.make_client()
    client.create_bucket(Bucket=BUCKET)
    recovery = Recovery(tmp_path, s3, binaries)
    for name, value in recovery.environment.items():
        monkeypatch.setenv(name, value)
    try:
        recovery.run_python(PREPARE)
        assert client.get_bucket_versioning(Bucket=BUCKET)["Status"] == "Enabled"
        with run_postgres(binaries, **recovery.archiving) as postgres:
            postgres.run(f"CREATE DATABASE {DATABASE}")
            with running(recovery.make_settings(postgres.make_url(DATABASE)), parsers) as engine:
                time, removed = await change_before_and_after(engine, postgres, recovery, monkeypatch)
            postgres.run("SELECT pg_switch_wal()")
            wait_until(lambda: is_archived(postgres))
            postgres.kill()
        with recovery.go_back(time) as restored:
            await require_restored(recovery, restored, time, removed, parsers)
    finally:
        shutil.rmtree(recovery.safe, ignore_errors=True)


async def change_before_and_after(
    local: LocalEngine, postgres: PostgresServer, recovery: Recovery, monkeypatch: pytest.MonkeyPatch
) -> tuple[datetime, str]:
    """Change documents around the time to go back to; return it, and the SHA-256 of an original that is deleted."""
    engine = local.as_caller(Caller())
    await add_note(engine, "Assam tea garden", title="Before the base backup")
    recovery.make_base_backup(postgres)
    removed = await add_note(engine, "brew green leaves", title="Removed later")
    await add_note(engine, "river boat harvest", title="After the base backup")
    time = read_time(postgres)
    await add_note(engine, "hills and rain", title="Too late")
    await engine.remove(removed.id)
    assert sweep_at_once(local, monkeypatch) == 1
    assert await list_titles(local) == {"Before the base backup", "After the base backup", "Too late"}
    return time, removed.sha256


async def require_restored(
    recovery: Recovery, postgres: PostgresServer, time: datetime, removed: str, parsers: SharedParsers
) -> None:
    """Follow the last steps of the page, and compare what is there."""
    url = postgres.make_url(DATABASE)
    shell = make_shell(recovery.folder / "server", url, KNOWLEDGE_ORIGINALS_URL=recovery.originals_url)
    delete_index, verify = read_block(GO_BACK, "sh").splitlines()
    assert verify == "knowledge verify"
    subprocess.run(
        ["/bin/sh", "-ec", delete_index], env={"KNOWLEDGE_DATA": str(recovery.folder / "server")}, check=True
    )
    incomplete = await asyncio.to_thread(shell.run, "verify")
    assert incomplete.exit_code == 1 and "Removed later" in incomplete.output
    recovery.run_python(GO_BACK, **{"2026-11-18T14:00:00+00:00": time.isoformat()})
    assert "No problems found" in await asyncio.to_thread(shell.run_ok, "verify")
    with running(recovery.make_settings(url), parsers) as engine:
        titles = {"Before the base backup", "Removed later", "After the base backup"}
        assert await list_titles(engine) == titles
        assert b"".join(engine._parts.files.read(removed)) == b"brew green leaves"
        await add_note(engine.as_caller(Caller()), "a new leaf", title="Afterwards")
        assert await list_titles(engine) == {*titles, "Afterwards"}
        assert await engine.as_caller(Caller()).verify() == []


def is_archived(postgres: PostgresServer) -> bool:
    """Return whether every finished segment of the write-ahead log has been copied."""
    return not [*(postgres.data / "pg_wal" / "archive_status").glob("*.ready")]
