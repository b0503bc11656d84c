"""Measures ingestion over REST: latency of accepting a note, CPU time until it is searchable, search during an import.

    python benchmarks/accept.py [--writers 32] [--each 20] [--json FILE]

The server runs in a separate process. Latencies are compared with one fsync of the same disk, because accepting waits
for two; costs are CPU time of the server, from /proc.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from urllib.parse import urlsplit

from results import Result, add_json_option, write_results
from server import BenchmarkServer, run_server

PARAGRAPH = (
    "The harbour master keeps a ledger of every ship that enters the bay, with its cargo, its crew and the hour of the "
    "tide. On market days the ledger is read aloud, so that nobody can say that a barrel was landed in secret. "
)

TEN_PARTS = "\n\n".join(f"## Part {number}\n\n{PARAGRAPH * 3}" for number in range(10))
"""A text of ten chunks."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--each", type=int, default=20)
    add_json_option(parser)
    arguments = parser.parse_args()
    sync = measure_sync_ms()
    print(f"one fsync of this disk: {sync:.1f} ms (median of 50)\n")
    with run_server() as server:
        wait_for_model(server)
        results = measure_acceptance(server, arguments.writers, arguments.each, sync)
        wait_for_jobs(server)
        results += measure_searching(server)
    with run_server(KNOWLEDGE_EMBEDDING="none") as server:
        results += [measure_note_cost(server), measure_bulk_import(server)]
    write_results(arguments.json, results)


def measure_sync_ms() -> float:
    with tempfile.NamedTemporaryFile() as file:
        times = []
        for _ in range(50):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def measure_acceptance(server: BenchmarkServer, writers: int, each: int, sync: float) -> list[Result]:
    """Add notes from many concurrent writers; a request does not wait for embedding."""
    times: list[float] = []
    lock = threading.Lock()
    ready = threading.Barrier(writers)

    def write(number: int) -> None:
        address = urlsplit(server.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
        connection.connect()
        mine = []
        ready.wait()
        for step in range(each):
            body = json.dumps({"note": f"Note {step} of writer {number}. {PARAGRAPH}"})
            began = time.perf_counter()
            connection.request("POST", "/api/v1/jobs", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            mine.append((time.perf_counter() - began) * 1000)
            assert answer.status == 202
        with lock:
            times.extend(mine)

    before = server.cpu_seconds()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu = (server.cpu_seconds() - before) * 1000 / len(times)
    times.sort()
    p50, p95 = find_median(times), find_p95(times)
    print(f"accepting a note, {writers} writers, {len(times)} notes, while the first ones are being embedded:")
    print(f"  p50 {p50:.0f} ms, p95 {p95:.0f} ms = {p95 / sync:.1f} times one fsync; goal: p95 under 100 ms")
    print(f"  CPU time of the server {cpu:.1f} ms per note, embedding included\n")
    return [
        Result(f"accept a note, {writers} writers, p95", p95, "ms", "one fsync", sync),
        Result(f"accept a note, {writers} writers, CPU", cpu, "ms"),
    ]


def measure_searching(server: BenchmarkServer, questions: int = 200) -> list[Result]:
    """Run distinct hybrid searches, alone and during an import that embeds on all cores."""
    before = server.cpu_seconds()
    alone = time_searches(server, "alone", questions)
    cpu = (server.cpu_seconds() - before) * 1000 / questions
    for number in range(120):
        note = f"# Import {number}\n\n{TEN_PARTS.replace('harbour', f'harbour {number}')}"
        server.http.post("/api/v1/jobs", json={"note": note}).raise_for_status()
    began, chunks = time.perf_counter(), count_chunks(server)
    during = time_searches(server, "during", questions)
    done = (count_chunks(server) - chunks) / (time.perf_counter() - began)
    left = server.http.get("/api/v1/status").json()["queue"]["queued"]
    print(f"hybrid search over REST, {questions} sequential queries:")
    print(f"  alone   p50 {find_median(alone):.1f} ms, p95 {find_p95(alone):.1f} ms; CPU time {cpu:.1f} ms")
    print(
        f"  during an import of {done:.0f} chunks/s, {left} notes left at the end:"
        f" p50 {find_median(during):.1f} ms, p95 {find_p95(during):.1f} ms\n"
    )
    return [
        Result("hybrid search over REST, CPU", cpu, "ms"),
        Result("hybrid search during an import, p95", find_p95(during), "ms", "without import", find_p95(alone)),
    ]


def time_searches(server: BenchmarkServer, word: str, questions: int) -> list[float]:
    """Return the sorted latencies in milliseconds."""
    times = []
    for number in range(questions):
        question = f"who reads the {word} ledger of ship {number} aloud on market days"
        began = time.perf_counter()
        server.http.post("/api/v1/search", json={"query": question}).raise_for_status()
        times.append((time.perf_counter() - began) * 1000)
    return sorted(times)


def find_median(times: list[float]) -> float:
    return times[len(times) // 2]


def find_p95(times: list[float]) -> float:
    return times[int(0.95 * len(times))]


def count_chunks(server: BenchmarkServer) -> int:
    return int(server.http.get("/api/v1/status").json()["chunks"])


def measure_note_cost(server: BenchmarkServer, rounds: int = 20) -> Result:
    """Measure the CPU time of a note of ten chunks until it is searchable, without embedding."""
    costs = []
    for number in range(rounds):
        before = server.cpu_seconds()
        add_note(server, f"# Note {number}\n\n{TEN_PARTS}")
        costs.append((server.cpu_seconds() - before) * 1000)
    chunks, cost = count_chunks(server) / rounds, statistics.median(costs)
    print(f"a note of {chunks:.0f} chunks until it is searchable, without a model:")
    print(f"  CPU time {cost:.0f} ms (median of {rounds}); goal: under 50 ms\n")
    return Result(f"note of {chunks:.0f} chunks until searchable, no model, CPU", cost, "ms")


def measure_bulk_import(server: BenchmarkServer, documents: int = 200) -> Result:
    """Measure the CPU time per chunk of an import of many documents."""
    chunks = count_chunks(server)
    before = server.cpu_seconds()
    for number in range(documents):
        server.http.post("/api/v1/jobs", json={"note": f"# Bulk {number}\n\n{TEN_PARTS}"}).raise_for_status()
    wait_for_jobs(server)
    cost = (server.cpu_seconds() - before) * 1000
    added = count_chunks(server) - chunks
    print(f"bulk import, {documents} notes with {added} chunks, without a model:")
    print(f"  CPU time {cost / added:.2f} ms per chunk; goal: under 2 ms")
    return Result("bulk import, no model, CPU per chunk", cost / added, "ms")


def add_note(server: BenchmarkServer, text: str) -> None:
    job = server.http.post("/api/v1/jobs", json={"note": text}).json()["job_id"]
    while server.http.get(f"/api/v1/jobs/{job}").json()["status"] not in ("completed", "partial"):
        time.sleep(0.01)


def wait_for_model(server: BenchmarkServer) -> None:
    while not server.http.get("/api/v1/status").json()["model"]["loaded"]:
        time.sleep(0.05)


def wait_for_jobs(server: BenchmarkServer) -> None:
    while True:
        queue = server.http.get("/api/v1/status").json()["queue"]
        if not queue["queued"] + queue["processing"]:
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main()
