"""Measures parts that we wrote ourselves beside the libraries that offer the same; the decisions are in docs/decisions.

    python benchmarks/alternatives.py [quantization bm25 onnx rate-limits] [--passages 20000 100000]
                                      [--peers-python PATH] [--json FILE]

- quantization: product quantization with a separated axis beside FAISS's LinearTransform, plain PQ, SQ8 and RaBitQ.
- bm25: scores of 100 chosen chunks from packed terms beside a tantivy query restricted to their ids.
- onnx: loading the default model by building its graph beside loading an exported file.
- rate-limits: memory per key and CPU time per call beside the storages of limits and pyrate-limiter.

--peers-python is an interpreter with pyrate-limiter. Times are CPU times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results import NOT_INSTALLED, Result, add_json_option, write_results
from search_data import Recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

QUERIES, CHOSEN, ROUNDS = 200, 100, 5


def measure_median_ms(work: Callable[[int], object], times: int = QUERIES) -> float:
    for number in range(10):
        work(number)
    spent = []
    for number in range(times):
        began = time.thread_time()
        work(number)
        spent.append(time.thread_time() - began)
    return statistics.median(spent) * 1000


# -- product quantization -------------------------------------------------------------------------


def compare_quantization(passages: int) -> list[Result]:
    import numpy as np

    faiss = import_module("faiss")
    faiss.omp_set_num_threads(1)
    recipe = Recipe(passages)
    rows = np.concatenate(list(recipe.vectors()))
    queries = recipe.question_vectors(QUERIES)
    exact = np.argsort(-(queries @ rows.T), axis=1)[:, :10]
    print(f"\nquantization, {passages:,} vectors: scan for the best 200, recall of the nearest 10 in the best 20")
    spent: dict[str, float] = {}
    for name, build in QUANTIZERS.items():
        began = time.process_time()
        search, size = build(faiss, rows, rows[:: max(1, passages // 16384)])
        built = time.process_time() - began
        spent[name] = measure_median_ms(partial(_search_one, search, queries))
        hits = [len({*exact[n]} & {*search(queries[n : n + 1], 20)[0]}) for n in range(QUERIES)]
        recall = statistics.mean(hits) / 10
        print(f"  {name:24} {spent[name]:6.3f} ms  recall {recall:.3f}  build {built:5.2f} s  {size} bytes per vector")
    ours = spent.pop("ours")
    what = f"scan {passages:,} codes for the best 200, CPU"
    return [Result(what, ours, "ms", name, other) for name, other in spent.items()]


Search = Callable[["Vectors", int], "NDArray[np.int64]"]


def _search_one(search: Search, queries: Vectors, number: int) -> object:
    return search(queries[number : number + 1], 200)


def build_ours(_: Any, rows: Vectors, sample: Vectors) -> tuple[Search, int]:
    from knowledge.index.product_quantization import Codebook

    book = Codebook.train(sample)
    codes = book.encode(rows)
    index: Any = book.build_scan_index(codes)
    return lambda query, count: index.search(book.to_query_row(query[0]), count)[1], codes.shape[1]


def build_linear_transform(faiss: Any, rows: Vectors, sample: Vectors) -> tuple[Search, int]:
    """Build our quantizer as an IndexPreTransform; the axis is scaled on both sides by the root of `kept_share`."""
    import numpy as np

    from knowledge.index.product_quantization import DIMENSIONS_PER_GROUP, Codebook

    book, dimension = Codebook.train(sample), rows.shape[1]
    width = book.to_rows(sample[:1]).shape[1]
    matrix = np.zeros((width, dimension), np.float32)
    matrix[:dimension] = np.eye(dimension, dtype=np.float32) - np.outer(book.axis, book.axis)
    matrix[-DIMENSIONS_PER_GROUP] = book.axis * np.sqrt(book.kept_share)
    transform = faiss.LinearTransform(dimension, width, False)
    faiss.copy_array_to_vector(matrix.ravel(), transform.A)
    transform.is_trained = True
    scan = faiss.IndexPQFastScan(width, width // 4, 4, faiss.METRIC_INNER_PRODUCT)
    scan.train(transform.apply(sample))
    index = faiss.IndexPreTransform(transform, scan)
    index.add(rows)
    return lambda query, count: index.search(query, count)[1], width // 8


def build_faiss(kind: str, size: int, faiss: Any, rows: Vectors, sample: Vectors) -> tuple[Search, int]:
    index = faiss.index_factory(rows.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    index.train(sample)
    index.add(rows)
    return lambda query, count: index.search(query, count)[1], size


QUANTIZERS: dict[str, Callable[[Any, Vectors, Vectors], tuple[Search, int]]] = {
    "ours": build_ours,
    "FAISS LinearTransform": build_linear_transform,
    "FAISS PQ fast scan": partial(build_faiss, "PQ96x4fs", 48),
    "FAISS SQ8": partial(build_faiss, "SQ8", 384),
    "FAISS RaBitQ, rotated": partial(build_faiss, "RR384,RaBitQ", 56),
}


# -- BM25 -----------------------------------------------------------------------------------------


def compare_bm25(passages: int) -> list[Result]:
    """Score the 100 nearest chunks of each query by BM25, and check that both ways give the same scores."""
    import numpy as np
    import tantivy

    from knowledge.index import bm25
    from knowledge.index.api import IndexFilter
    from knowledge.index.fulltext import MUST, SHOULD, any_of_query
    from knowledge.text import analyzer
    from search import build_index

    recipe, everything = Recipe(passages), IndexFilter(owner=0)
    with tempfile.TemporaryDirectory() as folder:
        index, _ = build_index(recipe, Path(folder) / "index")
        snapshot = index.snapshot
        statistics_of_all = snapshot.statistics(everything)
        queries = [
            statistics_of_all.get_weighted_query(analyzer.analyse_question(" ".join(words), ("en",)))
            for words in recipe.questions(QUERIES)
        ]
        selection = snapshot.slots.select(everything)
        slots = [snapshot.vectors.search(row, selection, CHOSEN)[0] for row in recipe.question_vectors(QUERIES)]
        ids = [snapshot.slots.columns.chunk.take(one).tolist() for one in slots]

        def score_packed(number: int) -> Vectors:
            return bm25.score_slots(snapshot.slots, queries[number], slots[number])

        def score_with_tantivy(number: int) -> dict[int, float]:
            forms = [form for word in queries[number].words for form in word.forms]
            words = [(SHOULD, snapshot.fulltext._make_form_query(form, statistics_of_all)) for form in forms]
            chosen = tantivy.Query.const_score_query(any_of_query("chunk", ids[number]), 0.0)
            query = tantivy.Query.boolean_query([(MUST, chosen), (SHOULD, tantivy.Query.boolean_query(words))])
            found, scores = snapshot.fulltext._run_query(query, CHOSEN)
            return dict(zip(found.tolist(), scores.tolist(), strict=True))

        difference = 0.0
        for number in range(QUERIES):
            theirs = score_with_tantivy(number)
            pairs = zip(ids[number], score_packed(number).tolist(), strict=True)
            difference = max(difference, *(abs(score - theirs[chunk]) for chunk, score in pairs))
        ours, tantivy_ms = measure_median_ms(score_packed), measure_median_ms(score_with_tantivy)
        index.close()
    print(
        f"\nbm25, {passages:,} chunks: packed {ours:.3f} ms, tantivy {tantivy_ms:.3f} ms, difference {difference:.0e}"
    )
    assert np.isclose(difference, 0.0, atol=1e-4)
    return [Result(f"BM25 of {CHOSEN} chosen of {passages:,} chunks, CPU", ours, "ms", "tantivy query", tantivy_ms)]


# -- the ONNX graph -------------------------------------------------------------------------------

BUILD_PROGRAM = """
import sys, time, onnxruntime, tokenizers
from knowledge.embed import model_file
source = model_file.read_model_file(model_file.find_model_file())
began = time.process_time()
from knowledge.embed import granite
from knowledge.embed.pooling import Pooling
from knowledge.embed.transformer import Transformer
Transformer(granite.build_weights(source), Pooling.FIRST)
print(time.process_time() - began)
"""
LOAD_PROGRAM = """
import sys, time, onnxruntime, tokenizers
from knowledge.embed import model_file
source = model_file.read_model_file(model_file.find_model_file())
began = time.process_time()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print(time.process_time() - began)
"""


def compare_onnx() -> list[Result]:
    """Compare building the float32 graph of the default model, imports included, with loading an exported file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export_model(path)
        size = path.stat().st_size
        built, loaded = (measure_program_ms(program, path) for program in (BUILD_PROGRAM, LOAD_PROGRAM))
    print(f"\nonnx: build {built:.0f} ms, load a file of {size / 1e6:.0f} MB {loaded:.0f} ms")
    return [Result("build the ONNX graph at start, CPU", built, "ms", "load an exported file", loaded)]


