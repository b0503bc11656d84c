"""Folders of documents with judged questions, and a server that is filled with them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from server import BenchmarkServer

SEED = 7
MIN_HELD_SHARE = 0.9
"""Texts that are there twice are one document: fewer may be held than the folder has."""


@dataclass(frozen=True)
class Question:
    text: str
    grades: dict[str, int]


@dataclass(frozen=True)
class JudgedSet:
    """One folder: corpus.jsonl, queries.jsonl, qrels.tsv and, if it has one, unanswerable.jsonl."""

    name: str
    folder: Path
    questions: Sequence[Question]
    unanswerable: Sequence[Question]
    """About the documents, without an answer in them."""

    @classmethod
    def read(cls, folder: Path, max_questions: int | None) -> JudgedSet:
        grades = read_grades(folder / "qrels.tsv")
        asked = [Question(row["text"], grades.get(row["_id"], {})) for row in read_rows(folder / "queries.jsonl")]
        answerable = [one for one in asked if any(grade > 0 for grade in one.grades.values())]
        path = folder / "unanswerable.jsonl"
        without = [Question(row["text"], {}) for row in read_rows(path)] if path.is_file() else []
        return cls(
            folder.resolve().name,
            folder,
            sample_questions(answerable, max_questions),
            sample_questions(without, max_questions),
        )

    def documents(self) -> list[dict[str, str]]:
        return read_rows(self.folder / "corpus.jsonl")


def read_grades(path: Path) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for line in path.read_text("utf-8").splitlines()[1:]:
        question, document, grade = line.split("\t")
        grades.setdefault(question, {})[document] = int(float(grade))
    return grades


def read_rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]


def sample_questions(questions: Sequence[Question], max_questions: int | None) -> Sequence[Question]:
    """So many at most, the same ones every time."""
    if max_questions is None or len(questions) <= max_questions:
        return questions
    return random.Random(SEED).sample(questions, max_questions)


def import_documents(server: BenchmarkServer, judged: JudgedSet) -> None:
    """Put the documents in, unless they are there already."""
    documents = judged.documents()
    if count_held(server, judged.name) >= len(documents) * MIN_HELD_SHARE:
        wait_for_index(server)
        return
    began = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: add_document(server, judged.name, row), documents))
    while count_waiting(server):
        time.sleep(0.5)
    print(f"{judged.name}: {len(documents)} documents in {time.perf_counter() - began:.0f} s", flush=True)


def count_held(server: BenchmarkServer, collection: str) -> int:
    answer = server.http.get(f"/api/v1/collections/{collection}")
    return int(answer.json()["document_count"]) if answer.status_code == 200 else 0


def add_document(server: BenchmarkServer, collection: str, row: dict[str, str]) -> None:
    """The text is a note; its own id is the path, so that equal texts under two ids stay two documents."""
    title = row.get("title") or None
    note = {
        "note": row["text"].strip() or title or "-",
        "title": title,
        "collection": collection,
        "source_path": row["_id"],
    }
    answer = server.http.post("/api/v1/jobs", json=note)
    assert answer.status_code in (202, 409), answer.text


def wait_for_index(server: BenchmarkServer) -> None:
    """One of an older version is built again in the background, and finds nothing before."""
    while server.http.post("/api/v1/search", json={"query": "anything", "mode": "text"}).json().get("notes"):
        time.sleep(0.5)


def count_waiting(server: BenchmarkServer) -> int:
    """How many jobs have not ended."""
    answer = server.http.get("/api/v1/status")
    answer.raise_for_status()
    queue: dict[str, int] = answer.json()["queue"]
    return queue["queued"] + queue["processing"]
