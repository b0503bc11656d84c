"""Measures search and indexing, beside other embedded engines in the same run.

    python benchmarks/search.py [--passages 10000 100000] [--large] [--keep FOLDER]
                                [--peers-python PATH] [--peers NAME ...] [--json FILE]

Text and vectors are generated (search_data.py). Embedding the query is not included; ingest.py measures it. Peers run
in the interpreter of --peers-python, over the same data; peers that it does not have are reported as not installed.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from knowledge.embed.embedder import Vectors
from knowledge.engine.search import pipeline as search_pipeline
from knowledge.engine.search.diversify import arrange_candidates
from knowledge.engine.search.fusion import Ranking
from knowledge.index.api import Candidates, IndexEntry, IndexFilter, QueryTerms
from knowledge.index.embedded import EmbeddedIndex
from knowledge.model import Chunk, Document, DocumentLabels, Query
from knowledge.text import analyzer
from results import NOT_INSTALLED, Result, add_json_option, write_results
from search_data import COLLECTIONS, Recipe

QUESTIONS, EXACT_QUESTIONS, NOTE_CHUNKS, BATCH_PASSAGES = 200, 60, 10, 5000
FILTER_SHARES = (0.001, 0.01, 0.05, 0.25)
FINGERPRINT = "benchmark"
ALL_PEERS = ("qdrant-edge", "zvec", "lancedb", "sqlite-vec", "chroma", "fts5-numpy")


@dataclass(frozen=True, slots=True)
class Figures:
    """Measurements of one engine; milliseconds are medians of CPU time over the queries, on one thread."""

    name: str
    passages: int
    hybrid_ms: float
    filtered_ms: float
    recall: float
    build_seconds: float
    filtered_recalls: dict[str, float] | None = None
    """recall@100 by the share of chunks that the filter keeps."""
    note_ms: float | None = None
    words_ms: float | None = None
    vectors_ms: float | None = None
    arrange_ms: float | None = None
    """Part of hybrid_ms for joining neighbours and removing near-duplicates, which no peer does."""
    open_ms: float | None = None
    first_ms: float | None = None
    anonymous_bytes: float | None = None
    mapped_bytes: float | None = None
    disk_bytes: float | None = None


class GivenEmbedder:
    """Looks up the vectors of the queries."""

    name, fingerprint, languages = "granite-embedding-30m-english", FINGERPRINT, frozenset({"en"})

    def __init__(self, questions: list[list[str]], vectors: NDArray[np.float32]) -> None:
        self.dimension = vectors.shape[1]
        self._vectors = {" ".join(words): vector for words, vector in zip(questions, vectors, strict=True)}

    def embed(self, passages: Sequence[str]) -> Vectors:
        raise NotImplementedError

    def embed_question(self, question: str) -> Vectors:
        vector: Vectors = self._vectors[question]
        return vector.reshape(1, -1)


class AllPassages:
    """A store that has every chunk; hydration is not measured here."""

    def hits(self, chunk_ids: Sequence[int]) -> dict[int, tuple[Chunk, Document]]:
        return {number: (make_chunk(number), None) for number in chunk_ids}  # type: ignore[misc]

    def find_labels(self, document_ids: Sequence[int]) -> dict[int, DocumentLabels]:  # noqa: ARG002
        return {}


@cache
def make_chunk(number: int) -> Chunk:
    return Chunk(number, UUID(int=number), number // NOTE_CHUNKS, number % NOTE_CHUNKS, "a passage", None, ())


# -- building -----------------------------------------------------------------------------------


def make_entries(recipe: Recipe) -> Iterator[IndexEntry]:
    rows = (row for block in recipe.vectors() for row in block.astype(np.float16))
    for number, (words, row) in enumerate(zip(recipe.texts(), rows, strict=True)):
        yield make_entry(number, words, row)


def make_entry(number: int, words: list[str], row: NDArray[np.float16]) -> IndexEntry:
    place = number % NOTE_CHUNKS
    return IndexEntry(number, number // NOTE_CHUNKS, place, number % COLLECTIONS, 0, "md", 20_000, ("tag",), words, row)


def build_index(recipe: Recipe, folder: Path) -> tuple[EmbeddedIndex, float]:
    """Return an index and the CPU seconds of building it, without generating its content; nan for an existing one."""
    index = EmbeddedIndex.open(folder, recipe.dimension, FINGERPRINT)
    if index.count() == recipe.passages:
        return index, math.nan
    before, made = time.process_time(), 0.0

    def generate() -> Iterator[IndexEntry]:
        nonlocal made
        rest = make_entries(recipe)
        while True:
            begun = time.process_time()
            batch = list(islice(rest, BATCH_PASSAGES))
            made += time.process_time() - begun
            if not batch:
                return
            yield from batch

    index.apply(1, (), generate())  # as the engine does in a rebuild
    index.flush()
    index.close()  # waits for tantivy's merges
    spent = time.process_time() - before - made
    return EmbeddedIndex.open(folder, recipe.dimension, FINGERPRINT), spent


# -- measuring ----------------------------------------------------------------------------------


def measure_median_ms(work: Callable[[int], object], times: int = QUESTIONS) -> float:
    for number in range(10):
        work(number)
    spent = []
    for number in range(times):
        before = time.thread_time()
        work(number)
        spent.append(time.thread_time() - before)
    return float(np.median(spent)) * 1000


def measure_recall(
    recipe: Recipe,
    found: Callable[[int], list[int]],
    questions: NDArray[np.float32],
    depth: int,
    passing: NDArray[np.bool_] | None = None,
) -> float:
    """Return recall@depth against an exact scan of the chunks that pass a filter."""
    best = [list[tuple[float, int]]() for _ in range(EXACT_QUESTIONS)]
    first = 0
    for block in recipe.vectors():
        inside = np.arange(len(block)) if passing is None else np.flatnonzero(passing[first : first + len(block)])
        for number, row in enumerate(questions[:EXACT_QUESTIONS] @ block[inside].T):
            places = np.argsort(-row)[:depth]
            best[number] += [(float(row[place]), first + int(inside[place])) for place in places]
        first += len(block)
    exact = [{chunk for _, chunk in sorted(each, reverse=True)[:depth]} for each in best]
    return float(np.mean([len(ids & set(found(number))) / len(ids) for number, ids in enumerate(exact)]))


def make_filter(recipe: Recipe, share: float) -> tuple[IndexFilter, NDArray[np.bool_]]:
    """Return a filter that keeps this share of the chunks, and the chunks that pass it."""
    numbers = np.arange(recipe.passages)
    if share * COLLECTIONS >= 1:
        collections = tuple(range(round(share * COLLECTIONS)))
        return IndexFilter(owner=0, collections=collections), np.isin(numbers % COLLECTIONS, collections)
    documents = tuple(range(0, recipe.passages // NOTE_CHUNKS, round(1 / share)))
    return IndexFilter(owner=0, documents=documents), np.isin(numbers // NOTE_CHUNKS, documents)


def measure_ours(recipe: Recipe, folder: Path) -> Figures:
    index, build_seconds = build_index(recipe, folder)
    words, vectors = recipe.questions(QUESTIONS), recipe.question_vectors(QUESTIONS)
    embedder, truth = GivenEmbedder(words, vectors), AllPassages()
    everything = IndexFilter(owner=0)

    def ask(number: int, within: IndexFilter) -> object:
        query = Query(text=" ".join(words[number]))
        return search_pipeline.search(query, within, index=index, passages=truth, embedder=embedder)

    def ranked(number: int) -> tuple[Candidates, Ranking]:
        asked = search_pipeline.parse_query(Query(text=" ".join(words[number])), ("en",), embedder)
        found, asked = search_pipeline.find_candidates(asked, everything, index.snapshot)
        return found, search_pipeline.rank_candidates(found, asked)

    def nearest(number: int, limit: int, within: IndexFilter = everything) -> Candidates:
        return index.snapshot.find_candidates(QueryTerms(()), vectors[number], within, limit, by_words=False)

    def measure_filtered_recall(share: float) -> float:
        within, passing = make_filter(recipe, share)
        return measure_recall(recipe, lambda n: nearest(n, 100, within).ids.tolist(), vectors, 100, passing)

    rankings = [ranked(number) for number in range(QUESTIONS)]
    asked = [analyzer.analyse_question(" ".join(each), ("en",)) for each in words]
    figures = Figures(
        "ours",
        recipe.passages,
        hybrid_ms=measure_median_ms(lambda n: ask(n, everything)),
        filtered_ms=measure_median_ms(lambda n: ask(n, IndexFilter(owner=0, collections=(n % COLLECTIONS,)))),
        recall=measure_recall(recipe, lambda n: nearest(n, 10).ids.tolist(), vectors, 10),
        build_seconds=build_seconds,
        filtered_recalls={f"{share:.1%}": measure_filtered_recall(share) for share in FILTER_SHARES},
        words_ms=measure_median_ms(lambda n: index.snapshot.find_candidates(asked[n], None, everything, 100)),
        vectors_ms=measure_median_ms(lambda n: nearest(n, 100)),
        arrange_ms=measure_median_ms(lambda n: arrange_candidates(*rankings[n], 0.0, index.snapshot)),
        note_ms=measure_note_cost(index, recipe),
        disk_bytes=index.size_bytes() / recipe.passages,
    )
    index.flush()
    index.close()
    return Figures(**{**asdict(figures), **measure_in_new_process(recipe, folder)})


def measure_note_cost(index: EmbeddedIndex, recipe: Recipe, times: int = 20) -> float:
    """Return the CPU milliseconds until a note of ten chunks is searchable, including tantivy's threads."""
    given = [entry for entry, _ in zip(make_entries(recipe), range(times * NOTE_CHUNKS), strict=False)]
    spent = []
    for first in range(0, len(given), NOTE_CHUNKS):
        note = given[first : first + NOTE_CHUNKS]
        before = time.process_time()
        index.apply(2, [note[0].document_id], note)
        spent.append(time.process_time() - before)
    return float(np.median(spent)) * 1000


