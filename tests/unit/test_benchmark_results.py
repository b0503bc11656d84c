"""Collecting the rows of benchmarks and printing them as one table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import run_all
from results import Result, format_table, read_results, write_results
from run_all import BENCHMARKS, FOLDER, Benchmark, run_benchmark, run_command


def test_results_survive_the_file_between_two_processes(tmp_path: Path) -> None:
    first, second = Result("start", 1.5, "s", "imports", 1.0), Result("memory", 144, "bytes")
    write_results(tmp_path / "rows", [first])
    write_results(tmp_path / "rows", [second])
    assert read_results(tmp_path / "rows") == [first, second]
    write_results(None, [first])
    assert read_results(tmp_path / "missing") == []


@pytest.mark.parametrize(("result", "cells"), [
    (Result("start", 1.5, "s", "imports", 1.0), ["start", "1.50 s", "imports: 1.00 s", "1.50", "`x.py`"]),
    (Result("search", 12.34, "ms", "FastMCP"), ["search", "12.3 ms", "FastMCP: not installed", "", "`x.py`"]),
    (Result("search", 1.0, "ms", "Edge", None, "timed out"), ["search", "1.00 ms", "Edge: timed out", "", "`x.py`"]),
    (Result("memory", 1444, "bytes"), ["memory", "1,444 bytes", "", "", "`x.py`"]),
    (Result("expectations", 99, "", "all", 100), ["expectations", "99", "all: 100", "0.99", "`x.py`"]),
    (Result("nDCG@10", 0.8546, ""), ["nDCG@10", "0.855", "", "", "`x.py`"]),
])  # fmt: skip
def test_a_result_becomes_one_row(result: Result, cells: list[str]) -> None:
    assert result.to_cells("x.py") == cells


def test_the_table_is_aligned_markdown() -> None:
    lines = format_table([["start", "1.5 s", "imports: 1 s", "1.50", "`start.py`"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == [
        "what",
        "ours",
        "beside it",
        "ratio",
        "command",
    ]
    assert lines[2].startswith("| start | 1.5 s | imports: 1 s | 1.50")


def test_a_benchmark_that_fails_keeps_its_rows_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run_all, "FOLDER", tmp_path)
    script = "import sys; open(sys.argv[sys.argv.index('--json') + 1], 'w').write(ROW); sys.exit(3)"
    (tmp_path / "broken.py").write_text('ROW = \'{"what": "a", "ours": 2.0, "unit": "s"}\'\n' + script)
    rows, passed = run_benchmark(Benchmark("broken.py", ("--small",)))
    assert not passed
    assert rows == [
        ["a", "2.00 s", "", "", "`benchmarks/broken.py --small`"],
        ["broken.py", "failed with exit status 3", "", "", "`benchmarks/broken.py --small`"],
    ]


def test_a_benchmark_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_all, "TIMEOUT_SECONDS", 0.2)
    assert run_command([sys.executable, "-c", "import time; time.sleep(60)"]) == "timed out after 0.2 s"


def test_every_benchmark_of_the_list_exists_and_writes_rows() -> None:
    for benchmark in BENCHMARKS:
        assert "add_json_option(" in (FOLDER / benchmark.script).read_text(), benchmark.script
