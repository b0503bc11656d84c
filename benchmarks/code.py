"""Measures how well functions are found, with source code split by structure and as plain text.

    python benchmarks/code.py [--folder LANGUAGE=PATH ...] [--questions 200]

A question is the first sentence of a function's documentation, which is removed from the file; or the name of the
function, where it is unique in the set. Python comes from the packages of this installation; other languages from
folders that are given, such as unpacked npm or Debian packages. A hit is a passage with the first rows of the function.
"""

from __future__ import annotations

import argparse
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import quality_tables as tables
from code_questions import CodeFile, CodeQuestion, read_files
from knowledge.engine.evaluate import bootstrap_difference, mean
from server import BenchmarkServer, run_server

TOP = 10
PROGRAMS = {
    "plain": (str(Path(__file__).with_name("code_server.py")),),
    "structure": ("-m", "knowledge"),
}
MEASURES: dict[str, Callable[[int], float]] = {
    "R@1": lambda rank: float(rank == 1),
    "R@5": lambda rank: float(0 < rank <= 5),
    "MRR": lambda rank: 1 / rank if rank else 0.0,
}


def add_files(server: BenchmarkServer, files: Sequence[CodeFile], language: str) -> None:
    for file in files:
        answer = server.http.post(
            "/api/v1/jobs",
            files={"file": (Path(file.path).name, file.text.encode())},
            data={"source_path": file.path, "collection": collection_of(language)},
        )
        if answer.status_code not in (200, 201, 202, 409):
            answer.raise_for_status()
    while any(count_jobs(server, status) for status in ("queued", "processing")):
        time.sleep(0.2)


def count_jobs(server: BenchmarkServer, status: str) -> int:
    total: int = server.http.get("/api/v1/jobs", params={"status": status, "per_page": 1}).json()["total"]
    return total


def collection_of(language: str) -> str:
    return {"c++": "cpp", "c#": "csharp"}.get(language, language)


def find_rank(server: BenchmarkServer, question: CodeQuestion, text: str) -> int:
    """Return the rank of the first passage that contains the function; 0 if none of the first TOP does."""
    body = {"query": text, "top": TOP, "collections": [collection_of(question.language)]}
    answer = server.http.post("/api/v1/search", json=body)
    if answer.status_code == 422:
        return 0
    answer.raise_for_status()
    for rank, hit in enumerate(answer.json()["results"], 1):
        if hit["source_path"] == question.path and question.is_in(hit["text"]):
            return rank
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", action="append", default=[], metavar="LANGUAGE=PATH")
    parser.add_argument("--questions", type=int, default=200, help="questions per language")
    parser.add_argument("--no-python", action="store_true", help="leave out the packages of this installation")
    given = parser.parse_args()
    folders = dict(pair.split("=", 1) for pair in given.folder)
    if not given.no_python:
        folders.setdefault("python", sysconfig.get_paths()["purelib"])
    found = {name: read_files(Path(path), name, given.questions) for name, path in folders.items()}
    sets = {name: files for name, files in found.items() if any(file.questions for file in files)}
    ranks: dict[tuple[str, str, str], list[int]] = {}
    chunks: dict[tuple[str, str], int] = {}
    for how, program in PROGRAMS.items():
        with run_server(program=program, KNOWLEDGE_QUERY_RATE_LIMIT="off") as server:
            for language, files in sets.items():
                add_files(server, files, language)
                asked = [question for file in files for question in file.questions][: given.questions]
                count = Counter(question.name for question in asked)
                named = [question for question in asked if count[question.name] == 1 and len(question.name) > 3]
                ranks[language, "sentence", how] = [find_rank(server, one, one.text) for one in asked]
                ranks[language, "name", how] = [find_rank(server, one, one.name) for one in named]
                collection = server.http.get(f"/api/v1/collections/{collection_of(language)}").json()
                chunks[language, how] = collection.get("chunk_count", 0)
    for kind in ("sentence", "name"):
        print_ranks(kind, list(sets), ranks, chunks)


def print_ranks(
    kind: str,
    languages: Sequence[str],
    ranks: dict[tuple[str, str, str], list[int]],
    chunks: dict[tuple[str, str], int],
) -> None:
    lines = []
    for language in [*languages, "all"]:
        before, after = (
            [rank for each in languages if language in (each, "all") for rank in ranks[each, kind, how]]
            for how in PROGRAMS
        )
        cells = [
            f"{mean(list(map(value, before))):.3f} → {mean(list(map(value, after))):.3f}" for value in MEASURES.values()
        ]
        difference = bootstrap_difference(
            [MEASURES["MRR"](rank) for rank in after], [MEASURES["MRR"](rank) for rank in before]
        )
        parts = [sum(chunks[each, how] for each in languages if language in (each, "all")) for how in PROGRAMS]
        lines.append(
            [language, str(len(before)), *cells, tables.format_interval(difference), f"{parts[0]} → {parts[1]}"]
        )
    tables.print_table(f"query: {kind}", ["language", "questions", *MEASURES, "MRR difference", "passages"], lines)


if __name__ == "__main__":
    main()
