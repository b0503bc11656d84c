"""Runs the benchmarks one after the other and prints one table of their results.

    python benchmarks/run_all.py [--peers-python PATH] [--only NAME ...]

Each benchmark runs in a child process with the data that it generates itself. A benchmark that fails or times out
has a row in the table, and the exit status is 1. The whole run takes at most 15 minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from results import format_table, read_results

FOLDER = Path(__file__).parent
TIMEOUT_SECONDS = 420


@dataclass(frozen=True, slots=True)
class Benchmark:
    script: str
    arguments: tuple[str, ...] = ()
    has_peers: bool = False
    """True for a script that accepts --peers-python."""

    @property
    def command(self) -> str:
        return " ".join((f"benchmarks/{self.script}", *self.arguments))


BENCHMARKS = (
    Benchmark("start.py"),
    Benchmark("accept.py"),
    Benchmark("rest.py"),
    Benchmark("search.py", ("--passages", "10000", "--peers", "qdrant-edge", "fts5-numpy"), True),
    Benchmark("search.py", ("--passages", "100000", "--peers", "qdrant-edge", "--peer-timeout", "240"), True),
    Benchmark("ingest.py", ("--chunks", "80"), True),
    Benchmark("extract.py"),
    Benchmark("formats.py"),
    Benchmark("crawl.py"),
    Benchmark("mcp_call.py", ("--rounds", "13")),
    Benchmark("agent_tasks.py"),
    Benchmark("charset.py"),
    Benchmark("quality.py", ("--modes", "text,vector,hybrid")),
    Benchmark("alternatives.py", ("--passages", "20000"), True),
)


def run_benchmark(benchmark: Benchmark, peers_python: str | None = None) -> tuple[list[list[str]], bool]:
    """Run one benchmark; return its table rows, and False if it failed."""
    peers = ["--peers-python", peers_python] if peers_python and benchmark.has_peers else []
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "results.jsonl"
        command = [sys.executable, str(FOLDER / benchmark.script), *benchmark.arguments, *peers, "--json", str(output)]
        failure = run_command(command)
        rows = [result.to_cells(benchmark.command) for result in read_results(output)]
    if failure:
        rows.append([benchmark.script, failure, "", "", f"`{benchmark.command}`"])
    return rows, not failure


def run_command(command: Sequence[str]) -> str:
    """Run a command; return why it failed, or an empty string."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        status = process.wait(TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"timed out after {TIMEOUT_SECONDS} s"
    finally:
        if process.poll() is None:  # the servers that it started belong to the same group
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"failed with exit status {status}" if status else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", help="an interpreter with the peers, such as qdrant-edge-py")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of the scripts to run, such as search.py")
    options = parser.parse_args()
    chosen = [one for one in BENCHMARKS if not options.only or one.script in options.only]
    rows: list[list[str]] = []
    passed = True
    began = time.perf_counter()
    for benchmark in chosen:
        print(f"\n== {benchmark.command}", flush=True)
        found, succeeded = run_benchmark(benchmark, options.peers_python)
        rows += found
        passed &= succeeded
    print(f"\n{len(chosen)} benchmarks in {time.perf_counter() - began:.0f} s; ratio = ours / beside it\n")
    print(format_table(rows))
    sys.exit(not passed)


if __name__ == "__main__":
    main()
