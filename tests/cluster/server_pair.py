"""Runs `knowledge serve` processes on one database with a shared folder of originals."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.server_process import ServerProcess, run_server_process_on_port, wait_until

READY_SECONDS = 60.0
LEASE_SECONDS = 5.0


@contextmanager
def run_member(folder: Path, url: str, name: str, **environment: str) -> Iterator[ServerProcess]:
    """Run one server of the database and wait until a load balancer would send requests to it."""
    own = folder / name
    own.mkdir(exist_ok=True)
    shared = {"KNOWLEDGE_DATABASE_URL": url}
    if "KNOWLEDGE_ORIGINALS_URL" not in environment:
        shared["KNOWLEDGE_ORIGINALS"] = str(folder / "originals")
    given = {"KNOWLEDGE_LEASE_S": str(LEASE_SECONDS), "KNOWLEDGE_WORKERS": "2", **shared, **environment}
    with run_server_process_on_port(0, own, given) as server:
        wait_until(lambda: check_ready(server), READY_SECONDS)
        yield server


def check_ready(server: ServerProcess) -> bool:
    return httpx.get(f"{server.url}/ready", timeout=10, verify=False).status_code == httpx.codes.OK


def add_note(server: ServerProcess, text: str, title: str = "", uid: str | None = None) -> int:
    """Add a note and return its job; raises if it was not accepted. With `uid` it can be repeated."""
    body = {"note": text, "title": title or text[:40], "job_uid": uid}
    answer = server.http.post("/jobs", json=body, timeout=30)
    answer.raise_for_status()
    return int(answer.json()["job_id"])


def find_titles(server: ServerProcess, word: str) -> list[str]:
    """Return the titles of the documents that contain a word, by search."""
    answer = server.http.post("/search", json={"query": word, "fts_only": True, "top": 50})
    answer.raise_for_status()
    return [hit["title"] for hit in answer.json()["results"]]


def make_word(number: int) -> str:
    """Return a word of letters alone that no other number has."""
    return "quartz" + "".join(chr(ord("a") + int(digit)) for digit in str(number)) + "vex"


def read_statuses(server: ServerProcess, jobs: list[int]) -> dict[int, str]:
    return {job: server.http.get(f"/jobs/{job}").json()["status"] for job in jobs}


def verify(server: ServerProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.http.post("/verify").json()["findings"]
    return found


def wait_for_exit(process: subprocess.Popen[bytes]) -> int:
    return process.wait(60)
