"""`knowledge serve` as a process of its own, with its log in a file and its limits chosen by the test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

LIMIT = 60.0


@dataclass(frozen=True)
class ServerProcess:
    process: subprocess.Popen[bytes]
    url: str
    log: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def health(self, timeout: float = 5.0) -> int:
        return httpx.get(
            f"{self.url}/health", timeout=timeout, verify=False
        ).status_code  # no TLS: skip its certificates


@contextmanager
def server_process(
    folder: Path, *, preexec: Callable[[], None] | None = None, **environment: str
) -> Iterator[ServerProcess]:
    """Started on any free port, and healthy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    given = {**kept, "KNOWLEDGE_EMBEDDING": "none", "KNOWLEDGE_RERANKER": "none", **environment}
    command = [sys.executable, "-m", "knowledge", "--data", str(folder / "data"), "serve", "--port", "0"]
    log = folder / "server.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command, env=given, cwd=folder, stdin=subprocess.DEVNULL, stderr=stderr, preexec_fn=preexec
        )
    try:
        server = ServerProcess(process, _address(process, log), log)
        wait_until(lambda: server.health() == 200)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LIMIT)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    def found() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text("utf-8")
        return re.search(r"http://\S+:\d+", log.read_text("utf-8"))

    wait_until(lambda: found() is not None)
    address = found()
    assert address is not None
    return address[0]


def wait_until(holds: Callable[[], bool], limit: float = LIMIT) -> None:
    """Ask again and again, for so many seconds."""
    end = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
