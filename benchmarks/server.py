"""Starts a server in a child process, for benchmarks of the public API."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass(frozen=True)
class BenchmarkServer:
    http: httpx.Client
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return str(self.http.base_url).rstrip("/")

    def cpu_seconds(self) -> float:
        return read_cpu_seconds(self.process.pid)

    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def anonymous_mb(self) -> float:
        """Return the resident memory without mapped files (RssAnon)."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def run_server(
    data: Path | None = None, program: Sequence[str] = ("-m", "knowledge"), **settings: str
) -> Iterator[BenchmarkServer]:
    """Run `knowledge serve` on a free port with a temporary data folder, and terminate it afterwards."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        environment = {
            **os.environ,
            "KNOWLEDGE_DATA": str(data or Path(folder) / "data"),
            "KNOWLEDGE_LOG_LEVEL": "error",
        }
        command = [sys.executable, *program, "serve", "--port", str(port)]
        process = subprocess.Popen(command, env={**environment, **settings}, stderr=subprocess.DEVNULL)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as http:
                wait_until_healthy(http, process)
                yield BenchmarkServer(http, process)
        finally:
            process.terminate()
            process.wait(60)


def wait_until_healthy(http: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            if http.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.01)
    raise SystemExit(f"The server exited with status {process.returncode} before it was healthy")
