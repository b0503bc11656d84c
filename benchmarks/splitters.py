"""Compares our splitter with semantic-text-splitter, which must be installed (`pip install semantic-text-splitter`).

    python benchmarks/splitters.py FOLDER [--modes text,vector,hybrid] [--sample N]
    python benchmarks/splitters.py FOLDER --texts-only

FOLDER is a judged set as in benchmarks/quality.py; with --texts-only it is any folder of .md, .txt or .jsonl files.
Printed are, for each splitter,

- CPU time of making a splitter (the token limit depends on the title, so each document needs its own) and of splitting,
  number and length of the chunks of all texts, and what is broken in them: chunks over the token limit, chunks that are
  only a heading, tables without their header, code without its fence, sentences cut in the middle,
- nDCG@10, recall and MRR through a server that splits with it, and the difference with its 95 % interval.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

import quality_tables as tables
from ingest import read_texts
from judged_search import RankedAnswer, Searcher
from judged_sets import JudgedSet, import_documents
from knowledge.embed.granite import load_tokenizer
from knowledge.engine.evaluate import bootstrap_difference
from knowledge.extract.base import PageText
from knowledge.split import Splitter
from knowledge.split.passage import SPECIAL_TOKENS, WINDOW_TOKENS
from server import run_server
from splitter_server import SemanticSplitter

OURS, PEER = "ours", "semantic-text-splitter"
MAX_TOKENS = WINDOW_TOKENS - SPECIAL_TOKENS
FENCE = re.compile(r"(?m)^ {0,3}(```|~~~)")
TABLE_START = re.compile(r"(?m)(?:\A|\n\n)(\|[^\n]*(?:\n\|[^\n]*)*)")
DELIMITER_ROW = re.compile(r"\|?[\s:|-]*-[\s:|-]*")
WORDS_AT_END = re.compile(r"\w$")

Split = Callable[[str], list[str]]
MAKE_ROUNDS = 20


def make_splitters(tokenizer: Tokenizer) -> dict[str, tuple[Callable[[], object], Split]]:
    """By name: what makes a splitter, and what splits a text."""
    peer = SemanticSplitter(tokenizer)

    def split_ours(text: str) -> list[str]:
        splitter = Splitter(tokenizer)
        return [one.text for one in (*splitter.feed(PageText(text)), *splitter.finish())]

    return {
        OURS: (lambda: Splitter(tokenizer), split_ours),
        PEER: (lambda: SemanticSplitter(tokenizer), lambda text: [one.text for one in peer.feed(PageText(text))]),
    }


def measure_making(make: Callable[[], object]) -> float:
    """Return the CPU seconds of making one splitter."""
    began = time.process_time()
    for _ in range(MAKE_ROUNDS):
        make()
    return (time.process_time() - began) / MAKE_ROUNDS


def find_faults(chunks: Sequence[str], lengths: Sequence[int]) -> Counter[str]:
    faults: Counter[str] = Counter()
    for place, (chunk, length) in enumerate(zip(chunks, lengths, strict=True)):
        lines = [line for line in chunk.split("\n") if line.strip()]
        is_last = place + 1 == len(chunks)
        faults["too long"] += length > MAX_TOKENS
        faults["only a heading"] += all(line.startswith("#") for line in lines)
        faults["table without header"] += any(_lacks_header(found[1]) for found in TABLE_START.finditer(chunk))
        faults["code without fence"] += len(FENCE.findall(chunk)) % 2
        faults["sentence cut"] += not is_last and WORDS_AT_END.search(chunk) is not None and "|" not in lines[-1]
    return faults


def _lacks_header(table: str) -> bool:
    rows = table.split("\n")
    return len(rows) < 2 or DELIMITER_ROW.fullmatch(rows[1]) is None


def measure_texts(texts: Sequence[str]) -> None:
    tokenizer = load_tokenizer()
    names = ("too long", "only a heading", "table without header", "code without fence", "sentence cut")
    lines = []
    for name, (make, split) in make_splitters(tokenizer).items():
        split("A sentence for the first call. " * 300)
        making = measure_making(make)
        began = time.process_time()
        found = [split(text) for text in texts]
        spent = time.process_time() - began
        faults: Counter[str] = Counter()
        count = tokens = 0
        for chunks in found:
            lengths = [len(one) for one in tokenizer.encode_batch_fast(chunks, add_special_tokens=False)]
            faults += find_faults(chunks, lengths)
            count, tokens = count + len(chunks), tokens + sum(lengths)
        megabytes = sum(len(text.encode()) for text in texts) / 1e6
        figures = [f"{making * 1e3:.2f}", f"{spent / megabytes:.2f}", str(count), f"{tokens / max(count, 1):.0f}"]
        lines.append([name, *figures, *(str(faults[fault]) for fault in names)])
    tables.print_table(f"{len(texts)} texts", ["splitter", "ms to make", "CPU s/MB", "chunks", "tokens", *names], lines)


def search_with(program: Sequence[str], judged: JudgedSet, modes: Sequence[str]) -> dict[str, list[RankedAnswer]]:
    with run_server(program=program) as server:
        import_documents(server, judged)
        searcher = Searcher(server)
        return {mode: searcher.search_own_set(judged.questions, judged, mode) for mode in modes}


def compare_search(judged: JudgedSet, modes: Sequence[str]) -> None:
    peer_program = (str(Path(__file__).with_name("splitter_server.py")),)
    ours, peer = search_with(("-m", "knowledge"), judged, modes), search_with(peer_program, judged, modes)
    tables.print_measures({f"{judged.name}, {OURS}": ours, f"{judged.name}, {PEER}": peer})
    lines = [
        [mode, tables.format_interval(bootstrap_difference([a.ndcg for a in ours[mode]], [b.ndcg for b in peer[mode]]))]
        for mode in modes
    ]
    tables.print_table(f"nDCG@10, {OURS} minus {PEER}", ["mode", "difference"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--modes", default="text,vector,hybrid")
    parser.add_argument("--sample", type=int, help="number of questions; default: all")
    parser.add_argument("--texts-only", action="store_true", help="do not search")
    given = parser.parse_args()
    if given.texts_only:
        measure_texts(list(read_texts(given.folder)))
        return
    judged = JudgedSet.read(given.folder, given.sample)
    measure_texts([row["text"] for row in judged.documents()])
    compare_search(judged, given.modes.split(","))


if __name__ == "__main__":
    main()
