"""Runs `knowledge serve` in a process and reads its health, log and memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx

TIMEOUT_SECONDS = 60.0
CALL_TIMEOUT_SECONDS = 300.0
JOB_TIMEOUT_SECONDS = 1800.0
"""Half an hour, because a very large file takes minutes on a busy machine."""
HEALTH_SECONDS = 5.0
"""Limit for /health while other tests keep the machine busy."""
POLL_SECONDS = 0.05
WITHOUT_MODELS = {"KNOWLEDGE_EMBEDDING": "none", "KNOWLEDGE_RERANKER": "none"}


@dataclass(frozen=True)
class ServerProcess:
    process: subprocess.Popen[bytes]
    url: str
    log: Path
    http: httpx.Client
    """Sends requests to /api/v1."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def get_health(self, timeout: float = HEALTH_SECONDS) -> int:
        # There is no TLS: without `verify` the certificates are not loaded.
        return httpx.get(f"{self.url}/health", timeout=timeout, verify=False).status_code

    def add_file(self, filename: str, content: bytes) -> httpx.Response:
        return self.http.post("/jobs", files={"file": (filename, content)})

    def wait_for_outcome(self, answer: httpx.Response) -> dict[str, Any]:
        """Return the ended job of an accepted request, or the body of a refused one."""
        body: dict[str, Any] = answer.json()
        if answer.status_code != httpx.codes.ACCEPTED:
            assert answer.status_code < 500, answer.text
            return body
        return self.wait_for_job(body["job_id"])

    def wait_for_job(self, job: int | str) -> dict[str, Any]:
        deadline = time.monotonic() + JOB_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            found: dict[str, Any] = self.http.get(f"/jobs/{job}").json()
            if found["status"] not in ("queued", "processing"):
                return found
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"job {job} did not end")

    def crawl(self, url: str, **options: object) -> dict[str, Any]:
        """Run a crawl to its end and return its report."""
        answer = self.http.post("/crawls", json={"url": url, **options})
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        job = answer.json()["id"]
        self.wait_for_job(job)
        report: dict[str, Any] = self.http.get(f"/crawls/{job}").json()
        return report

    def read_resident_bytes(self) -> int:
        return self._read_memory("VmRSS")

    def read_anonymous_bytes(self) -> int:
        """Return the memory without mapped files such as the database, which the kernel can reclaim."""
        return self._read_memory("RssAnon")

    def read_peak_bytes(self) -> int:
        """Return the peak of the resident memory since `reset_peak`."""
        return self._read_memory("VmHWM")

    def reset_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _read_memory(self, name: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10


@contextmanager
def run_server_process(
    folder: Path, *, preexec: Callable[[], None] | None = None, **environment: str
) -> Iterator[ServerProcess]:
    """Run a server on a free port with its data and log in a folder, and wait until it is healthy."""
    with run_server_process_on_port(0, folder, environment, preexec) as server:
        yield server


@contextmanager
def run_server_process_on_port(
    port: int, folder: Path, environment: Mapping[str, str] | None = None, preexec: Callable[[], None] | None = None
) -> Iterator[ServerProcess]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    command = [sys.executable, "-m", "knowledge", "--data", str(folder / "data"), "serve", "--port", str(port)]
    log = folder / "server.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command, env={**inherited, **WITHOUT_MODELS, **(environment or {})}, cwd=folder, stdin=subprocess.DEVNULL,
            stderr=stderr, preexec_fn=preexec,
        )  # fmt: skip
    try:
        url = _wait_for_address(process, log)
        with httpx.Client(base_url=f"{url}/api/v1", timeout=CALL_TIMEOUT_SECONDS) as http:
            server = ServerProcess(process, url, log, http)
            wait_until(lambda: server.get_health() == httpx.codes.OK)
            yield server
    finally:
        process.terminate()
        try:
            process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:  # a frozen process ignores SIGTERM
            process.kill()
            process.wait(TIMEOUT_SECONDS)


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    def find_address() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text("utf-8")
        return re.search(r"http://\S+:\d+", log.read_text("utf-8"))

    wait_until(lambda: find_address() is not None)
    address = find_address()
    assert address is not None
    return address[0]


def wait_until(condition: Callable[[], bool], timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Poll until the condition is true, or fail after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition is still false after {timeout_seconds} s"
        time.sleep(0.02)


class HealthProbe:
    """Requests /health repeatedly in a thread, on a new connection each time."""

    def __init__(self, url: str, also: Callable[[], object] | None = None) -> None:
        self._address, self._also = url.removeprefix("http://"), also
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._probe_repeatedly, daemon=True)
        self.answers = 0
        self.failures: list[str] = []

    def __enter__(self) -> HealthProbe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(2 * HEALTH_SECONDS)

    def _probe_repeatedly(self) -> None:
        while not self.failures:
            try:
                self._probe()
                if self._also is not None:
                    self._also()
            except (OSError, HTTPException) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            if self._stopped.wait(POLL_SECONDS):  # after a probe, so that no failures means at least one answer
                return

    def _probe(self) -> None:
        with closing(HTTPConnection(self._address, timeout=HEALTH_SECONDS)) as connection:
            connection.request("GET", "/health")
            status = connection.getresponse().status
        if status == httpx.codes.OK:
            self.answers += 1
        else:
            self.failures.append(f"HTTP {status}")
