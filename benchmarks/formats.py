"""Every file of a folder through the public API, and how much of what it should hold can be found afterwards.

    python benchmarks/formats.py FOLDER

FOLDER holds documents and `expect.json`: for each file the phrases that a reader of it sees, in what order and on which
page, its headings, cells that stand in one row, and how its job may end. Each file is sent to `POST /api/v1/jobs` of a
server of its own; what is judged are the passages that `GET /api/v1/documents/{id}` shows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import cast

import httpx

from expectations import Expectation, ExtractedDocument, Score, score_document
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


def print_scores(scores: dict[str, dict[str, Score]]) -> float:
    print(f"{'kind':<10} {'files':>5} {'whole':>5}   held of asked")
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
    return held / max(1, asked)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--at-least", type=float, default=0.0, help="exit 1 below this share")
    given = arguments.parse_args()
    wanted = cast(list[Expectation], json.loads((given.folder / "expect.json").read_text("utf-8")))
    scores: dict[str, dict[str, Score]] = defaultdict(dict)
    with run_server(KNOWLEDGE_EMBEDDING="none") as served:
        for one in wanted:
            scores[one["kind"]][one["file"]] = score_document(
                one, extract_over_rest(served.http, given.folder / one["file"])
            )
    sys.exit(print_scores(scores) < given.at_least)


if __name__ == "__main__":
    main()
