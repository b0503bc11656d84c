"""Runs pytest and distinguishes broken tests from flaky ones, which fail once and pass when they run alone.

`python -P scripts/run_tests.py [arguments of pytest]` exits with 1 when a test fails twice, when a worker of xdist
crashes and, in CI (the variable CI is set), when a flaky test is not listed in tests/flaky.toml.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

import pytest

FLAKY_LIST = Path("tests/flaky.toml")
MAX_RERUN_TESTS = 20
"""With more failures nothing is run again, because the code is broken."""
TRACEBACK_LINES = 20
CRASHED = "???"
"""The phase that xdist reports for a test whose worker process crashed."""
RECORD_OPTION = "--record-outcomes"


@dataclass(slots=True)
class Outcomes:
    """The outcomes of one run of pytest."""

    failed: dict[str, str] = field(default_factory=dict)
    """Tests that failed in any phase, with the traceback of the first failure."""
    passed: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    """Tests during which a worker process crashed."""
    uncollected: list[str] = field(default_factory=list)
    """Files that could not be collected."""


class Recorder:
    """A pytest plugin that writes the outcomes of a run to a file; with xdist it runs in the controller."""

    def __init__(self, path: Path) -> None:
        self._path, self._outcomes = path, Outcomes()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._outcomes.failed.setdefault(report.nodeid, report.longreprtext)
            if report.when == CRASHED:
                self._outcomes.crashed.append(report.nodeid)
        elif report.passed and report.when == "call":
            self._outcomes.passed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._outcomes.uncollected.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(asdict(self._outcomes)), "utf-8")


def run_pytest(arguments: Sequence[str]) -> tuple[int, Outcomes]:
    """Run pytest in a child process and return its exit code and outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcomes.json"
        command = [sys.executable, "-P", __file__, RECORD_OPTION, str(path), *arguments]
        code = subprocess.run(command, check=False).returncode
        return code, Outcomes(**json.loads(path.read_text("utf-8"))) if path.exists() else Outcomes()


def read_flaky_list(path: Path) -> dict[str, tuple[str, date]]:
    """Return the reason and the last excused day of each test that is known to be flaky."""
    if not path.exists():
        return {}
    entries = tomllib.loads(path.read_text("utf-8")).get("test", [])
    return {entry["id"]: (entry["reason"], entry["until"]) for entry in entries}


def find_reason(test: str, listed: Mapping[str, tuple[str, date]], today: date) -> str | None:
    """Return the reason that excuses a flaky test; an entry without parameters applies to all of them."""
    for name in (test, test.partition("[")[0]):
        if name in listed and listed[name][1] >= today:
            return listed[name][0]
    return None


def is_ci(environment: Mapping[str, str]) -> bool:
    return environment.get("CI", "").lower() not in ("", "0", "false", "no")


def summarize(text: str) -> str:
    lines = text.strip().splitlines()
    return "\n".join(f"    {line}" for line in lines[-TRACEBACK_LINES:])


def report_flaky(flaky: Mapping[str, str], listed: Mapping[str, tuple[str, date]]) -> list[str]:
    """Print the flaky tests and return those that are not excused."""
    unlisted = []
    for test, traceback in flaky.items():
        reason = find_reason(test, listed, date.today())
        print(f"\nFLAKY {test}" + (f" (listed: {reason})" if reason else ""))
        print("  It failed, and passed when it ran alone. The first failure:")
        print(summarize(traceback))
        if reason is None:
            unlisted.append(test)
    return unlisted


def run_tests(arguments: Sequence[str], environment: Mapping[str, str], listed_path: Path) -> int:
    listed = read_flaky_list(listed_path)
    for test, (_, until) in listed.items():
        if until < date.today():
            print(f"{listed_path}: the entry of {test} ended on {until}; remove it, or fix the test")
    code, first = run_pytest(arguments)
    if code != pytest.ExitCode.TESTS_FAILED or not first.failed:
        return code
    if first.crashed or first.uncollected:
        for name in first.crashed:
            print(f"\nCRASHED {name}: a worker process ended while it ran")
        return code
    if len(first.failed) > MAX_RERUN_TESTS:
        print(f"\n{len(first.failed)} tests failed; none is run again.")
        return code
    print(f"\nRunning {len(first.failed)} failed tests again, one after the other.", flush=True)
    code, again = run_pytest(["-p", "no:xdist", *first.failed])
    flaky = {test: text for test, text in first.failed.items() if test in again.passed and test not in again.failed}
    unlisted = report_flaky(flaky, listed)
    for test in first.failed:
        if test not in flaky:
            print(f"\nFAILED TWICE {test}")
    if code or len(flaky) < len(first.failed):
        return code or pytest.ExitCode.TESTS_FAILED
    print(f"\n{len(flaky)} FLAKY, {len(unlisted)} of them not listed in {listed_path}.")
    if unlisted and is_ci(environment):
        print("A flaky test is a bug: fix it, or list it with a reason.")
        return pytest.ExitCode.TESTS_FAILED
    return 0


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == [RECORD_OPTION]:
        return pytest.main(arguments[2:], plugins=[Recorder(Path(arguments[1]))])
    return run_tests(arguments, os.environ, FLAKY_LIST)


if __name__ == "__main__":
    sys.exit(main())
