"""Measures the overhead of a crawl: a local site, crawled by the engine and fetched by a plain loop.

    python benchmarks/crawl.py [--pages 100] [--paragraphs 6] [--json FILE]

The loop fetches, extracts, splits and embeds each page in this process, without jobs, child processes, store, index and
politeness. The crawl includes all of them, with the CPU time of its child processes. The web server of the site runs in
a separate process that is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from made_documents import TextMaker
from results import Result, add_json_option, write_results

SITE_PROGRAM = """
import http.server, sys
class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Quiet(*a, directory=sys.argv[1]))
print(server.server_address[1], flush=True)
server.serve_forever()
"""
SITE_PIDS: set[int] = set()


@dataclass(frozen=True)
class Cost:
    cpu: float
    wall: float
    passages: int


def write_site(folder: Path, pages: int, paragraphs: int) -> None:
    """Write pages of generated text, all linked from the first."""
    maker = TextMaker()
    for number in range(pages):
        links = (
            "".join(f'<a href="/{other}.html">page {other}</a> ' for other in range(1, pages)) if number == 0 else ""
        )
        parts = "".join(
            f"<h2>Part {part} of {number}</h2><p>{maker.make_paragraph()}</p>" for part in range(paragraphs)
        )
        name = "index" if number == 0 else str(number)
        navigation = (
            "<nav>" + "".join(f'<a href="/{item}.html">{item}</a>' for item in range(1, min(pages, 10))) + "</nav>"
        )
        html = f"<!doctype html><html lang=en><title>Page {number}</title><body>{navigation}<main>{parts}{links}</main>"
        (folder / f"{name}.html").write_text(html)


@contextmanager
def serve_site(folder: Path) -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", SITE_PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    SITE_PIDS.add(process.pid)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def cpu_seconds() -> float:
    """Return the CPU time of this process and its running and finished children, without the site."""
    own, ended = (resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + sum(map(child_cpu_seconds, find_children()))


def find_children() -> set[int]:
    listed = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    return {int(pid) for line in listed for pid in line} - SITE_PIDS


def child_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a child and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def measure_plain_loop(url: str, folder: Path) -> Cost:
    from knowledge.embed.granite import GraniteEmbedder, load_tokenizer
    from knowledge.extract import formats
    from knowledge.extract.base import Source
    from knowledge.split import Splitter, build_embedding_text

    model, counting = GraniteEmbedder(), load_tokenizer()
    warm = Splitter(counting)
    model.embed(["warm"])
    names = [path.name for path in sorted(folder.glob("*.html"))]
    began, spent, passages = time.perf_counter(), cpu_seconds(), 0
    for name in names:
        with urllib.request.urlopen(f"{url}/{name}") as response:
            data = response.read()
        extracted = formats.extract(Source(folder / name, name, content=data))
        splitter = Splitter(counting)
        pieces = [piece for page in extracted.pages for piece in splitter.feed(page)]
        pieces += splitter.finish()
        model.embed(
            [build_embedding_text(extracted.facts.title or name, piece.section, piece.text) for piece in pieces]
        )
        passages += len(pieces)
    del warm
    return Cost(cpu_seconds() - spent, time.perf_counter() - began, passages)


async def measure_crawls(url: str, pages: int, data: Path) -> tuple[Cost, Cost]:
    """Measure a first crawl, and a second one of the unchanged site."""
    from knowledge import app
    from knowledge.config import Settings

    settings = Settings(data=data, crawl_delay=0, crawl_allow="127.0.0.1")
    engine = app.open_engine(settings)
    began_start = cpu_seconds()
    engine.start()
    try:
        await asyncio.to_thread(engine._parts.models.serving.wait_for_embedder, 60)  # loading is not measured
        await asyncio.to_thread(engine._parts.ingest.warm_up)
        first = await time_crawl(engine, url, pages, None)
        second = await time_crawl(engine, url, pages, first[1])
    finally:
        await asyncio.to_thread(engine.close)
    print(f"(start and stop of the engine: {cpu_seconds() - began_start - first[0].cpu - second[0].cpu:.2f} CPU s)")
    return first[0], second[0]


async def time_crawl(engine: object, url: str, pages: int, collection: int | None) -> tuple[Cost, int]:
    from knowledge.engine.local import LocalEngine
    from knowledge.model.crawls import NewCrawl

    assert isinstance(engine, LocalEngine)
    spent, began = cpu_seconds(), time.perf_counter()
    new = NewCrawl(url=url + "/", recursive=True, max_pages=pages, collection=collection)
    job = await engine.wait((await engine.crawl(new)).id, 600)
    cost = Cost(cpu_seconds() - spent, time.perf_counter() - began, job.chunk_count)
    report = await engine.crawl_report(job.id)
    assert report.counts.crawled == pages, report.counts
    assert report.collection is not None
    return cost, report.collection.id


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--paragraphs", type=int, default=6)
    add_json_option(parser)
    arguments = parser.parse_args()
    os.environ.setdefault("KNOWLEDGE_LOG_LEVEL", "error")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "site"
        folder.mkdir()
        write_site(folder, arguments.pages, arguments.paragraphs)
        with serve_site(folder) as url:
            floor = measure_plain_loop(url, folder)
            first, again = asyncio.run(measure_crawls(url, arguments.pages, Path(name) / "data"))
    print(f"{arguments.pages} pages           CPU s   wall s  passages   of the loop")
    for title, cost in (("plain loop", floor), ("crawl", first), ("crawl again", again)):
        print(f"{title:16}{cost.cpu:9.2f}{cost.wall:9.2f}{cost.passages:10}{cost.cpu / floor.cpu:12.2f}x")
    pages = f"{arguments.pages} pages"
    results = [
        Result(f"crawl {pages}, CPU", first.cpu, "s", "plain loop", floor.cpu),
        Result(f"crawl {pages} again, unchanged, CPU", again.cpu, "s", "plain loop", floor.cpu),
    ]
    write_results(arguments.json, results)


if __name__ == "__main__":
    main()
