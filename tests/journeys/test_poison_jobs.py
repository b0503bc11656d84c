"""A job that kills or freezes the server is found out, failed and told; the jobs beside it are done all the same."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.command_line import Shell
from tests.support.hostile_models import DEADLY_WORD, SLOW_WORD

SERVER = Path(__file__).with_name("poison_server.py")
LIMIT = 120.0
FROZEN_SECONDS = 4.0
"""A server that does not answer for so long counts as frozen."""
PARSE_SECONDS = "15"
"""How long a step in a child may take, beside what its length adds."""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Service:
    """A server on one data folder, started again and again."""

    def __init__(self, folder: Path) -> None:
        self._data, self._log, self._port = folder / "data", folder / "log", free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._http = httpx.Client(base_url=f"{self.url}/api/v1", timeout=LIMIT)

    @contextmanager
    def running(self, deed: str) -> Iterator[subprocess.Popen[bytes]]:
        environment = {"KNOWLEDGE_WORKERS": "2", "KNOWLEDGE_PARSE_SECONDS": PARSE_SECONDS, "PATH": "/usr/bin:/bin"}
        command = [sys.executable, str(SERVER), deed, "--data", str(self._data), "--port", str(self._port)]
        with self._log.open("ab") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(LIMIT)
                finally:
                    process.kill()

    def wait_healthy(self) -> None:
        until(lambda: self._health() == 200)

    def wait_frozen(self) -> None:
        until(lambda: self._health() is None)

    def _health(self) -> int | None:
        """The status that it answers; 0 while nobody listens, and None when somebody does who never answers."""
        try:
            return httpx.get(f"{self.url}/health", timeout=FROZEN_SECONDS).status_code
        except httpx.TimeoutException:
            return None
        except httpx.TransportError:
            return 0

    def note(self, text: str) -> str:
        """Its job; the server may be dead before it can answer."""
        job = str(uuid4())
        with suppress(httpx.TransportError):
            self._http.post("/jobs", json={"note": text, "job_uid": job}).raise_for_status()
        return job

    def file(self, name: str, text: str) -> str:
        return str(self._http.post("/jobs", files={"file": (name, text)}).raise_for_status().json()["job_id"])

    def job(self, ref: str) -> dict[str, Any]:
        job: dict[str, Any] = self._http.get(f"/jobs/{ref}").raise_for_status().json()
        return job

    def ended(self, ref: str) -> dict[str, Any]:
        until(lambda: self.job(ref)["status"] not in ("queued", "processing"))
        return self.job(ref)

    def retry(self, ref: str) -> None:
        self._http.post(f"/jobs/{ref}/retry").raise_for_status()

    def log(self) -> str:
        return self._log.read_text()

    def close(self) -> None:
        self._http.close()


def until(holds: Any) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.close()


@pytest.mark.parametrize("deed", ["end", pytest.param("freeze", marks=pytest.mark.long)])
def test_a_job_that_kills_or_freezes_the_server_is_failed_and_every_other_job_is_done(
    service: Service, deed: str
) -> None:
    """The first life is ended by the poison, beside an innocent job; so is the second. The third one finds it out."""
    with service.running(deed) as process:
        service.wait_healthy()
        innocent = service.file("innocent.txt", f"{SLOW_WORD} is a virtue")
        until(lambda: service.job(innocent)["status"] == "processing")
        others = [service.file(f"{number}.txt", f"number {number} waits its turn") for number in range(3)]
        poison = service.note(f"{DEADLY_WORD} in a note")
        end_of(service, process, deed)
    with service.running(deed) as process:
        end_of(service, process, deed)

    with service.running(deed) as process:
        service.wait_healthy()
        failed = service.ended(poison)
        others_ended = [service.ended(number) for number in (innocent, *others)]
        assert [job["status"] for job in others_ended] == ["completed"] * 4, others_ended
        assert process.poll() is None
        assert failed["status"] == "failed" and failed["error"]["code"] == "job_crashed"
        reason = "SIGKILL" if deed == "end" else "took longer than"
        assert reason in failed["error"]["message"] and "no other job was running" in failed["error"]["message"]
        told = Shell({"KB_ENGINE_URL": service.url}).run_ok("jobs", "--status", "failed")
        assert reason in " ".join(told.split()) and "note" in told
    assert "runs alone" in service.log()

    with service.running("nothing"):
        service.wait_healthy()
        assert service.job(poison) == failed, "a restart does not begin it again"
        service.retry(poison)
        assert service.ended(poison)["status"] == "completed", "its original was kept"


def end_of(service: Service, process: subprocess.Popen[bytes], deed: str) -> None:
    """Wait for the death of the server; a frozen one is killed as its operator would."""
    if deed == "freeze":
        service.wait_frozen()
        process.send_signal(signal.SIGKILL)
    assert process.wait(LIMIT) == -signal.SIGKILL
