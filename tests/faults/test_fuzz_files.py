"""Mutated documents of every format: the server keeps running, each file has an outcome, and nothing is left."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from knowledge.extract.formats import FORMATS
from tests.faults.fuzz_files import SEED_VARIABLE, FuzzedServer, Report, fuzz_server, make_mutants, make_originals

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and processes are read from /proc")
SEED = int(os.environ.get(SEED_VARIABLE, "20261117"))
MAX_GROWTH_MB = 220
"""Growth of the server process after its first document; its index grows with the text."""
MAX_LATE_GROWTH_MB = 60
"""Growth in the second half of the files, when all modules are loaded."""


async def run_fuzzer(folder: Path, count: int) -> Report:
    server = FuzzedServer(folder)
    try:
        report = await fuzz_server(server, SEED, count)
    finally:
        code = server.stop()
    print(report)
    if code != 0:
        report.problems.append(f"the server ended with {code}")
    if left := [path for path in server.temporary.rglob("*") if path.is_file()]:
        report.problems.append(f"temporary files after the end: {left}")
    if left_running := [pid for pid in report.permanent_processes if Path(f"/proc/{pid}").exists()]:
        report.problems.append(f"processes after the end: {left_running}")
    return report


def check_report(report: Report, count: int) -> None:
    assert not report.problems, str(report)
    assert report.outcomes.total() == count
    assert report.outcomes["completed"] > count // 10, "too few mutated files can be parsed"
    assert report.memory[-1] - report.memory[0] < MAX_GROWTH_MB, str(report)
    assert report.memory[-1] - report.memory[len(report.memory) // 2] < MAX_LATE_GROWTH_MB, str(report)


async def test_two_hundred_damaged_files_each_have_an_outcome_and_leave_nothing(tmp_path: Path) -> None:
    check_report(await run_fuzzer(tmp_path, 200), 200)


@pytest.mark.long
async def test_five_thousand_damaged_files_each_have_an_outcome_and_leave_nothing(tmp_path: Path) -> None:
    check_report(await run_fuzzer(tmp_path, 5_000), 5_000)


def test_the_fuzzer_has_a_document_of_every_format() -> None:
    modules = {format_.module for format_ in FORMATS if format_.doc_type in make_originals()}
    assert modules == {format_.module for format_ in FORMATS}
    assert {format_.doc_type for format_ in FORMATS if format_.module != "text.source_code"} <= make_originals().keys()


def test_the_same_seed_makes_the_same_files() -> None:
    assert list(make_mutants(7, 50)) == list(make_mutants(7, 50)) != list(make_mutants(8, 50))
