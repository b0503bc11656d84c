"""How good search is: nDCG@10, recall@10 and MRR@10 on judged questions, through the public API of a real server.

    python benchmarks/quality.py FOLDER... [--modes hybrid,text,vector] [--data DIR]

A folder holds corpus.jsonl {_id, title, text}, queries.jsonl {_id, text} and qrels.tsv (query, document, grade), as the
BEIR collections do. Each goes into a collection of its own, once: with --data a second run measures at once. Questions
of one folder are also asked of the others, to see how many pass relevance 0.5 where they have no business to.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx

from serving import Served, serving

DEPTH = 100
RELEVANT = 0.5


@dataclass(frozen=True)
class Judged:
    name: str
    folder: Path
    questions: list[tuple[str, str]]
    grades: dict[str, dict[str, int]]

    @classmethod
    def read(cls, folder: Path) -> Judged:
        grades: dict[str, dict[str, int]] = {}
        for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
            question, document, grade = line.split("\t")
            grades.setdefault(question, {})[document] = int(float(grade))
        rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines() if line.strip()]
        judged = [(row["_id"], row["text"]) for row in rows if any(g > 0 for g in grades.get(row["_id"], {}).values())]
        return cls(folder.resolve().name, folder, judged, grades)

    def documents(self) -> Iterator[dict[str, str]]:
        with (self.folder / "corpus.jsonl").open(encoding="utf-8") as file:
            yield from (json.loads(line) for line in file if line.strip())


def ndcg(ranked: Sequence[str], grades: dict[str, int], depth: int = 10) -> float:
    """Linear gain, as trec_eval has it."""
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:depth]
    best = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ideal))
    found = sum(max(grades.get(name, 0), 0) / math.log2(rank + 2) for rank, name in enumerate(ranked[:depth]))
    return found / best


def recall(ranked: Sequence[str], grades: dict[str, int], depth: int = 10) -> float:
    wanted = {name for name, grade in grades.items() if grade > 0}
    return len(wanted & set(ranked[:depth])) / len(wanted)


def mrr(ranked: Sequence[str], grades: dict[str, int], depth: int = 10) -> float:
    return next((1 / (rank + 1) for rank, name in enumerate(ranked[:depth]) if grades.get(name, 0) > 0), 0.0)


def fill(server: Served, judged: Judged) -> None:
    """Put the documents in, unless they are there already."""
    known = server.http.get(f"/api/v1/collections/{judged.name}")
    documents = list(judged.documents())
    if known.status_code == 200 and known.json()["document_count"] >= len({json.dumps(row) for row in documents}) * 0.9:
        return
    began = time.perf_counter()

    def add(row: dict[str, str]) -> None:
        # The text is a note; its own id is the path, so that equal texts under two ids stay two documents.
        answer = server.http.post(
            "/api/v1/jobs",
            json={
                "note": row["text"].strip() or row.get("title") or "-",
                "title": row.get("title") or None,
                "collection": judged.name,
                "source_path": row["_id"],
            },
        )
        assert answer.status_code in (202, 409), answer.text

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, documents))
    while waiting(server):
        time.sleep(0.5)
    print(f"{judged.name}: {len(documents)} documents in {time.perf_counter() - began:.0f} s", flush=True)


def waiting(server: Served) -> int:
    """How many jobs have not ended."""
    answer = server.http.get("/api/v1/status")
    answer.raise_for_status()
    queue: dict[str, int] = answer.json()["queue"]
    return queue["queued"] + queue["processing"]


def ask(http: httpx.Client, collection: str, question: str, mode: str) -> tuple[list[str], float]:
    """The documents, each once, best first, and the relevance of the best."""
    body = {"query": question, "top": DEPTH, "collection": collection, "mode": mode}
    answer = http.post("/api/v1/search", json=body)
    if answer.status_code != 200:
        return [], 0.0
    results = answer.json()["results"]
    ranked = list(dict.fromkeys(hit["source_path"] for hit in results))
    return ranked, results[0]["score"] if results else 0.0


def interval(values: Sequence[float], rounds: int = 1000) -> tuple[float, float]:
    """The middle 95 % of bootstrapped means."""
    rng = random.Random(7)
    means = sorted(sum(rng.choices(values, k=len(values))) / len(values) for _ in range(rounds))
    return means[int(0.025 * rounds)], means[int(0.975 * rounds)]


def measure(server: Served, judged: Judged, mode: str) -> dict[str, float]:
    values: dict[str, list[float]] = {"ndcg": [], "recall": [], "mrr": [], "passes": []}
    for identity, question in judged.questions:
        ranked, best = ask(server.http, judged.name, question, mode)
        grades = judged.grades[identity]
        values["ndcg"].append(ndcg(ranked, grades))
        values["recall"].append(recall(ranked, grades))
        values["mrr"].append(mrr(ranked, grades))
        values["passes"].append(float(best >= RELEVANT))
    low, high = interval(values["ndcg"])
    return {name: sum(many) / len(many) for name, many in values.items()} | {"low": low, "high": high}


def off_topic(server: Served, sets: Sequence[Judged], most: int) -> None:
    """Questions of one set asked of another."""
    print("\nquestions asked of another collection: share that passes relevance 0.5")
    for own in sets:
        for other in sets:
            if own is not other:
                some = random.Random(7).sample(own.questions, min(most, len(own.questions)))
                passed = sum(ask(server.http, other.name, text, "hybrid")[1] >= RELEVANT for _, text in some)
                print(f"  {own.name:12} of {other.name:12} {passed / len(some):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--modes", default="hybrid,text,vector")
    parser.add_argument("--data", type=Path, help="keep what was put in, and use it again")
    parser.add_argument("--foreign", type=int, default=200, help="how many questions of a set are asked of the others")
    arguments = parser.parse_args()
    sets = [Judged.read(folder) for folder in arguments.folders]
    with serving(arguments.data) as server:
        for judged in sets:
            fill(server, judged)
        print(f"\n{'set':12} {'mode':8} nDCG@10  [95 %]          R@10   MRR@10  passes .5")
        for mode in arguments.modes.split(","):
            for judged in sets:
                row = measure(server, judged, mode)
                print(
                    f"{judged.name:12} {mode:8} {row['ndcg']:.4f}  [{row['low']:.3f}, {row['high']:.3f}]  "
                    f"{row['recall']:.4f} {row['mrr']:.4f}  {row['passes']:.3f}",
                    flush=True,
                )
        if len(sets) > 1 and arguments.foreign:
            off_topic(server, sets, arguments.foreign)


if __name__ == "__main__":
    main()
