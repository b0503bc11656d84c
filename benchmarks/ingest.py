"""What splitting and embedding cost, beside sentence-transformers on torch over the same chunks.

    python benchmarks/ingest.py FOLDER [--chunks 300] [--peer-python PATH --peer-model FOLDER]

FOLDER holds texts: .md and .txt files, or .jsonl files whose lines have a `text`. The peer's interpreter must have
torch and sentence-transformers; its model is any folder in that layout, such as all-MiniLM-L6-v2. Without a peer the
floor is onnxruntime in float32, one text after the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.embed.batches import count_cores
from knowledge.embed.cpu_features import has_fast_int8
from knowledge.embed.granite import GraniteEmbedder, Int8Setting, load_tokenizer
from knowledge.extract.base import PageText
from knowledge.split import SplitPassage, Splitter, build_embedding_text

QUESTION = "how does incremental indexing of pdf files work"
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


@dataclass(frozen=True, slots=True)
class Cost:
    name: str
    wall: float
    cpu: float
    question: float
    """CPU seconds for one question."""


def read_texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".md", ".txt"):
            yield path.read_text(encoding="utf-8", errors="replace")
        elif path.suffix == ".jsonl":
            with path.open(encoding="utf-8") as lines:
                yield from (text for line in lines if (text := json.loads(line).get("text")))


def split_texts(folder: Path, limit: int) -> tuple[list[SplitPassage], float]:
    """Passages of the texts, and what a passage cost in CPU seconds."""
    counting = load_tokenizer()
    list(Splitter(counting).feed(PageText("A sentence. " * 300)))  # the first one reads the tokenizer again
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
    """The floor where there is no peer: one text after the other."""
    model = GraniteEmbedder("off", 1)
    wall, spent = measure_time(lambda: [model.embed_question(chunk) for chunk in chunks])
    _, question = measure_time(lambda: [model.embed_question(QUESTION) for _ in range(20)])
    model.close()
    return Cost("onnxruntime float32, one by one", wall, spent, question / 20)


def measure_peer(python: str, model: str, chunks: list[str], threads: int) -> Cost:
    script = Path(__file__).with_name("ingest_peer.py")
    done = subprocess.run(
        [python, str(script), model, str(threads)],
        input=json.dumps(chunks),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"The peer failed:\n{done.stderr}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return Cost("sentence-transformers on torch", answer["wall"], answer["cpu"], answer["question"])


def measure_start(int8: Int8Setting) -> tuple[float, float, float]:
    """CPU seconds: everything imported that a server has anyway, the model loaded, the first vector there."""
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


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chunks", type=int, default=300)
    parser.add_argument("--peer-python")
    parser.add_argument("--peer-model")
    return parser.parse_args()


def main() -> None:
    asked = parse_arguments()
    pieces, cost_of_splitting = split_texts(asked.folder, asked.chunks)
    if not pieces:
        raise SystemExit(f"There is no text in {asked.folder}")
    chunks = [build_embedding_text("", piece.section, piece.text) for piece in pieces]
    tokens = sum(len(encoding) for encoding in load_tokenizer().encode_batch_fast(chunks))
    print(f"{len(chunks)} chunks of {tokens / len(chunks):.0f} tokens")
    print(f"splitting: {cost_of_splitting * 1e3:.2f} CPU ms a chunk")
    print(f"this processor {'has' if has_fast_int8() else 'lacks'} the instructions for int8\n")
    for int8 in ("off", "on"):
        imported, loaded, first = measure_start(int8)
        print(
            f"int8 {int8}: imports {imported:.2f}, load {loaded:.2f}, first vector {first:.2f} CPU s after the imports"
        )
    for threads in dict.fromkeys((1, count_cores())):
        print(f"\n{threads} core{'s' if threads > 1 else ''}")
        costs = [
            measure_ours("ours, float32", "off", chunks, threads),
            measure_ours("ours, int8", "on", chunks, threads),
        ]
        floor = (
            measure_peer(asked.peer_python, asked.peer_model, chunks, threads)
            if asked.peer_python
            else measure_plain(chunks)
        )
        print_table(costs, floor, len(chunks), tokens)


if __name__ == "__main__":
    main()
