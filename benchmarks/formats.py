"""Measures how much of the expected content of documents is extracted, through the REST API.

    python benchmarks/formats.py [FOLDER] [--at-least SHARE] [--json FILE]

FOLDER contains documents and `expect.json`, which lists for each file phrases with their order and pages, headings,
cells of one table row, and the allowed outcomes of the job. Each file is sent to `POST /api/v1/jobs`; the chunks from
`GET /api/v1/documents/{id}` are compared. Without a folder a PDF and a Word document are generated.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import cast

import httpx

from expectations import Expectation, ExtractedDocument, Score, score_document
from made_documents import write_docx, write_pdf
from results import Result, add_json_option, write_results
from server import run_server

JOB_SECONDS = 300


def extract_over_rest(http: httpx.Client, path: Path) -> ExtractedDocument:
    with path.open("rb") as file:
        answer = http.post("/api/v1/jobs", files={"file": (path.name, file)})
    if answer.status_code != httpx.codes.ACCEPTED:
        return ExtractedDocument(status=_to_status(answer.json()["error"]["code"]))
    job = _wait_for_job(http, answer.json()["job_id"])
    if job["status"] not in ("completed", "partial"):
        error = cast(dict[str, str], job.get("error") or {})
        return ExtractedDocument(status=_to_status(error.get("code", "")))
    return _to_extracted(http.get(f"/api/v1/documents/{job['document_id']}").json(), str(job["status"]))


def _to_status(code: str) -> str:
    return "needs_password" if code == "needs_password" else "failed"


def _wait_for_job(http: httpx.Client, job_id: object) -> dict[str, object]:
    for _ in range(JOB_SECONDS * 20):
        job: dict[str, object] = http.get(f"/api/v1/jobs/{job_id}").json()
        if job["status"] not in ("queued", "processing"):
            return job
        time.sleep(0.05)
    return job


def _to_extracted(document: dict[str, object], status: str) -> ExtractedDocument:
    found = ExtractedDocument(status, page_count=cast("int | None", document.get("page_count")))
    texts: list[str] = []
    pages: dict[int, list[str]] = defaultdict(list)
    for chunk in cast(list[dict[str, object]], document["chunks"]):
        headings = _split_headings(chunk.get("section_header"))
        new = [heading for heading in headings if heading not in found.headings]
        found.headings.update(headings)
        text = "\n".join([*new, str(chunk["text"])])
        found.headings.update(line.lstrip("# ") for line in text.split("\n") if line.startswith("#"))
        texts.append(text)
        if isinstance(chunk.get("page"), int):
            pages[cast(int, chunk["page"])].append(text)
    found.text = "\n".join(texts)
    found.pages = {number: "\n".join(parts) for number, parts in pages.items()}
    return found


def _split_headings(section: object) -> list[str]:
    if isinstance(section, list):
        return [str(heading) for heading in section]
    return [part.strip() for part in str(section).split(" > ")] if section else []


def print_scores(scores: dict[str, dict[str, Score]]) -> tuple[int, int]:
    """Print the scores by kind; return the number of expectations that hold, and of all."""
    print(f"{'kind':<10} {'files':>5} {'whole':>5}   holding / all")
    held = asked = 0
    for kind, files in scores.items():
        sums = {name: [0, 0] for one in files.values() for name in one.checked}
        for one in files.values():
            for name, count in one.checked.items():
                sums[name][0] += one.passed[name]
                sums[name][1] += count
        held += sum(pair[0] for pair in sums.values())
        asked += sum(pair[1] for pair in sums.values())
        whole = sum(not one.missed for one in files.values())
        parts = "  ".join(f"{name} {pair[0]}/{pair[1]}" for name, pair in sums.items())
        print(f"{kind:<10} {len(files):5d} {whole:5d}   {parts}")
    for files in scores.values():
        for name, one in files.items():
            for missed in one.missed:
                print(f"  {name}: {missed}"[:160])
    print(f"all: {held} of {asked} hold, {held / max(1, asked):.1%}")
    return held, asked


def make_folder(folder: Path) -> None:
    """Write two documents and their expectations."""
    write_pdf(folder / "ledger.pdf", pages=12)
    write_docx(folder / "sections.docx", sections=60)
    pages = {f"Page {page} of the ledger": page for page in range(1, 13)}
    wanted: list[Expectation] = [
        {"file": "ledger.pdf", "kind": "pdf", "must_contain": list(pages), "must_contain_in_order": True,
         "pages": 12, "phrase_pages": pages, "outcome": ["completed"]},
        {"file": "sections.docx", "kind": "docx", "headings": [f"Section {number}" for number in range(60)],
         "outcome": ["completed"]},
    ]  # fmt: skip
    (folder / "expect.json").write_text(json.dumps(wanted), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--at-least", type=float, default=0.0, help="exit with status 1 below this share")
    add_json_option(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if given.folder is None:
            make_folder(Path(made))
        held, asked = print_scores(score_folder(given.folder or Path(made)))
    write_results(given.json, [Result("expectations of extracted documents", held, "", "all", asked)])
    sys.exit(held / max(1, asked) < given.at_least)


def score_folder(folder: Path) -> dict[str, dict[str, Score]]:
    wanted = cast(list[Expectation], json.loads((folder / "expect.json").read_text("utf-8")))
    scores: dict[str, dict[str, Score]] = defaultdict(dict)
    with run_server(KNOWLEDGE_EMBEDDING="none") as served:
        for one in wanted:
            scores[one["kind"]][one["file"]] = score_document(one, extract_over_rest(served.http, folder / one["file"]))
    return scores


if __name__ == "__main__":
    main()
