"""Measures splitting and embedding, beside sentence-transformers on torch over the same chunks, and words-first adds.

    python benchmarks/ingest.py [FOLDER] [--chunks 300] [--documents 200] [--peers-python PATH] [--json FILE]
                                [--only-embed | --only-import | --only-words-first | --only-batch-shapes]
                                [--data FOLDER] [--notes 300]

FOLDER contains .md and .txt files, or .jsonl files whose lines have a `text`; without it texts are generated. The
peer's interpreter needs torch and sentence-transformers; it embeds the same chunks with the same weights, in float32.
The floor is onnxruntime in float32, one text at a time.

A server process imports generated notes; its memory is that without mapped files (RssAnon), sampled 50 times a second.
large_folder.py makes a data folder with many chunks for --data.

Batch shapes: the same chunks, of a few tokens up to the whole window, are embedded in batches of at most so many
tokens, each shape in a process of its own.

Small documents are added over REST to a server whose model is loaded. The time until the first one and until all of
them are found by words is wall time from the first "accepted", with all of the uploads and the embedding beside it. The
floor is the wall time of extraction and splitting alone, by as many workers: the shorter one of two runs, before and
after the adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge.embed.batches import count_cores
from knowledge.embed.cpu_features import has_fast_int8
from knowledge.embed.granite import GraniteEmbedder, Int8Setting, load_tokenizer
from knowledge.embed.loading import ModelChoice, find_tokenizer_spec
from knowledge.engine.ingest.document_reader import ReadOptions, read_document
from knowledge.extract.base import PageText, Source
from knowledge.extract.process.parsers import Parsers
from knowledge.split import SplitPassage, Splitter, build_embedding_text
from made_documents import TextMaker
from peer_model import write_model_folder
from results import NOT_INSTALLED, Result, add_json_option, write_results
from server import BenchmarkServer, run_server

PEER = "sentence-transformers on torch"
QUESTION = "how does incremental indexing of pdf files work"
IMPORTED_NOTES, SAMPLE_SECONDS, IDLE_SECONDS = 300, 0.02, 12.0
MAX_ANONYMOUS_MB = 450
START_PROGRAM = """
import time
from knowledge.embed.loading import ModelChoice, load
from pathlib import Path
import numpy, onnxruntime, tokenizers
imported = time.process_time()
model = load(ModelChoice(cache_folder=Path("."), threads=1, int8={int8!r}))
loaded = time.process_time()
model.embed_question("tea")
print(imported, loaded - imported, time.process_time() - imported)
"""

BATCH_TOKENS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BATCHES_PROGRAM = """
import functools, json, sys, threading, time
from pathlib import Path
from knowledge import malloc
malloc.limit_arenas()
from knowledge.embed import batches
from knowledge.embed.granite import GraniteEmbedder

def read_anonymous_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

def sample():
    while not done.wait(0.005):
        peaks.append(read_anonymous_kb())

chunks = json.load(sys.stdin)
batches.group_by_length = functools.partial(batches.group_by_length, budget={tokens})
model = GraniteEmbedder("auto", {threads})
model.embed(chunks[:8])
before, done, peaks = read_anonymous_kb(), threading.Event(), [0]
sampler = threading.Thread(target=sample)
sampler.start()
spent = time.process_time()
model.embed(chunks)
spent = time.process_time() - spent
done.set()
sampler.join()
print(json.dumps([before / 1024, max(peaks) / 1024, spent]))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    name: str
    wall: float
    cpu: float
    question: float
    """CPU seconds for one query."""


def read_texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".md", ".txt"):
            yield path.read_text(encoding="utf-8", errors="replace")
        elif path.suffix == ".jsonl":
            with path.open(encoding="utf-8") as lines:
                yield from (text for line in lines if (text := json.loads(line).get("text")))


def split_texts(folder: Path, limit: int) -> tuple[list[SplitPassage], float]:
    """Return the first chunks of the texts, and the CPU seconds of splitting per chunk."""
    counting = load_tokenizer()
    list(Splitter(counting).feed(PageText("A sentence. " * 300)))  # warm up
    pieces: list[SplitPassage] = []
    began = time.process_time()
    for text in read_texts(folder):
        splitter = Splitter(counting)
        pieces += [*splitter.feed(PageText(text)), *splitter.finish()]
        if len(pieces) >= limit:
            break
    return pieces[:limit], (time.process_time() - began) / max(len(pieces), 1)


def measure_time(work: Callable[[], object]) -> tuple[float, float]:
    wall, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - spent


