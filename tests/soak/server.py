"""One server on a fixed port that is stopped, killed and started again, and whose memory is read."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx

from tests.support.postgres import find_free_port

START_SECONDS = 120.0
STOP_SECONDS = 60.0
MEGABYTE = 1 << 20
OPERATOR_KEY = "operator-key-of-the-soak-0123456789"
LIMITS = ("QUERY", "TYPING", "UPLOAD", "SESSION_UPLOAD", "MANAGEMENT", "PAGE", "AUTH")


@dataclass(frozen=True, slots=True)
class Sample:
    """What a server process uses at one moment."""

    at: float
    anonymous_mb: float
    """Memory without mapped files, of the server and its child processes."""
    descriptors: int
    threads: int


@dataclass
class RestartedServer:
    folder: Path
    environment: Mapping[str, str]
    port: int = field(default_factory=find_free_port)
    epoch: int = 0
    """Odd while the server is stopped."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    samples: list[Sample] = field(default_factory=list)
    """Of the process that runs now."""
    process: subprocess.Popen[bytes] | None = None
    down_seconds: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    async def start(self) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
        limits = {f"KNOWLEDGE_{name}_RATE_LIMIT": "off" for name in LIMITS}
        fixed = {"KNOWLEDGE_API_KEY": OPERATOR_KEY, "KNOWLEDGE_LOG_LEVEL": "warning"}
        command = [sys.executable, "-m", "knowledge", "--data", str(self.data), "serve", "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env={**inherited, **limits, **fixed, **self.environment}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(base_url=self.url) as http:
            while not await self._is_healthy(http):
                assert self.process.poll() is None, self.log.read_text("utf-8")[-3000:]
                await asyncio.sleep(0.05)
        self.samples = []
        self.ready.set()

    async def _is_healthy(self, http: httpx.AsyncClient) -> bool:
        try:
            return (await http.get("/health")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    async def restart(self, kill: bool) -> None:
        """Stop the server, by SIGKILL or by SIGTERM, and start it again."""
        began = time.monotonic()
        self.ready.clear()
        self.epoch += 1
        await self.stop(kill)
        await self.start()
        self.epoch += 1
        self.down_seconds.append(time.monotonic() - began)

    async def stop(self, kill: bool = False) -> None:
        if self.process is None:
            return
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        try:
            await asyncio.to_thread(self.process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def take_sample(self) -> None:
        if self.process is None or not self.ready.is_set():
            return
        status = Path(f"/proc/{self.process.pid}")
        try:
            memory = sum(map(read_anonymous_bytes, list_family(self.process.pid))) / MEGABYTE
            descriptors, threads = len([*(status / "fd").iterdir()]), len([*(status / "task").iterdir()])
        except OSError:  # the server was just killed
            return
        self.samples.append(Sample(time.monotonic(), memory, descriptors, threads))


def list_family(pid: int) -> list[int]:
    """Return a process and all processes below it."""
    family = [pid]
    for parent in family:  # grows while it is read
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                family += map(int, task.read_text().split())
            except OSError:  # a thread has ended
                continue
    return family


def read_anonymous_bytes(pid: int) -> int:
    """Return the resident memory of a process without mapped files; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")), 0)


@dataclass(frozen=True, slots=True)
class Growth:
    """Memory and descriptors after the warm-up and at the end, each the median of some samples."""

    memory_mb: tuple[float, float]
    descriptors: tuple[float, float]
    threads: tuple[float, float]
    seconds: float

    @classmethod
    def measure(cls, samples: list[Sample], warm_up_share: float, window: int) -> Growth:
        warm = samples[int(len(samples) * warm_up_share) :]
        first, last = warm[:window], warm[-window:]
        return cls(
            (median(each.anonymous_mb for each in first), median(each.anonymous_mb for each in last)),
            (median(each.descriptors for each in first), median(each.descriptors for each in last)),
            (median(each.threads for each in first), median(each.threads for each in last)),
            last[0].at - first[0].at,
        )
