"""Measures the CPU time of a server start until /health answers, beside importing FastAPI and the MCP SDK alone.

python benchmarks/start.py [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import Result, add_json_option, write_results
from server import BenchmarkServer, run_server

FLOOR_PROGRAM = "import fastapi, uvicorn; from mcp.server.lowlevel.server import Server"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    add_json_option(parser)
    options = parser.parse_args()
    rounds = options.rounds
    floor = statistics.median(measure_cpu([sys.executable, "-c", FLOOR_PROGRAM]) for _ in range(rounds))
    starts = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            with run_server(Path(folder) / "data") as server:
                starts.append(server.cpu_seconds())
    start = statistics.median(starts)
    print(f"importing FastAPI and the MCP SDK   {floor:.2f} CPU s")
    print(f"start until /health answers 200     {start:.2f} CPU s = {start / floor:.2f} times; goal: under 1.5 times")
    with run_server() as server:
        first = measure_first_vector(server)
    print(f"first vector after that             {first:.2f} s (wall clock); goal: within a second")
    results = [
        Result("start until /health answers, CPU", start, "s", "import FastAPI and MCP SDK", floor),
        Result("model loaded after /health, wall clock", first, "s"),
    ]
    write_results(options.json, results)


def measure_cpu(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_first_vector(server: BenchmarkServer) -> float:
    began = time.perf_counter()
    while not server.http.get("/api/v1/status").json()["model"]["loaded"]:
        time.sleep(0.01)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
