"""Measures the CPU time of a start until the first answer, beside importing the libraries alone.

Over HTTP that is /health, beside FastAPI and the MCP SDK; over stdio it is `initialize`, beside the MCP SDK.

python benchmarks/start.py [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import Result, add_json_option, write_results
from server import BenchmarkServer, read_cpu_seconds, run_server

FLOOR_PROGRAM = "import fastapi, uvicorn; from mcp.server.lowlevel.server import Server"

STDIO_FLOOR_PROGRAM = "import mcp"


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
    stdio_floor = statistics.median(measure_cpu([sys.executable, "-c", STDIO_FLOOR_PROGRAM]) for _ in range(rounds))
    with tempfile.TemporaryDirectory() as folder:
        stdio = statistics.median(measure_initialize(Path(folder) / "data") for _ in range(rounds))
    print(f"importing the MCP SDK               {stdio_floor:.2f} CPU s")
    print(f"stdio until initialize is answered  {stdio:.2f} CPU s = {stdio / stdio_floor:.2f} times; goal: under 1.2 s")
    results = [
        Result("start until /health answers, CPU", start, "s", "import FastAPI and MCP SDK", floor),
        Result("stdio until initialize is answered, CPU", stdio, "s", "import MCP SDK", stdio_floor),
        Result("model loaded after /health, wall clock", first, "s"),
    ]
    write_results(options.json, results)


def measure_cpu(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_initialize(data: Path) -> float:
    """Return the CPU seconds that a stdio server has used when it answers `initialize`."""
    command = [sys.executable, "-m", "knowledge", "serve", "--transport", "stdio", "--data", str(data)]
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert b"result" in process.stdout.readline()
        seconds = read_cpu_seconds(process.pid)
        process.stdin.close()
    return seconds


def measure_first_vector(server: BenchmarkServer) -> float:
    began = time.perf_counter()
    while not server.http.get("/api/v1/status").json()["model"]["loaded"]:
        time.sleep(0.01)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
