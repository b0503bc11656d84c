"""The default installation needs no other program, no network and no file in the home folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from knowledge.extract.base import Source
from knowledge.extract.formats import FORMATS
from knowledge.extract.process.parsers import Parsers
from knowledge.surfaces.web.assets import Assets
from tests.data.extract.samples import SAMPLES

ROOT = Path(__file__).parents[1]
STATIC_FOLDER = "knowledge/surfaces/web/static/"
AUDITED_PROGRAM = """
import sys

def refuse_outside_access(event, arguments):
    if event in ("os.system", "os.exec", "os.posix_spawn") or event.startswith(("socket.getaddr", "socket.gethost")):
        raise PermissionError(f"{event} {arguments}")
    if event == "subprocess.Popen" and arguments[0] != sys.executable:
        raise PermissionError(f"the program {arguments[0]}")
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in ("127.0.0.1", "::1"):
        raise PermissionError(f"the address {arguments[1]}")

sys.addaudithook(refuse_outside_access)
from knowledge.__main__ import main
main()
"""


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, with an empty PATH."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(home))
    for name in [name for name in os.environ if name.startswith(("TESSDATA", "HF_", "XDG_"))]:
        monkeypatch.delenv(name)
    return home


def test_there_is_a_sample_of_every_format() -> None:
    assert set(SAMPLES) == {format_.doc_type for format_ in FORMATS if format_.module != "text.source_code"}


def test_every_format_is_read_with_nothing_but_what_pip_installed(empty_home: Path, tmp_path: Path) -> None:
    """The parsers can open no socket and start no program; on Linux the sandbox enforces it."""
    lengths = {}
    with Parsers() as parsers:
        for kind, make in [*SAMPLES.items(), ("pdf", SAMPLES["pdf"])]:
            path = tmp_path / f"sample.{kind}"
            path.write_bytes(make())
            with parsers.parse(Source(path, path.name, force_ocr=kind in lengths)) as parsing:
                lengths[kind] = sum(len(page.text) for page in parsing)
    assert {kind for kind, length in lengths.items() if length < len("costs twelve")} == set()
    assert list(empty_home.iterdir()) == []


def test_adding_and_searching_need_no_network_and_no_program(empty_home: Path, tmp_path: Path) -> None:
    path = tmp_path / "harbour.docx"
    path.write_bytes(SAMPLES["docx"]())

    def run_command(*arguments: str) -> str:
        command = [sys.executable, "-c", AUDITED_PROGRAM, *arguments, "--data", str(tmp_path / "data")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run_command("add", str(path))
    assert "Tea costs twelve." in run_command("search", "how expensive is a hot drink", "--json")


def test_the_wheel_contains_every_file_of_the_web_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(STATIC_FOLDER)]
        packed = {name.removeprefix(STATIC_FOLDER): archive.read(name) for name in names}
    assert packed == {name: asset.plain for name, asset in Assets.read_package().by_name.items()}
    assert {"index.html", "app.js", "app.css", "pages/search.js", "words/en.js"} <= packed.keys()
