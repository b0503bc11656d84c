"""What it costs to put something in: how soon a document is accepted, what a note costs until it is found, and how
quickly a question is answered beside an import.

    python benchmarks/accept.py [--writers 32] [--each 20]

The server runs in a process of its own. Times by the clock stand beside one sync of the same disk, measured in the same
run, since that is what acceptance waits for; costs are processor time of the server, read from the system.
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

from server import BenchmarkServer, run_server

PARAGRAPH = (
    "The harbour master keeps a ledger of every ship that enters the bay, with its cargo, its crew and the hour of the "
    "tide. On market days the ledger is read aloud, so that nobody can say that a barrel was landed in secret. "
)

TEN_PARTS = "\n\n".join(f"## Part {number}\n\n{PARAGRAPH * 3}" for number in range(10))
"""A text of ten passages."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--each", type=int, default=20)
    arguments = parser.parse_args()
    sync = measure_sync_ms()
    print(f"one sync of this disk: {sync:.1f} ms (median of 50)\n")
    with run_server() as server:
        wait_for_model(server)
        measure_acceptance(server, arguments.writers, arguments.each, sync)
        wait_for_jobs(server)
        measure_searching(server)
    with run_server(KNOWLEDGE_EMBEDDING="none") as server:
        measure_note_cost(server)
        measure_bulk_import(server)


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


def measure_acceptance(server: BenchmarkServer, writers: int, each: int, sync: float) -> None:
    """Many writers at once; nobody waits for embedding."""
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
    print(f"  p50 {p50:.0f} ms, p95 {p95:.0f} ms = {p95 / sync:.1f} syncs of the disk; reach: p95 under 100 ms")
    print(f"  processor time of the server {cpu:.1f} ms a note, embedding included\n")


def measure_searching(server: BenchmarkServer, questions: int = 200) -> None:
    """Hybrid questions, each another one, alone and beside an import that embeds on all cores."""
    before = server.cpu_seconds()
    alone = time_searches(server, "alone", questions)
    cpu = (server.cpu_seconds() - before) * 1000 / questions
    for number in range(120):
        note = f"# Import {number}\n\n{TEN_PARTS.replace('harbour', f'harbour {number}')}"
        server.http.post("/api/v1/jobs", json={"note": note}).raise_for_status()
    began, chunks = time.perf_counter(), count_passages(server)
    beside = time_searches(server, "beside", questions)
    done = (count_passages(server) - chunks) / (time.perf_counter() - began)
    left = server.http.get("/api/v1/status").json()["queue"]["queued"]
    print(f"a hybrid search over REST, {questions} questions one after the other:")
    print(f"  alone   p50 {find_median(alone):.1f} ms, p95 {find_p95(alone):.1f} ms; processor time {cpu:.1f} ms")
    print(
        f"  beside an import that embeds {done:.0f} passages a second, {left} notes left at the end:"
        f" p50 {find_median(beside):.1f} ms, p95 {find_p95(beside):.1f} ms\n"
    )


def time_searches(server: BenchmarkServer, word: str, questions: int) -> list[float]:
    """What each question took, in milliseconds."""
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


def count_passages(server: BenchmarkServer) -> int:
    return int(server.http.get("/api/v1/status").json()["chunks"])


def measure_note_cost(server: BenchmarkServer, rounds: int = 20) -> None:
    """A note of ten passages, from the call until it is found, without extracting and embedding."""
    costs = []
    for number in range(rounds):
        before = server.cpu_seconds()
        add_note(server, f"# Note {number}\n\n{TEN_PARTS}")
        costs.append((server.cpu_seconds() - before) * 1000)
    chunks = count_passages(server) / rounds
    print(f"a note of {chunks:.0f} passages until it is found, without a model:")
    print(f"  processor time {statistics.median(costs):.0f} ms (median of {rounds}); reach: under 50 ms\n")


def measure_bulk_import(server: BenchmarkServer, documents: int = 200) -> None:
    """Many documents at once."""
    chunks = count_passages(server)
    before = server.cpu_seconds()
    for number in range(documents):
        server.http.post("/api/v1/jobs", json={"note": f"# Bulk {number}\n\n{TEN_PARTS}"}).raise_for_status()
    wait_for_jobs(server)
    cost = (server.cpu_seconds() - before) * 1000
    added = count_passages(server) - chunks
    print(f"in bulk, {documents} notes with {added} passages, without a model:")
    print(f"  processor time {cost / added:.2f} ms a passage; reach: under 2 ms")


def add_note(server: BenchmarkServer, text: str) -> None:
    job = server.http.post("/api/v1/jobs", json={"note": text}).json()["job_id"]
    while server.http.get(f"/api/v1/jobs/{job}").json()["status"] not in ("completed", "partial"):
        time.sleep(0.01)


def wait_for_model(server: BenchmarkServer) -> None:
    """What a start costs is measured elsewhere."""
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
