"""Sets of documents with judged questions, and their import into a server."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from server import BenchmarkServer

ROOT = Path(__file__).parents[1]
SEED = 7
MIN_IMPORTED_SHARE = 0.9
# Identical texts become one document, so a server may have fewer documents than the folder.


@dataclass(frozen=True)
class Question:
    text: str
    grades: dict[str, int]


@dataclass(frozen=True)
class JudgedSet:
    """A folder with corpus.jsonl, queries.jsonl, qrels.tsv and optionally unanswerable.jsonl."""

    name: str
    folder: Path
    questions: Sequence[Question]
    unanswerable: Sequence[Question]
    """Questions about the topic that the documents do not answer."""

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


def write_own_set(folder: Path) -> None:
    """Write the pages and questions of tests/quality as a judged set."""
    questions = read_rows(ROOT / "tests/quality/questions.jsonl")
    pages = sorted({row["document"] for row in questions if row.get("document")})
    folder.mkdir()
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as corpus:
        for page in pages:
            text = (ROOT / ("src/knowledge" if page.startswith("content/") else "") / page).read_text("utf-8")
            corpus.write(json.dumps({"_id": page, "title": "", "text": text}) + "\n")
    asked = [(str(number), row) for number, row in enumerate(questions) if row.get("document")]
    queries = (json.dumps({"_id": number, "text": row["question"]}) for number, row in asked)
    (folder / "queries.jsonl").write_text("\n".join(queries), "utf-8")
    grades = "".join(f"{number}\t{row['document']}\t1\n" for number, row in asked)
    (folder / "qrels.tsv").write_text("query\tdocument\tgrade\n" + grades, "utf-8")


def sample_questions(questions: Sequence[Question], max_questions: int | None) -> Sequence[Question]:
    """Return at most this many questions, the same ones in every run."""
    if max_questions is None or len(questions) <= max_questions:
        return questions
    return random.Random(SEED).sample(questions, max_questions)


def import_documents(server: BenchmarkServer, judged: JudgedSet) -> None:
    """Import the documents unless the server already has them."""
    documents = judged.documents()
    if count_documents(server, judged.name) >= len(documents) * MIN_IMPORTED_SHARE:
        wait_for_index(server)
        return
    began = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: add_document(server, judged.name, row), documents))
    while count_waiting(server):
        time.sleep(0.5)
    print(f"{judged.name}: {len(documents)} documents in {time.perf_counter() - began:.0f} s", flush=True)


def count_documents(server: BenchmarkServer, collection: str) -> int:
    answer = server.http.get(f"/api/v1/collections/{collection}")
    return int(answer.json()["document_count"]) if answer.status_code == 200 else 0


def add_document(server: BenchmarkServer, collection: str, row: dict[str, str]) -> None:
    """Add a document as a note with its id as the source path, so that equal texts with two ids stay two documents."""
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
    """Wait for a rebuild, which an index of an older version starts in the background."""
    while server.http.post("/api/v1/search", json={"query": "anything", "mode": "text"}).json().get("notes"):
        time.sleep(0.5)


def count_waiting(server: BenchmarkServer) -> int:
    """Return the number of unfinished jobs."""
    answer = server.http.get("/api/v1/status")
    answer.raise_for_status()
    queue: dict[str, int] = answer.json()["queue"]
    return queue["queued"] + queue["processing"]