def measure_in_new_process(recipe: Recipe, folder: Path) -> dict[str, float]:
    """Measure in a new process: time to open the index, time of the first query, memory after many queries."""
    command = [sys.executable, __file__, "--open", str(folder), "--passages", str(recipe.passages)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measure_open(recipe: Recipe, folder: Path) -> dict[str, float]:
    import faiss  # imported first, so that its code is not counted as memory of the index

    words, vectors = recipe.questions(QUESTIONS), recipe.question_vectors(QUESTIONS)
    asked = [analyzer.analyse_question(" ".join(each), ("en",)) for each in words]
    faiss.omp_set_num_threads(1)
    before, memory_before = time.process_time(), read_memory()
    index = EmbeddedIndex.open(folder, recipe.dimension, FINGERPRINT)
    opened = time.process_time()
    for number in range(QUESTIONS):
        index.snapshot.find_candidates(asked[number], vectors[number], IndexFilter(owner=0), 100)
        if number == 0:
            first = time.process_time()
    anonymous, mapped = (after - begun for after, begun in zip(read_memory(), memory_before, strict=True))
    index.close()
    return {
        "open_ms": (opened - before) * 1000,
        "first_ms": (first - opened) * 1000,
        "anonymous_bytes": anonymous / recipe.passages,
        "mapped_bytes": mapped / recipe.passages,
    }


def read_memory() -> tuple[int, int]:
    """Return resident anonymous bytes and resident file-backed bytes; zeros outside Linux."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss")}
    return sizes["RssAnon"], sizes["RssFile"]


# -- peers, and the table -----------------------------------------------------------------------


def measure_peer(python: str, name: str, passages: int, timeout_seconds: float) -> Figures | str:
    """Measure a peer in a child process; return why it could not be measured otherwise."""
    command = [python, str(Path(__file__).with_name("search_peers.py")), name, str(passages)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        return f"timed out after {timeout_seconds:.0f} s"
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return NOT_INSTALLED if reason.startswith("ModuleNotFoundError") else reason
    return Figures(**json.loads(done.stdout.strip().splitlines()[-1]))


def print_figures(ours: Figures) -> None:
    row = asdict(ours)
    print(f"\n{ours.passages} passages")
    for key, value in row.items():
        if isinstance(value, float):
            print(f"   {key:18} {value:10.3f}")
    for share, recall in (ours.filtered_recalls or {}).items():
        print(f"   recall@100, filter of {share:>5} {recall:10.3f}")


def print_peer(ours: Figures, peer: Figures) -> None:
    print(
        f"   {peer.name:14} hybrid {peer.hybrid_ms:8.2f} ms ({peer.hybrid_ms / ours.hybrid_ms:6.1f} times ours)   "
        f"filtered {peer.filtered_ms:8.2f} ms ({peer.filtered_ms / ours.filtered_ms:6.1f})   "
        f"recall@10 {peer.recall:.3f}   "
        f"build {peer.build_seconds:7.1f} s ({peer.build_seconds / ours.build_seconds:4.1f})",
        flush=True,
    )


def print_table(measured: list[Figures]) -> None:
    """Print all sizes and engines as one Markdown table."""
    ours = {each.passages: each for each in measured if each.name == "ours"}
    print("\n| passages | engine | hybrid, ms | times ours | filtered, ms | times ours | recall@10 | build, s |")
    print("|---|---|---|---|---|---|---|---|")
    for each in measured:
        own = ours[each.passages]
        print(
            f"| {each.passages:,} | {each.name} | {each.hybrid_ms:.2f} | {each.hybrid_ms / own.hybrid_ms:.2f} "
            f"| {each.filtered_ms:.2f} | {each.filtered_ms / own.filtered_ms:.2f} "
            f"| {each.recall:.3f} | {each.build_seconds:.1f} |"
        )


def make_results(ours: Figures, peers: dict[str, Figures | str]) -> list[Result]:
    size, results = f"{ours.passages:,} chunks", []
    for name, peer in peers.items():
        measured, missing = (peer, "") if isinstance(peer, Figures) else (None, peer)
        for kind, mine, theirs in (
            ("hybrid search", ours.hybrid_ms, measured.hybrid_ms if measured else None),
            ("hybrid search, 5 % filter", ours.filtered_ms, measured.filtered_ms if measured else None),
        ):
            results.append(Result(f"{kind}, {size}, CPU", mine, "ms", name, theirs, missing))
    build = ours.build_seconds * 1000 / ours.passages
    return [
        *(results or [Result(f"hybrid search, {size}, CPU", ours.hybrid_ms, "ms")]),
        Result(f"recall@10, {size}", ours.recall, "", "exact scan", 1.0),
        *(
            Result(f"recall@100, {share} filter, {size}", recall, "", "exact scan", 1.0)
            for share, recall in (ours.filtered_recalls or {}).items()
        ),
        Result(f"build the index, {size}, CPU per chunk", build, "ms"),
        Result(f"index a note of 10 chunks, {size}, CPU", ours.note_ms or math.nan, "ms"),
        Result(f"memory per chunk, {size}", ours.anonymous_bytes or math.nan, "bytes"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--large", action="store_true", help="also measure a million passages")
    parser.add_argument("--peers-python", default=sys.executable, help="an interpreter with the peers installed")
    parser.add_argument("--peers", nargs="*", choices=ALL_PEERS, default=list(ALL_PEERS))
    parser.add_argument("--peer-timeout", type=float, default=3600, metavar="SECONDS", help="limit for each peer")
    parser.add_argument("--keep", type=Path, help="a folder for the indexes, to be used again by the next run")
    add_json_option(parser)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        print(json.dumps(measure_open(Recipe(options.passages[0]), options.open)))
        return
    measured: list[Figures] = []
    for passages in [*options.passages, *([1_000_000] if options.large else [])]:
        with tempfile.TemporaryDirectory() as folder:
            ours = measure_ours(Recipe(passages), (options.keep or Path(folder)) / str(passages))
        print_figures(ours)
        measured.append(ours)
        peers: dict[str, Figures | str] = {}
        for name in options.peers:
            peer = measure_peer(options.peers_python, name, passages, options.peer_timeout)
            peers[name] = peer
            if isinstance(peer, Figures):
                print_peer(ours, peer)
                measured.append(peer)
            else:
                print(f"   {name}: {peer}", flush=True)
        write_results(options.json, make_results(ours, peers))
    print_table(measured)


if __name__ == "__main__":
    main()