def measure_ours(name: str, int8: Int8Setting, chunks: list[str], threads: int) -> Cost:
    model = GraniteEmbedder(int8, threads)
    model.embed(chunks[:8])
    wall, spent = measure_time(lambda: model.embed(chunks))
    _, question = measure_time(lambda: [model.embed_question(QUESTION) for _ in range(20)])
    model.close()
    return Cost(name, wall, spent, question / 20)


def measure_plain(chunks: list[str]) -> Cost:
    """Measure the floor without a peer: one text at a time."""
    model = GraniteEmbedder("off", 1)
    wall, spent = measure_time(lambda: [model.embed_question(chunk) for chunk in chunks])
    _, question = measure_time(lambda: [model.embed_question(QUESTION) for _ in range(20)])
    model.close()
    return Cost("onnxruntime, one by one", wall, spent, question / 20)


def measure_peer(python: str, chunks: list[str], threads: int) -> Cost | None:
    """Measure sentence-transformers with the weights of our model; None if it is not installed."""
    script = Path(__file__).with_name("ingest_peer.py")
    with tempfile.TemporaryDirectory() as folder:
        write_model_folder(Path(folder))
        done = subprocess.run(
            [python, str(script), folder, str(threads)],
            input=json.dumps(chunks),
            capture_output=True,
            text=True,
            check=False,
        )
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        raise SystemExit(f"{script.name} failed with exit status {done.returncode}:\n{done.stderr}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return Cost(PEER, answer["wall"], answer["cpu"], answer["question"])


def measure_start(int8: Int8Setting) -> tuple[float, float, float]:
    """Return the CPU seconds of the imports that a server needs anyway, of loading, and until the first vector."""
    done = subprocess.run(
        [sys.executable, "-c", START_PROGRAM.format(int8=int8)], capture_output=True, text=True, check=True
    )
    imported, loaded, first = map(float, done.stdout.split())
    return imported, loaded, first


def print_table(costs: list[Cost], floor: Cost, chunks: int, tokens: int) -> None:
    print(
        f"{'':34} {'chunks/s':>9} {'tokens/s':>9} {'CPU ms/chunk':>13} {'question ms':>12}   times the floor: time, CPU"
    )
    for cost in [*costs, floor]:
        print(
            f"{cost.name:34} {chunks / cost.wall:9.1f} {tokens / cost.wall:9.0f} {cost.cpu / chunks * 1e3:13.2f}"
            f" {cost.question * 1e3:12.2f} {floor.wall / cost.wall:23.2f} {floor.cpu / cost.cpu:5.2f}"
        )


def make_results(costs: list[Cost], floor: Cost, peer: Cost | None, chunks: int, cores: str) -> list[Result]:
    results = []
    for cost in costs:
        kind = cost.name.removeprefix("ours, ")
        mine = cost.cpu / chunks * 1e3
        results.append(
            Result(f"embed, {cores}, {kind}, CPU per chunk", mine, "ms", floor.name, floor.cpu / chunks * 1e3)
        )
        if cores == "1 core":
            question, other = cost.question * 1e3, floor.question * 1e3
            results.append(Result(f"embed a query, {kind}, CPU", question, "ms", floor.name, other))
        rate, peer_rate = chunks / cost.wall, chunks / peer.wall if peer else None
        peer_cpu = peer.cpu / chunks * 1e3 if peer else None
        results.append(Result(f"embed, {cores}, {kind}, throughput", rate, "chunks/s", PEER, peer_rate))
        results.append(Result(f"embed, {cores}, {kind}, CPU per chunk", mine, "ms", PEER, peer_cpu))
    return results


def measure_import(data: Path | None, count: int) -> list[Result]:
    """Import notes of one or two chunks into a server and measure its memory and throughput."""
    maker = TextMaker(int(time.time()))  # other texts in every run, because a folder may be used again
    notes = [maker.make_markdown(sections=1) for _ in range(count)]
    with run_server(data) as server:
        while not (status := read_status(server))["model"]["loaded"] or status["health"]["issues"]:
            time.sleep(0.05)  # issues: the index of a new folder is being built
        before, start, cpu = read_status(server)["chunks"], server.anonymous_mb(), server.cpu_seconds()
        sampled, stop = [start], threading.Event()
        sampler = threading.Thread(target=sample_memory, args=(server, sampled, stop))
        sampler.start()
        began = time.perf_counter()
        for note in notes:
            server.http.post("/api/v1/jobs", json={"note": note}).raise_for_status()
        while (queue := read_status(server)["queue"])["queued"] + queue["processing"]:
            time.sleep(1.0)  # a status costs the server CPU time too
        wall, cpu = time.perf_counter() - began, server.cpu_seconds() - cpu
        stop.set()
        sampler.join()
        added, total = read_status(server)["chunks"] - before, read_status(server)["chunks"]
        time.sleep(IDLE_SECONDS)
        idle = server.anonymous_mb()
    peak = max(sampled)
    print(f"\nimport of {added} chunks in {count} notes, {total:,} chunks in the index")
    print(f"  {added / wall:.1f} chunks/s, {cpu * 1e3 / added:.1f} CPU ms per chunk")
    print(f"  RssAnon {start:.0f} MB before, peak {peak:.0f}, {idle:.0f} after {IDLE_SECONDS:.0f} idle seconds", end="")
    print(f"; goal: under {MAX_ANONYMOUS_MB}")
    return [Result("import, peak memory of the server", peak, "MB", "before the import", start)]


def sample_memory(server: BenchmarkServer, sampled: list[float], stop: threading.Event) -> None:
    while not stop.wait(SAMPLE_SECONDS):
        sampled.append(server.anonymous_mb())


def read_status(server: BenchmarkServer) -> dict[str, Any]:
    status: dict[str, Any] = server.http.get("/api/v1/status").json()
    return status


# -- batch shapes ---------------------------------------------------------------------------------


def measure_batch_shapes(count: int) -> list[Result]:
    """Measure memory and CPU time of embedding by the largest number of tokens in a batch."""
    maker, threads, results = TextMaker(), count_cores(), []
    texts = [" ".join(maker.make_paragraph() for _ in range(number % 8 + 1)) for number in range(count)]
    lengths = [len(encoding) for encoding in load_tokenizer().encode_batch_fast(texts)]
    print(f"{count} chunks of {min(lengths)} to {max(lengths)} tokens before truncation, {threads} threads")
    print(f"{'tokens per batch':>16} {'RssAnon before':>15} {'peak':>6} {'CPU ms per chunk':>17}")
    for tokens in BATCH_TOKENS:
        program = BATCHES_PROGRAM.format(tokens=tokens, threads=threads)
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
        before, peak, spent = json.loads(done.stdout)
        print(f"{tokens:16} {before:15.0f} {peak:6.0f} {spent / count * 1e3:17.1f}")
        results.append(Result(f"embed in batches of {tokens} tokens, peak memory", peak, "MB", "before", before))
    return results


# -- words first ----------------------------------------------------------------------------------

UPLOADERS = 4
WATCHED_DOCUMENTS = 20
"""Documents accepted last whose words are searched until all of them are found."""


def measure_words_first(documents: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as made, run_server() as server:
        paths = make_small_documents(Path(made), documents)
        while not server.http.get("/api/v1/status").json()["model"]["loaded"]:
            time.sleep(0.05)
        before = read_all(paths)
        first, everything = add_all(server, paths)
        wait_for_jobs(server)  # or the embedding would slow down the floor
        alone = min(before, read_all(paths))
    print(f"\n{documents} small documents, wall time from the first accepted one until they are found by words:")
    print(f"  the first {first:.2f} s (goal: under 2 s), all {everything:.2f} s")
    print(f"  extraction and splitting alone {alone:.2f} s, ratio {everything / alone:.2f} (goal: at most 1.3)")
    return [
        Result(f"first of {documents} small documents found by words, wall", first, "s"),
        Result(f"all {documents} found by words, wall", everything, "s", "extraction and splitting alone", alone),
    ]


def make_small_documents(folder: Path, count: int) -> list[Path]:
    """Write documents of one section; each begins with a word that no other one has."""
    maker, paths = TextMaker(), []
    for number in range(count):
        paths.append(path := folder / f"{number:05}.md")
        path.write_text(f"{make_unique_word(number)}\n\n{maker.make_markdown(sections=1)}", encoding="utf-8")
    return paths


def make_unique_word(number: int) -> str:
    return "zq" + "".join("bcdfghjklm"[int(digit)] for digit in f"{number:05}")


def read_all(paths: list[Path]) -> float:
    """Extract and split documents with as many workers as the server has; return the wall time."""
    options = ReadOptions(None, False, find_tokenizer_spec(ModelChoice(cache_folder=Path())))

    def read(path: Path) -> None:
        with read_document(parsers, Source(path, path.name), options, lambda: False) as reading:
            for _ in reading:
                pass

    with Parsers() as parsers, ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        read(paths[0])  # starts the fork server and loads the tokenizer
        began = time.perf_counter()
        list(workers.map(read, paths))
        return time.perf_counter() - began


def add_all(server: BenchmarkServer, paths: list[Path]) -> tuple[float, float]:
    """Upload documents; return the times from the first accepted one until it and until all are found by words."""
    accepted: list[float] = []

    def add(path: Path) -> None:
        with path.open("rb") as file:
            server.http.post("/api/v1/jobs", files={"file": (path.name, file)}).raise_for_status()
        accepted.append(time.perf_counter())

    add(paths[0])
    with ThreadPoolExecutor(UPLOADERS) as uploaders:
        uploads = [uploaders.submit(add, path) for path in paths[1:]]
        first = wait_until_found(server, 0) - accepted[0]
        for upload in uploads:
            upload.result()
    end = max(wait_until_found(server, number) for number in range(len(paths) - WATCHED_DOCUMENTS, len(paths)))
    for number in range(len(paths)):  # not measured
        wait_until_found(server, number)
    return first, end - accepted[0]


def wait_for_jobs(server: BenchmarkServer) -> None:
    while server.http.get("/api/v1/status").json()["queue"]["processing"]:
        time.sleep(0.1)


def wait_until_found(server: BenchmarkServer, number: int) -> float:
    question = {"query": make_unique_word(number), "mode": "text", "top": 1}
    while not server.http.post("/api/v1/search", json=question).json()["results"]:
        time.sleep(0.01)
    return time.perf_counter()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--chunks", type=int, default=300)
    parser.add_argument("--only-embed", action="store_true", help="measure only splitting and embedding")
    parser.add_argument("--only-import", action="store_true", help="measure only the import into a server")
    parser.add_argument("--only-words-first", action="store_true", help="measure only until documents are found")
    parser.add_argument("--only-batch-shapes", action="store_true", help="measure only the memory of embedding")
    parser.add_argument("--data", type=Path, help="the data folder of that server; a temporary one by default")
    parser.add_argument("--notes", type=int, default=IMPORTED_NOTES, help="notes that are imported")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--peers-python", help="an interpreter with torch and sentence-transformers")
    add_json_option(parser)
    return parser.parse_args()


def make_texts(folder: Path, count: int = 40) -> None:
    maker = TextMaker()
    for number in range(count):
        (folder / f"{number:03}.md").write_text(maker.make_markdown(sections=20), encoding="utf-8")


def main() -> None:
    asked = parse_arguments()
    if asked.only_import:
        write_results(asked.json, measure_import(asked.data, asked.notes))
        return
    if asked.only_batch_shapes:
        write_results(asked.json, measure_batch_shapes(asked.chunks))
        return
    if asked.only_words_first:
        write_results(asked.json, measure_words_first(asked.documents))
        return
    with tempfile.TemporaryDirectory() as made:
        if asked.folder is None:
            make_texts(Path(made))
        pieces, cost_of_splitting = split_texts(asked.folder or Path(made), asked.chunks)
    if not pieces:
        raise SystemExit(f"{asked.folder} contains no texts")
    chunks = [build_embedding_text("", piece.section, piece.text) for piece in pieces]
    tokens = sum(len(encoding) for encoding in load_tokenizer().encode_batch_fast(chunks))
    print(f"{len(chunks)} chunks of {tokens / len(chunks):.0f} tokens")
    print(f"splitting: {cost_of_splitting * 1e3:.2f} CPU ms per chunk")
    print(f"this CPU {'has' if has_fast_int8() else 'lacks'} the instructions for int8\n")
    results = [Result("split, CPU per chunk", cost_of_splitting * 1e3, "ms")]
    for int8 in ("off", "on"):
        imported, loaded, first = measure_start(int8)
        print(
            f"int8 {int8}: imports {imported:.2f}, load {loaded:.2f}, first vector {first:.2f} CPU s after the imports"
        )
        results.append(Result(f"load the model, int8 {int8}, CPU until first vector", first, "s"))
    for threads in dict.fromkeys((1, count_cores())):
        cores = f"{threads} core{'s' if threads > 1 else ''}"
        print(f"\n{cores}")
        costs = [
            measure_ours("ours, float32", "off", chunks, threads),
            measure_ours("ours, int8", "on", chunks, threads),
        ]
        floor = measure_plain(chunks)
        peer = measure_peer(asked.peers_python, chunks, threads) if asked.peers_python else None
        print_table([*costs, peer] if peer else costs, floor, len(chunks), tokens)
        if peer is None:
            print(f"{PEER}: {NOT_INSTALLED}")
        results += make_results(costs, floor, peer, len(chunks), cores)
    if asked.only_embed:
        write_results(asked.json, results)
        return
    results += measure_import(asked.data, asked.notes)
    results += measure_words_first(asked.documents)
    write_results(asked.json, results)


if __name__ == "__main__":
    main()
