"""How good search is: nDCG@10, recall@10 and MRR@10 on judged questions, through the public API of a real server.

    python benchmarks/quality.py FOLDER... [--modes hybrid,text,vector,rerank] [--data DIR] [--together]

A folder holds corpus.jsonl {_id, title, text}, queries.jsonl {_id, text} and qrels.tsv (query, document, grade), as the
BEIR collections do. Each has a server of its own, or with --together a collection of its own on one server. With --data
what was put in is kept, and a second run measures at once. The modes are compared question by question, with intervals
from a paired bootstrap. Questions of one folder are also asked of the others, to see how many pass relevance 0.5 where
they have no business to.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx

from knowledge.engine.measure import Measures, average, difference, estimate, mean
from knowledge.engine.measure import measure as measured
from serving import Served, serving

DEPTH = 100
RELEVANT = 0.5
REFUSED = 422
PAIRS = (("hybrid", "text"), ("hybrid", "vector"), ("rerank", "hybrid"))


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


@dataclass(frozen=True)
class Measured:
    """One mode on one set, question by question."""

    mode: str
    measures: list[Measures]
    passes: float

    @property
    def ndcg(self) -> list[float]:
        return [one.ndcg for one in self.measures]


@dataclass(frozen=True)
class Plan:
    """What is asked for on the command line."""

    modes: list[str]
    budget_ms: int | None
    foreign: int


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


def ask(
    http: httpx.Client, collection: str, question: str, mode: str, budget_ms: int | None = None
) -> tuple[list[str], float]:
    """The documents, each once, best first, and the relevance of the best."""
    body = {"query": question, "top": DEPTH, "collection": collection, "mode": mode}
    answer = http.post("/api/v1/search", json=body if budget_ms is None else body | {"budget_ms": budget_ms})
    if answer.status_code == REFUSED:  # a question without a word
        return [], 0.0
    answer.raise_for_status()
    results = answer.json()["results"]
    ranked = list(dict.fromkeys(hit["source_path"] for hit in results))
    return ranked, results[0]["score"] if results else 0.0


def measure(server: Served, judged: Judged, mode: str, plan: Plan) -> Measured:
    measures: list[Measures] = []
    passes = 0
    for identity, question in judged.questions:
        ranked, best = ask(server.http, judged.name, question, mode, plan.budget_ms)
        measures.append(measured(ranked, judged.grades[identity]))
        passes += best >= RELEVANT
    return Measured(mode, measures, passes / len(judged.questions))


def show(judged: Judged, row: Measured) -> None:
    means, spread = average(row.measures), estimate(row.ndcg)
    print(
        f"{judged.name:12} {row.mode:8} {means.ndcg:.4f}  [{spread.low:.3f}, {spread.high:.3f}]  "
        f"{means.recall:.4f} {means.mrr:.4f}  {row.passes:.3f}",
        flush=True,
    )


def off_topic(server: Served, judged: Judged, sets: Sequence[Judged], most: int) -> Iterator[str]:
    """Questions of the other sets asked of this one."""
    for other in sets:
        if other is not judged:
            some = random.Random(7).sample(other.questions, min(most, len(other.questions)))
            passed = sum(ask(server.http, judged.name, text, "hybrid")[1] >= RELEVANT for _, text in some)
            yield f"  {other.name:12} of {judged.name:12} {passed / len(some):.3f}"


def show_differences(found: dict[str, dict[str, Measured]]) -> None:
    """One mode against another: in each set, and on the mean of the sets."""
    for better, worse in PAIRS:
        gains = {
            name: difference(rows[better].ndcg, rows[worse].ndcg)
            for name, rows in found.items()
            if better in rows and worse in rows
        }
        if gains:
            print(f"\n{better} against {worse}: difference of nDCG@10  [95 %, paired]")
            for name, gain in gains.items():
                print(f"  {name:12} {gain.mean:+.4f}  [{gain.low:+.4f}, {gain.high:+.4f}]")
            print(f"  {'mean of sets':12} {mean([gain.mean for gain in gains.values()]):+.4f}", flush=True)


def run(servers: Sequence[tuple[Path | None, Sequence[Judged]]], sets: Sequence[Judged], plan: Plan) -> None:
    """Each server with the sets that it holds, one after the other."""
    found: dict[str, dict[str, Measured]] = {}
    foreign: list[str] = []
    print(f"{'set':12} {'mode':8} nDCG@10  [95 %]          R@10   MRR@10  passes .5", flush=True)
    for data, held in servers:
        with serving(data) as server:
            for judged in held:
                fill(server, judged)
            for judged in held:
                for mode in plan.modes:
                    row = found.setdefault(judged.name, {})[mode] = measure(server, judged, mode, plan)
                    show(judged, row)
                foreign += off_topic(server, judged, sets, plan.foreign) if plan.foreign else []
    show_differences(found)
    if foreign:
        print("\nquestions asked of another collection: share that passes relevance 0.5", *foreign, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--modes", default="hybrid,text,vector", help="of hybrid, text, vector and rerank, by comma")
    parser.add_argument("--budget-ms", type=int, help="how long reranking may take, instead of the server's setting")
    parser.add_argument("--data", type=Path, help="keep what was put in, and use it again")
    parser.add_argument("--together", action="store_true", help="all folders on one server")
    parser.add_argument("--foreign", type=int, default=200, help="how many questions of a set are asked of the others")
    arguments = parser.parse_args()
    sets = [Judged.read(folder) for folder in arguments.folders]
    data: Path | None = arguments.data
    alone = [(data / judged.name if data else None, [judged]) for judged in sets]
    servers = [(data, sets)] if arguments.together else alone
    run(servers, sets, Plan(arguments.modes.split(","), arguments.budget_ms, arguments.foreign))


if __name__ == "__main__":
    main()
