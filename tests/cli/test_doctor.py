"""`knowledge doctor`: each problem of an installation and its fix."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.embed import model_file
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.cli.commands import doctor
from knowledge.surfaces.cli.commands.doctor import CheckResult, check_status
from tests.support.mounts import READ_ONLY_MOUNT, can_mount, make_mount_command


def the_wrong_one(verdicts: Iterator[CheckResult]) -> CheckResult:
    (wrong,) = [verdict for verdict in verdicts if not verdict.ok]
    assert wrong.says.endswith(".") and wrong.mend
    return wrong


def test_a_damaged_model_file_is_reported(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "model.pack"
    other.write_bytes(b"not the model" * 100)
    monkeypatch.setattr(model_file, "find_model_file", lambda: other)
    assert the_wrong_one(doctor.check_model(settings)).about == "model"
    other.unlink()
    assert the_wrong_one(doctor.check_model(settings)).about == "model"


def test_a_nearly_full_disk_is_reported(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MIN_FREE_BYTES", 1 << 62)
    monkeypatch.setattr(doctor, "LOW_FREE_BYTES", 1 << 62)
    wrong = the_wrong_one(doctor.check_disk_space(settings))
    assert wrong.says.startswith("Only ") and "Free some space" in wrong.mend


def test_a_clock_behind_the_last_change_is_reported(settings: Settings) -> None:
    settings.data.mkdir()
    (settings.data / "knowledge.db").touch()
    assert [verdict.ok for verdict in doctor.check_clock(settings)] == [True]
    tomorrow = time.time() + 86_400
    os.utime(settings.data / "knowledge.db", (tomorrow, tomorrow))
    assert "behind the last change of the database" in the_wrong_one(doctor.check_clock(settings)).says


def test_wrong_and_missing_packages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["click>=99", "numpy", "no-such-package-of-ours", "left-out; sys_platform == 'nowhere'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: needed)
    wrong = [verdict for verdict in doctor.check_versions() if not verdict.ok]
    assert [verdict.says.split()[2] for verdict in wrong] == ["click", "no-such-package-of-ours"]
    assert all("pip install" in verdict.mend for verdict in wrong)


def test_a_file_instead_of_the_data_folder_is_reported(settings: Settings) -> None:
    settings.data.write_text("not a folder")
    assert "--data" in the_wrong_one(doctor.check_data_folder(settings)).mend


@pytest.mark.skipif(not can_mount(), reason="a read-only disk needs a mount of its own")
def test_a_read_only_data_folder_is_reported(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    command = make_mount_command(READ_ONLY_MOUNT, str(data), sys.executable, "-m", "knowledge", "doctor")
    ended = subprocess.run([*command, "--data", str(data)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended
    assert "wrong  data folder:" in ended.stdout and "--data" in ended.stdout


async def test_an_index_behind_the_change_log_is_reported_with_its_fix(local: LocalEngine) -> None:
    status = replace(await local.status(), index_ok=False, issues=("The index is behind its log: the disk is full",))
    wrong = {verdict.about: verdict.mend for verdict in check_status(status) if not verdict.ok}
    assert wrong == {"engine": "knowledge verify", "index": "knowledge reindex"}


@pytest.mark.parametrize(("int8", "arithmetic"), [("on", "int8"), ("off", "float32")])
def test_doctor_says_which_arithmetic_the_model_uses(int8: str, arithmetic: str, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, embedding="default", int8=int8)
    (found,) = [result for result in doctor.check_model(settings) if result.about == "arithmetic"]
    assert found.ok and f"computes in {arithmetic}: KNOWLEDGE_INT8 is {int8}" in found.says
