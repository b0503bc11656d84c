"""Originals go to a bucket with a move, come back with the next one, and are in backups."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.model import Caller
from knowledge.testing import SharedParsers
from tests.moving.conftest import FilledFolder, running
from tests.moving.test_migrate import MOVE_SECONDS, make_shell, require_same
from tests.support.engines import add_note
from tests.support.s3 import BUCKET, SECRET, STRANGER, S3Server


@pytest.fixture
def bucket(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of an empty prefix, with credentials in the environment."""
    for name, value in s3.make_environment().items():
        monkeypatch.setenv(name, value)
    return s3.make_url(tmp_path.name)


async def test_originals_move_into_a_bucket_and_back_into_a_folder(
    folder: FilledFolder, url: str, bucket: str, s3: S3Server, tmp_path: Path, parsers: SharedParsers
) -> None:
    shell = make_shell(folder.data)
    planned = shell.run_json("migrate", "--to", url, "--originals", bucket, "--dry-run")
    left = s3.make_client().list_objects_v2(Bucket=BUCKET, Prefix=tmp_path.name)
    assert left["KeyCount"] == 0 and planned["seconds"] > 0  # what was copied to measure the speed is deleted again
    report = shell.run_json("migrate", "--to", url, "--originals", bucket)
    assert planned["rows"] == report["rows"] and planned["copied_originals"] == report["copied_originals"] == 42
    settings = Settings(data=tmp_path / "server", database_url=url, originals_url=bucket, workers=2)
    with running(settings, parsers) as engine:
        await require_same(engine, folder)
        note = await add_note(engine.as_caller(Caller()), "added to the bucket", title="Bucket")
        archive = b"".join([piece async for piece in (await engine.as_caller(Caller()).backup()).pieces])
        await engine.as_caller(Caller()).remove(note.id)
    (tmp_path / "all.tar").write_bytes(archive)
    make_shell(tmp_path / "restored").run_ok("restore", tmp_path / "all.tar")
    with running(Settings(data=tmp_path / "restored", workers=2), parsers) as engine:
        assert (await engine.as_caller(Caller()).document(note.id)).title == "Bucket"
        assert await engine.as_caller(Caller()).verify() == []

    back = tmp_path / "back"
    away = make_shell(tmp_path / "server", url, KNOWLEDGE_ORIGINALS_URL=bucket)
    assert away.run_json("migrate", "--to", f"folder:{back}")["copied_originals"] == 42
    with running(Settings(data=back, workers=2), parsers) as engine:
        await require_same(engine, folder)


def test_a_killed_copy_to_a_bucket_goes_on_where_it_stopped(
    folder: FilledFolder, url: str, bucket: str, tmp_path: Path
) -> None:
    arguments = ("migrate", "--to", url, "--originals", bucket)
    environment = {**os.environ, "KNOWLEDGE_DATA": str(folder.data), "KNOWLEDGE_FAILPOINT": "move.original:30"}
    command = [sys.executable, "-m", "knowledge", *arguments]
    killed = subprocess.run(command, env=environment, capture_output=True, timeout=MOVE_SECONDS, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert make_shell(folder.data).run_json(*arguments)["copied_originals"] == 42 - 30
    moved = make_shell(tmp_path / "server", url, KNOWLEDGE_ORIGINALS_URL=bucket)
    assert "No problems found" in moved.run_ok("verify")


def test_a_bucket_without_permission_is_a_sentence_and_nothing_is_moved(
    folder: FilledFolder, url: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", STRANGER)
    for dry in ((), ("--dry-run",)):
        refused = make_shell(folder.data).run("migrate", "--to", url, "--originals", bucket, *dry)
        assert refused.exit_code != 0 and BUCKET in refused.output and "denied" in refused.output
        assert SECRET not in refused.output and "Traceback" not in refused.output
    assert make_shell(folder.data).run("status").exit_code == 0
