"""A job that kills or freezes the server is identified and failed, and all other jobs are completed."""

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
TIMEOUT_SECONDS = 120.0
FROZEN_SECONDS = 4.0
"""A server that does not answer for this long counts as frozen."""
PARSE_SECONDS = "15"
"""KNOWLEDGE_PARSE_SECONDS of the server: the limit of a step in a child process."""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Service:
    """A server that is started several times on one data folder."""

    def __init__(self, folder: Path) -> None:
        self._data, self._log, self._port = folder / "data", folder / "log", find_free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._http = httpx.Client(base_url=f"{self.url}/api/v1", timeout=TIMEOUT_SECONDS)

    @contextmanager
    def run(self, fault: str) -> Iterator[subprocess.Popen[bytes]]:
        environment = {"KNOWLEDGE_WORKERS": "2", "KNOWLEDGE_PARSE_SECONDS": PARSE_SECONDS, "PATH": "/usr/bin:/bin"}
        command = [sys.executable, str(SERVER), fault, "--data", str(self._data), "--port", str(self._port)]
        with self._log.open("ab") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(TIMEOUT_SECONDS)
                finally:
                    process.kill()

    def wait_healthy(self) -> None:
        wait_until(lambda: self._get_health() == 200)

    def wait_frozen(self) -> None:
        wait_until(lambda: self._get_health() is None)

    def _get_health(self) -> int | None:
        """Return the HTTP status of /health, 0 if the connection is refused, or None if there is no answer."""
        try:
            return httpx.get(f"{self.url}/health", timeout=FROZEN_SECONDS).status_code
        except httpx.TimeoutException:
            return None
        except httpx.TransportError:
            return 0

    def add_note(self, text: str) -> str:
        """Add a note and return the UUID of its job, even if the server dies before it answers."""
        job = str(uuid4())
        with suppress(httpx.TransportError):
            self._http.post("/jobs", json={"note": text, "job_uid": job}).raise_for_status()
        return job

    def add_file(self, name: str, text: str) -> str:
        return str(self._http.post("/jobs", files={"file": (name, text)}).raise_for_status().json()["job_id"])

    def get_job(self, ref: str) -> dict[str, Any]:
        job: dict[str, Any] = self._http.get(f"/jobs/{ref}").raise_for_status().json()
        return job

    def wait_for_job(self, ref: str) -> dict[str, Any]:
        wait_until(lambda: self.get_job(ref)["status"] not in ("queued", "processing"))
        return self.get_job(ref)

    def retry(self, ref: str) -> None:
        self._http.post(f"/jobs/{ref}/retry").raise_for_status()

    def read_log(self) -> str:
        return self._log.read_text()

    def close(self) -> None:
        self._http.close()


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"timed out after {TIMEOUT_SECONDS} s"
        time.sleep(0.02)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.close()


@pytest.mark.parametrize("fault", ["end", pytest.param("freeze", marks=pytest.mark.long)])
def test_a_job_that_kills_or_freezes_the_server_is_failed_and_every_other_job_is_done(
    service: Service, fault: str
) -> None:
    """The job crashes the first two servers, together with another job; the third one runs it alone and fails it."""
    with service.run(fault) as process:
        service.wait_healthy()
        slow = service.add_file("slow.txt", f"{SLOW_WORD} is a virtue")
        wait_until(lambda: service.get_job(slow)["status"] == "processing")
        others = [service.add_file(f"{number}.txt", f"number {number} waits its turn") for number in range(3)]
        poison = service.add_note(f"{DEADLY_WORD} in a note")
        wait_for_death(service, process, fault)
    with service.run(fault) as process:
        wait_for_death(service, process, fault)

    with service.run(fault) as process:
        service.wait_healthy()
        failed = service.wait_for_job(poison)
        others_ended = [service.wait_for_job(number) for number in (slow, *others)]
        assert [job["status"] for job in others_ended] == ["completed"] * 4, others_ended
        assert process.poll() is None
        assert failed["status"] == "failed" and failed["error"]["code"] == "job_crashed"
        reason = "SIGKILL" if fault == "end" else "took longer than"
        assert reason in failed["error"]["message"] and "no other job was running" in failed["error"]["message"]
        output = Shell({"KB_ENGINE_URL": service.url}).run_ok("jobs", "--status", "failed")
        assert reason in " ".join(output.split()) and "note" in output
    assert "runs alone" in service.read_log()

    with service.run("nothing"):
        service.wait_healthy()
        assert service.get_job(poison) == failed, "a restart does not start it again"
        service.retry(poison)
        assert service.wait_for_job(poison)["status"] == "completed", "its original was kept"


def wait_for_death(service: Service, process: subprocess.Popen[bytes], fault: str) -> None:
    """Wait until the server has died; kill it if it is frozen, as an operator would."""
    if fault == "freeze":
        service.wait_frozen()
        process.send_signal(signal.SIGKILL)
    assert process.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