def export_model(path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    from knowledge.embed import granite, model_file, transformer

    weights = granite.build_weights(model_file.read_model_file(model_file.find_model_file()))
    graph = transformer._GraphBuilder(weights, None, only_first=True).graph
    model = onnx.load_from_string(graph._serialise())
    for tensor in model.graph.initializer:
        if tensor.name in graph._external_arrays:
            tensor.CopyFrom(numpy_helper.from_array(graph._external_arrays[tensor.name], tensor.name))
    onnx.save(model, str(path))


def measure_program_ms(program: str, path: Path) -> float:
    command = [sys.executable, "-c", program, str(path)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(ROUNDS)]
    return statistics.median(map(float, runs)) * 1000


# -- rate limits ----------------------------------------------------------------------------------

KEYS, CALLS_PER_KEY, LIMIT, WINDOW_SECONDS = 10_000, 10, 60, 60


def compare_rate_limits(python: str) -> list[Result]:
    print(f"\nrate limits, {KEYS:,} keys, {CALLS_PER_KEY} calls each:")
    found: dict[str, dict[str, float] | None] = {}
    for name in RATE_LIMITERS:
        interpreter = python if name == "pyrate-limiter" else sys.executable
        command = [interpreter, __file__, "--rate-limiter", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found[name] = None if done.returncode else json.loads(done.stdout)
        if done.returncode and "ModuleNotFoundError" not in done.stderr:
            raise SystemExit(f"{name} failed with exit status {done.returncode}:\n{done.stderr}")
        print(f"  {name:16} {found[name] or NOT_INSTALLED}")
    ours = found.pop("ours") or {}
    return [
        Result(f"rate limit, {what}", ours[key], unit, name, other[key] if other else None)
        for key, what, unit in (("us", "CPU per call", "µs"), ("bytes", "memory per key", "bytes"))
        for name, other in found.items()
    ]


def measure_rate_limiter(name: str) -> dict[str, float]:
    """Return CPU microseconds per call, with the limiter's threads, and bytes per key."""
    call = RATE_LIMITERS[name]()
    keys = [f"address:10.0.{number >> 8}.{number & 255}" for number in range(KEYS)]
    began = time.process_time()
    for _ in range(CALLS_PER_KEY):
        for key in keys:
            call(key)
    spent = time.process_time() - began
    tracemalloc.start()
    call = RATE_LIMITERS[name]()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(CALLS_PER_KEY):
        for key in keys:
            call(key)
    size = (tracemalloc.get_traced_memory()[0] - before) / KEYS
    return {"us": spent * 1e6 / KEYS / CALLS_PER_KEY, "bytes": size}


def make_our_limiter() -> Callable[[str], object]:
    from knowledge.surfaces.http.rate_limit_storage import MemoryRateLimitStorage

    storage = MemoryRateLimitStorage()
    return lambda key: storage.acquire_entry(key, LIMIT, WINDOW_SECONDS)


def make_limits_limiter() -> Callable[[str], object]:
    storage = import_module("limits.storage").MemoryStorage()
    return lambda key: storage.acquire_entry(key, LIMIT, WINDOW_SECONDS)


def make_pyrate_limiter() -> Callable[[str], object]:
    """One in-memory bucket for each key, with the thread that removes old entries."""
    pyrate = import_module("pyrate_limiter")
    rates = [pyrate.Rate(LIMIT, WINDOW_SECONDS * 1000)]

    class Factory(pyrate.BucketFactory):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.buckets: dict[str, Any] = {}

        def wrap_item(self, name: str, weight: int = 1) -> Any:
            return pyrate.RateItem(name, int(time.time() * 1000), weight=weight)

        def get(self, item: Any) -> Any:
            if item.name not in self.buckets:
                self.buckets[item.name] = self.create(pyrate.InMemoryBucket, rates)
            return self.buckets[item.name]

    limiter = pyrate.Limiter(Factory())
    return lambda key: limiter.try_acquire(key, blocking=False)


RATE_LIMITERS: dict[str, Callable[[], Callable[[str], object]]] = {
    "ours": make_our_limiter,
    "limits": make_limits_limiter,
    "pyrate-limiter": make_pyrate_limiter,
}


# -- command line ---------------------------------------------------------------------------------

PARTS = ("quantization", "bm25", "onnx", "rate-limits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--passages", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--peers-python", default=sys.executable, help="an interpreter with pyrate-limiter")
    parser.add_argument("--rate-limiter", choices=RATE_LIMITERS, help=argparse.SUPPRESS)
    add_json_option(parser)
    options = parser.parse_args()
    if options.rate_limiter:
        print(json.dumps(measure_rate_limiter(options.rate_limiter)), flush=True)
        os._exit(0)  # the libraries' threads may still run
    results: list[Result] = []
    if unknown := set(options.parts).difference(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}")
    for part in options.parts or PARTS:
        if part == "quantization":
            results += compare_quantization(max(options.passages))
        elif part == "bm25":
            results += [result for passages in options.passages for result in compare_bm25(passages)]
        elif part == "onnx":
            results += compare_onnx()
        else:
            results += compare_rate_limits(options.peers_python)
    write_results(options.json, results)


if __name__ == "__main__":
    main()
