"""`knowledge serve` as a process of its own: does it answer, what did it log, and how much memory did it take?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx

LIMIT = 60.0
CALL_LIMIT = 300.0
JOB_LIMIT = 1800.0
"""A very large file may take minutes, and the machine may be busy."""
HEALTH_SECONDS = 5.0
"""Within this time /health answers, even on a machine that is busy with other tests."""
POLL_SECONDS = 0.05
WITHOUT_MODELS = {"KNOWLEDGE_EMBEDDING": "none", "KNOWLEDGE_RERANKER": "none"}


@dataclass(frozen=True)
class ServerProcess:
    process: subprocess.Popen[bytes]
    url: str
    log: Path
    http: httpx.Client
    """A client of the REST API."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def health(self, timeout: float = HEALTH_SECONDS) -> int:
        # There is no TLS: without `verify` the certificates are not loaded.
        return httpx.get(f"{self.url}/health", timeout=timeout, verify=False).status_code

    def add(self, filename: str, content: bytes) -> httpx.Response:
        return self.http.post("/jobs", files={"file": (filename, content)})

    def outcome(self, answer: httpx.Response) -> dict[str, Any]:
        """How an accepted job ended, or the refusal."""
        body: dict[str, Any] = answer.json()
        if answer.status_code != httpx.codes.ACCEPTED:
            assert answer.status_code < 500, answer.text
            return body
        return self.wait_for_job(body["job_id"])

    def wait_for_job(self, job: int | str) -> dict[str, Any]:
        until = time.monotonic() + JOB_LIMIT
        while time.monotonic() < until:
            found: dict[str, Any] = self.http.get(f"/jobs/{job}").json()
            if found["status"] not in ("queued", "processing"):
                return found
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"job {job} did not end")

    def crawl(self, url: str, **options: object) -> dict[str, Any]:
        """The report of a crawl that has ended."""
        answer = self.http.post("/crawls", json={"url": url, **options})
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        job = answer.json()["id"]
        self.wait_for_job(job)
        report: dict[str, Any] = self.http.get(f"/crawls/{job}").json()
        return report

    def resident(self) -> int:
        return self._memory("VmRSS")

    def anonymous(self) -> int:
        """Its memory without mapped files, such as the database, which the kernel takes back when others need it."""
        return self._memory("RssAnon")

    def peak(self) -> int:
        """The most memory that it has held since `forget_peak`, in bytes."""
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _memory(self, name: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10


@contextmanager
def server_process(
    folder: Path, *, preexec: Callable[[], None] | None = None, **environment: str
) -> Iterator[ServerProcess]:
    """A server on any free port, healthy, with its data and its log in this folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    command = [sys.executable, "-m", "knowledge", "--data", str(folder / "data"), "serve", "--port", "0"]
    log = folder / "server.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command, env={**kept, **WITHOUT_MODELS, **environment}, cwd=folder, stdin=subprocess.DEVNULL,
            stderr=stderr, preexec_fn=preexec,
        )  # fmt: skip
    try:
        url = _wait_for_address(process, log)
        with httpx.Client(base_url=f"{url}/api/v1", timeout=CALL_LIMIT) as http:
            server = ServerProcess(process, url, log, http)
            wait_until(lambda: server.health() == httpx.codes.OK)
            yield server
    finally:
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:  # one that was frozen hears nothing else
            process.kill()
            process.wait(LIMIT)


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    def find_address() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text("utf-8")
        return re.search(r"http://\S+:\d+", log.read_text("utf-8"))

    wait_until(lambda: find_address() is not None)
    address = find_address()
    assert address is not None
    return address[0]


def wait_until(holds: Callable[[], bool], limit: float = LIMIT) -> None:
    """Ask again and again, for so many seconds."""
    end = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


class Pulse:
    """Asks for /health all the time, on a connection of its own each time."""

    def __init__(self, url: str, besides: Callable[[], object] | None = None) -> None:
        self._address, self._besides = url.removeprefix("http://"), besides
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self.answers = 0
        self.failures: list[str] = []

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(2 * HEALTH_SECONDS)

    def _beat(self) -> None:
        while not self._ended.is_set() and not self.failures:
            try:
                self._ask()
                if self._besides is not None:
                    self._besides()
            except (OSError, HTTPException) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            self._ended.wait(POLL_SECONDS)

    def _ask(self) -> None:
        with closing(HTTPConnection(self._address, timeout=HEALTH_SECONDS)) as connection:
            connection.request("GET", "/health")
            status = connection.getresponse().status
        if status == httpx.codes.OK:
            self.answers += 1
        else:
            self.failures.append(f"HTTP {status}")
