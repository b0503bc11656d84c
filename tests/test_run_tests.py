"""`make test` distinguishes flaky tests from broken ones and hides no crash and no collection error."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PASSING_TEST = "def test_good() -> None: pass"
FLAKY_TEST = """
from pathlib import Path
def test_flaky() -> None:
    marker = Path(__file__).with_suffix(".seen")
    seen = marker.exists()
    marker.touch()
    assert seen, "the first attempt goes wrong"
"""
BROKEN_TEST = "def test_broken() -> None: assert 2 + 2 == 5"
EXITING_TEST = "import os\ndef test_leaves() -> None: os._exit(1)"
TOMORROW, YESTERDAY = date.today() + timedelta(days=1), date.today() - timedelta(days=1)


def run_folder(folder: Path, *arguments: str, ci: bool = True, **files: str) -> subprocess.CompletedProcess[str]:
    """Write tests into a folder and run them like `make test`."""
    (folder / "tests").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    for name, text in files.items():
        (folder / "tests" / (name.replace("__", "."))).write_text(text)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI"))}
    inherited["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # loading the plugins takes longer than the tests
    return subprocess.run(
        [sys.executable, "-P", str(ROOT / "scripts" / "run_tests.py"), "-p", "no:cacheprovider", *arguments, "tests"],
        cwd=folder, env={**inherited, **({"CI": "true"} if ci else {})}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def make_entry(until: date, test: str = "tests/test_a.py::test_flaky") -> str:
    return f'[[test]]\nid = "{test}"\nreason = "the moon"\nuntil = {until}\n'


def test_a_run_without_failures_runs_once_and_succeeds(tmp_path: Path) -> None:
    ended = run_folder(tmp_path, test_a__py=PASSING_TEST)
    assert (ended.returncode, "FLAKY" in ended.stdout, "again" in ended.stdout) == (0, False, False), ended.stdout


@pytest.mark.parametrize("ci", [True, False])
def test_a_test_that_fails_once_is_printed_as_flaky_and_fails_the_run_in_ci_alone(tmp_path: Path, ci: bool) -> None:
    ended = run_folder(tmp_path, ci=ci, test_a__py=FLAKY_TEST, test_b__py=PASSING_TEST)
    assert ended.returncode == (1 if ci else 0), ended.stdout
    assert "FLAKY tests/test_a.py::test_flaky\n" in ended.stdout
    flaky = ended.stdout.partition("FLAKY tests")[2]
    assert "AssertionError: the first attempt goes wrong" in flaky
    assert "1 FLAKY, 1 of them not listed" in flaky


def test_a_flaky_test_that_is_listed_is_printed_with_its_reason_and_excused(tmp_path: Path) -> None:
    ended = run_folder(tmp_path, test_a__py=FLAKY_TEST, flaky__toml=make_entry(TOMORROW))
    assert ended.returncode == 0, ended.stdout
    assert "FLAKY tests/test_a.py::test_flaky (listed: the moon)" in ended.stdout


def test_an_expired_entry_excuses_nothing(tmp_path: Path) -> None:
    ended = run_folder(tmp_path, test_a__py=FLAKY_TEST, flaky__toml=make_entry(YESTERDAY))
    assert ended.returncode == 1, ended.stdout
    assert f"the entry of tests/test_a.py::test_flaky ended on {YESTERDAY}" in ended.stdout


def test_an_entry_without_parameters_applies_to_all_of_them(tmp_path: Path) -> None:
    many = FLAKY_TEST.replace("def test_flaky()", "def test_flaky(number: int)")
    many = f"import pytest\n{many}".replace("def test", '@pytest.mark.parametrize("number", [1])\ndef test')
    ended = run_folder(tmp_path, test_a__py=many, flaky__toml=make_entry(TOMORROW))
    assert ended.returncode == 0, ended.stdout
    assert "FLAKY tests/test_a.py::test_flaky[1] (listed: the moon)" in ended.stdout


@pytest.mark.parametrize("ci", [True, False])
def test_a_test_that_fails_twice_fails_the_run_even_when_it_is_listed(tmp_path: Path, ci: bool) -> None:
    entry = make_entry(TOMORROW, "tests/test_b.py::test_broken")
    ended = run_folder(tmp_path, ci=ci, test_a__py=FLAKY_TEST, test_b__py=BROKEN_TEST, flaky__toml=entry)
    assert ended.returncode == 1, ended.stdout
    assert "FAILED TWICE tests/test_b.py::test_broken" in ended.stdout
    assert "FLAKY tests/test_a.py::test_flaky" in ended.stdout


def test_a_worker_that_crashes_fails_the_run_although_its_test_might_pass_alone(tmp_path: Path) -> None:
    once = FLAKY_TEST.replace('assert seen, "the first attempt goes wrong"', "import os\n    seen or os._exit(1)")
    ended = run_folder(tmp_path, "-p", "xdist.plugin", "-n", "1", ci=False, test_a__py=once)
    assert ended.returncode == 1, ended.stdout
    assert "CRASHED tests/test_a.py::test_flaky" in ended.stdout


def test_a_run_that_ends_without_a_report_fails(tmp_path: Path) -> None:
    assert run_folder(tmp_path, ci=False, test_a__py=EXITING_TEST).returncode == 1


def test_a_file_that_cannot_be_collected_fails_the_run(tmp_path: Path) -> None:
    ended = run_folder(tmp_path, ci=False, test_a__py=FLAKY_TEST, test_b__py="import nothing_of_this_name")
    assert ended.returncode not in (0, 5), ended.stdout
    assert "FLAKY" not in ended.stdout


def test_many_failures_are_not_run_again(tmp_path: Path) -> None:
    many = "import pytest\n@pytest.mark.parametrize('n', range(21))\ndef test_a(n: int) -> None: assert False"
    ended = run_folder(tmp_path, ci=False, test_a__py=many)
    assert ended.returncode == 1, ended.stdout
    assert "21 tests failed; none is run again." in ended.stdout


def test_every_listed_test_exists() -> None:
    import tomllib

    entries = tomllib.loads((ROOT / "tests" / "flaky.toml").read_text("utf-8")).get("test", [])
    assert [entry["id"] for entry in entries if not is_test(entry["id"])] == []
    assert [entry["id"] for entry in entries if not (entry["reason"] and isinstance(entry["until"], date))] == []


def is_test(test: str) -> bool:
    path, _, name = test.partition("::")
    return f"def {name.partition('[')[0]}(" in (ROOT / path).read_text("utf-8")
