"""`make run` and `make test` install only packages that are pinned by version and hash."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PLATFORMS = ("x86_64-manylinux_2_34", "aarch64-manylinux_2_28", "aarch64-apple-darwin", "x86_64-pc-windows-msvc")
"""office-oxide has wheels for x86_64 with glibc 2.34 or newer, tesserocr for macOS 15 or newer."""


def read_lock(path: Path) -> dict[str, tuple[Requirement, int]]:
    """Return the pinned packages of a lock file by name, with the number of their hashes."""
    pinned: dict[str, tuple[Requirement, int]] = {}
    for block in path.read_text().replace("\\\n", " ").splitlines():
        requirement = Requirement(HASH.sub("", block).strip())
        pinned[canonicalize_name(requirement.name)] = (requirement, len(HASH.findall(block)))
    return pinned


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_locked_package_has_one_version_and_a_hash(path: Path) -> None:
    assert {
        name: str(requirement)
        for name, (requirement, hashes) in read_lock(path).items()
        if hashes == 0 or not re.fullmatch(r"==[^*,]+", str(requirement.specifier))
    } == {}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_lock_files_name_no_address(path: Path) -> None:
    assert re.findall(r"\S*(?:://|index-url|find-links|@)\S*", path.read_text()) == []


def test_development_uses_the_versions_that_users_run() -> None:
    run, dev = (read_lock(ROOT / "requirements" / f"{name}.txt") for name in ("run", "dev"))
    assert {name: str(run[name][0]) for name in run} == {name: str(dev[name][0]) for name in run if name in dev}


def test_the_lock_satisfies_every_requirement_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    run = read_lock(ROOT / "requirements" / "run.txt")
    needed = [Requirement(line) for line in project["project"]["dependencies"] + project["dependency-groups"]["build"]]
    unmet = []
    for requirement in needed:
        locked = run.get(canonicalize_name(requirement.name))
        if locked is None or not all(requirement.specifier.contains(pin.version) for pin in locked[0].specifier):
            unmet.append(str(requirement))
    assert unmet == []


def test_make_installs_by_hash_and_the_project_without_its_dependencies() -> None:
    """Reads the commands that make would run in a new clone."""
    for target in ("run", "test"):
        planned = subprocess.run(
            ["make", "--always-make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        installs = [line for line in planned.splitlines() if "pip install" in line]
        assert len(installs) >= 2
        assert [
            line for line in installs if "--require-hashes" not in line and "--no-deps --no-build-isolation" not in line
        ] == []


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_locked_package_has_a_wheel_for(platform: str, version: str, tmp_path: Path) -> None:
    subprocess.run(["make", ".venv-tools/.made"], cwd=ROOT, check=True, capture_output=True)
    done = subprocess.run(
        [
            *(ROOT / ".venv-tools/bin/uv", "pip", "compile", "--quiet", "requirements/run.txt", "--no-deps"),
            *("--only-binary", ":all:", "--python-platform", platform, "--python-version", version),
            *("-o", tmp_path / "out.txt"),
        ],
        cwd=ROOT,
        env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": "15.0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_bill_of_materials_lists_every_locked_package_with_its_hashes() -> None:
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True)
    bill = json.loads((ROOT / "dist" / "sbom.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {canonicalize_name(part["name"]): part for part in bill["components"]}
    assert set(listed) == set(read_lock(ROOT / "requirements" / "run.txt"))
    assert all(part["externalReferences"][0]["hashes"] for part in listed.values())
