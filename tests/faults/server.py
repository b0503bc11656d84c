"""A real server process for hostile input: is it still answering, and how much memory did it take?"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx

from tests.contracts.kb.processes import WORDS_ONLY, Served

LIMIT = 300.0
JOB_LIMIT = 1800.0
"""A very large file may take minutes, and the machine may be busy."""
HEALTH_SECONDS = 5.0
"""Within this time /health answers, even on a machine that is busy with other tests."""
POLL_SECONDS = 0.05


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


class Server:
    def __init__(self, process: Served) -> None:
        self.url, self._pid = process.url, process.process.pid
        self.http = httpx.Client(base_url=f"{self.url}/api/v1", timeout=LIMIT)

    def add(self, filename: str, content: bytes) -> httpx.Response:
        return self.http.post("/jobs", files={"file": (filename, content)})

    def outcome(self, answer: httpx.Response) -> dict[str, Any]:
        """How an accepted job ended, or the refusal."""
        body: dict[str, Any] = answer.json()
        if answer.status_code != httpx.codes.ACCEPTED:
            assert answer.status_code < 500, answer.text
            return body
        return self.ended(body["job_id"])

    def ended(self, job: int | str) -> dict[str, Any]:
        until = time.monotonic() + JOB_LIMIT
        while time.monotonic() < until:
            found: dict[str, Any] = self.http.get(f"/jobs/{job}").json()
            if found["status"] not in ("queued", "processing"):
                return found
            threading.Event().wait(POLL_SECONDS)
        raise AssertionError(f"job {job} did not end")

    def crawl(self, url: str, **options: object) -> dict[str, Any]:
        """The report of a crawl that has ended."""
        answer = self.http.post("/crawls", json={"url": url, **options})
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        job = answer.json()["id"]
        self.ended(job)
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
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")

    def _memory(self, name: str) -> int:
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10


@contextmanager
def a_server(data: Path, **environment: str) -> Iterator[Server]:
    given = {"KNOWLEDGE_CRAWL_ALLOW": "127.0.0.1", "KNOWLEDGE_CRAWL_DELAY": "0", "KNOWLEDGE_WORKERS": "1"}
    process = Served(("serve", "--data", str(data)), {**WORDS_ONLY, **given, **environment})
    try:
        server = Server(process)
        with server.http:
            until = time.monotonic() + LIMIT
            while server.http.get("/health").status_code != httpx.codes.OK and time.monotonic() < until:
                threading.Event().wait(POLL_SECONDS)
            yield server
    finally:
        process.kill(signal.SIGKILL)  # one that was frozen hears nothing else
