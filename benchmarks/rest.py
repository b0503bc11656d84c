"""Measures the CPU time of a search over REST and its parts.

    python benchmarks/rest.py [--rounds 15] [--searches 100] [--json FILE]

First the keyword search, beside the engine's own search and an empty FastAPI route: ASGI messages in this process, with
guard and request log but without a socket; medians of the rounds in CPU time of all threads. Then the hybrid search in
a server process with 1,500 notes, by the CPU time of that process; the parts are differences between kinds of requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Scope

from knowledge.app import open_engine
from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import NewNote, Query
from knowledge.surfaces.http.server import wrap_in_guard_and_log
from knowledge.surfaces.rest import make_rest_app
from made_documents import TextMaker
from results import Result, add_json_option, write_results
from server import BenchmarkServer, run_server

HEADERS = [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json"), (b"user-agent", b"benchmark")]
QUESTION = "harbour ledger tide"
NOTE_COUNT, PARAGRAPH = (
    200,
    "The harbour master keeps a ledger of every ship that enters the bay at the hour of the tide. ",
)
SERVER_NOTES = 1500
# Chunks that are not quantized yet; from 1,200 on a product of all their vectors was computed by several threads.
MAX_HYBRID_MS = 8.0

Work = Callable[[], Awaitable[object]]


async def post_over_asgi(app: ASGIApp, path: str, body: bytes) -> bytes:
    """Send a POST request and return the body of the response."""
    scope: Scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": HEADERS,
        "client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 8000),
    }  # fmt: skip
    answer: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        answer.append(message)

    await app(scope, receive, send)
    assert answer[0]["status"] == 200, answer
    return b"".join(message.get("body", b"") for message in answer[1:])


def make_empty_app() -> FastAPI:
    app = FastAPI()

    @app.post("/")
    async def nothing() -> dict[str, str]:
        return {}

    return app


async def measure_cpu_ms(work: Work, times: int) -> float:
    """Return the CPU milliseconds of one call."""
    began = time.process_time()
    for _ in range(times):
        await work()
    return (time.process_time() - began) * 1000 / times


async def add_notes(engine: LocalEngine) -> None:
    jobs = [
        await engine.add(NewNote(text=f"Note {number}. {PARAGRAPH * (number % 7 + 1)}")) for number in range(NOTE_COUNT)
    ]
    for job in jobs:
        await engine.wait(job.id, 120)


async def measure_rest(engine: LocalEngine, settings: Settings, rounds: int, searches: int) -> list[Result]:
    await add_notes(engine)
    app, empty = wrap_in_guard_and_log(make_rest_app(engine), settings), make_empty_app()
    body = json.dumps({"query": QUESTION}).encode()
    works: dict[str, Work] = {
        "engine": lambda: engine.search(Query(text=QUESTION)),
        "REST": lambda: post_over_asgi(app, "/api/v1/search", body),
        "empty": lambda: post_over_asgi(empty, "/", b"{}"),
    }
    found = json.loads(await post_over_asgi(app, "/api/v1/search", body))
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            spent[name].append(await measure_cpu_ms(work, searches))
    engine_ms, rest_ms, empty_ms = (statistics.median(spent[name]) for name in works)
    print(f"keyword search with {found['returned']} hits, CPU ms (median of {rounds} rounds of {searches})")
    print(f"  engine                    {engine_ms:6.2f}")
    print(f"  REST, request to JSON     {rest_ms:6.2f} = {rest_ms - engine_ms:.2f} more; goal: under 1.5 more")
    print(f"  an empty FastAPI route    {empty_ms:6.2f}")
    return [
        Result("keyword search over REST, CPU", rest_ms, "ms", "the engine's own search", engine_ms),
        Result("REST above the engine, CPU", rest_ms - engine_ms, "ms", "empty FastAPI route", empty_ms),
    ]


def measure_server(searches: int) -> list[Result]:
    """Measure requests to a server with the default model, each kind `searches` times."""
    with run_server(KNOWLEDGE_LOG_LEVEL="info") as server:
        fill_server(server)

        def ask(question: str, mode: str) -> None:
            server.http.post("/api/v1/search", json={"query": question, "mode": mode}).raise_for_status()

        def measure(work: Callable[[int], object]) -> float:
            for number in range(-10, 0):
                work(number)
            before = server.cpu_seconds()
            for number in range(searches):
                work(number)
            return (server.cpu_seconds() - before) * 1000 / searches

        empty = measure(lambda _: server.http.get("/health"))
        words = measure(lambda n: ask(f"{QUESTION} {n}", "text"))
        repeated = measure(lambda _: ask(QUESTION, "hybrid"))
        whole = measure(lambda n: ask(f"{QUESTION} {n}", "hybrid"))
    print(f"\nhybrid search over REST, {SERVER_NOTES} chunks, CPU ms of the server (mean of {searches})")
    print(f"  a request without work        {empty:6.2f}")
    print(f"  search by words, JSON         {words - empty:6.2f}")
    print(f"  search by vectors, fusion     {repeated - words:6.2f}")
    print(f"  embedding the question        {whole - repeated:6.2f}")
    print(f"  whole                         {whole:6.2f}; goal: under {MAX_HYBRID_MS}")
    return [Result(f"hybrid search over REST, {SERVER_NOTES:,} chunks, CPU", whole, "ms", "vector cached", repeated)]


def fill_server(server: BenchmarkServer) -> None:
    """Add notes of one sentence and wait until they are embedded."""
    maker = TextMaker()
    notes = [f"Note {number}. {maker.make_sentence()}" for number in range(SERVER_NOTES)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda note: server.http.post("/api/v1/jobs", json={"note": note}).raise_for_status(), notes))
    while True:
        queue = server.http.get("/api/v1/status").json()["queue"]
        if not queue["queued"] + queue["processing"]:
            return
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--searches", type=int, default=100)
    add_json_option(parser)
    options = parser.parse_args()
    logging.getLogger("knowledge").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder), embedding="none")
        engine = open_engine(settings)
        engine.start()
        try:
            results = asyncio.run(measure_rest(engine, settings, options.rounds, options.searches))
        finally:
            engine.close()
    results += measure_server(options.searches)
    write_results(options.json, results)


if __name__ == "__main__":
    main()
