"""Starts what compose.cluster.yaml describes, as processes, and uses it through its load balancer."""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cluster.server_pair import make_word
from tests.contracts.kb.test_compose import image_environment, substitute_all
from tests.support.postgres import PASSWORD, USER, PostgresServer, find_free_port
from tests.support.s3 import MISSING as S3_MISSING
from tests.support.s3 import find_program
from tests.support.server_process import WITHOUT_MODELS, wait_until

ROOT = Path(__file__).parents[2]
KEYS = {
    "POSTGRES_PASSWORD": PASSWORD,
    "AWS_ACCESS_KEY_ID": "compose-key",
    "AWS_SECRET_ACCESS_KEY": "compose-secret",
    "KB_API_KEY": "key-of-the-engine",
    "KB_MCP_API_KEY": "key-of-the-agents",
}
NO_BALANCER = "haproxy is not installed: apt install haproxy"
START_SECONDS = 120.0
SERVERS = ("server-a", "server-b", "worker")


def load_services(**environment: str) -> dict[str, Any]:
    parsed = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text("utf-8"))
    services: dict[str, Any] = substitute_all(parsed["services"], environment)
    return services


class Deployment:
    """The services as processes of this machine: their host names and ports become free loopback ports."""

    def __init__(self, folder: Path, postgres: PostgresServer) -> None:
        self.services, self._folder = load_services(**KEYS), folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports = {name: find_free_port() for name in (*SERVERS, "s3", "master", "balancer")}
        self._grpc_port = find_free_port()
        self._addresses = {
            "postgres:5432": f"127.0.0.1:{postgres.port}",
            "s3:8333": f"127.0.0.1:{self.ports['s3']}",
            "s3:9333": f"127.0.0.1:{self.ports['master']}.{self._grpc_port}",
            **{f"{name}:8000": f"127.0.0.1:{self.ports[name]}" for name in SERVERS},
        }

    def localise(self, text: str) -> str:
        for name, address in self._addresses.items():
            text = re.sub(rf"\b{name}\b", address, text)
        return text

    def start_s3(self, program: Path) -> None:
        service = self.services["s3"]
        others = ("volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port.grpc")
        given = {
            "-dir=/data": f"-dir={self._make_folder('s3')}",
            "-ip=s3": "-ip=127.0.0.1",
            "-ip.bind=0.0.0.0": "-ip.bind=127.0.0.1",
            "-s3.port=8333": f"-s3.port={self.ports['s3']}",
        }
        assert set(given) <= set(service["command"])
        command = [given.get(part, part) for part in service["command"]]
        command += [f"-master.port={self.ports['master']}", f"-master.port.grpc={self._grpc_port}"]
        command += [f"-{name}={find_free_port()}" for name in others]
        self._start("s3", [str(program), *command, "-volume.max=20"], service["environment"])
        *_, address = service["healthcheck"]["test"]
        health = address.replace(":8333", f":{self.ports['s3']}")
        wait_until(lambda: is_answered(health), START_SECONDS)
        self._create_bucket(program)

    def _create_bucket(self, program: Path) -> None:
        [script] = self.services["bucket"]["command"]
        command = self.localise(script).replace("weed ", f"{program} ")
        done = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, timeout=60, check=False, cwd=self._folder
        )
        assert done.returncode == 0 and b"created bucket originals" in done.stdout + done.stderr

    def start_server(self, name: str) -> None:
        service = self.services[name]
        assert service["build"]["args"] == {"REQUIREMENTS": "cluster"}
        environment = {**image_environment(), **service["environment"], **WITHOUT_MODELS}
        environment = {key: self.localise(value) for key, value in environment.items() if key != "PATH"}
        environment |= {
            "KNOWLEDGE_HOST": "127.0.0.1",
            "KNOWLEDGE_PORT": str(self.ports[name]),
            "KNOWLEDGE_DATA": str(self._make_folder(name)),
            "KNOWLEDGE_LEASE_S": "5",
        }
        self._start(name, [sys.executable, "-m", "knowledge", *service["command"]], environment)

    def is_healthy(self, name: str) -> bool:
        """Run the health check of a server as the file has it."""
        _, program, *arguments = self.services[name]["healthcheck"]["test"]
        assert program == "python"
        environment = {"KNOWLEDGE_PORT": str(self.ports[name])}
        done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)
        return done.returncode == 0

    def start_balancer(self, program: str) -> None:
        [mount] = self.services["balancer"]["volumes"]
        written = self.localise((ROOT / mount.partition(":")[0]).read_text("utf-8"))
        assert written.count("bind :8080") == 1
        configuration = self._folder / "haproxy.cfg"
        configuration.write_text(written.replace("bind :8080", f"bind 127.0.0.1:{self.ports['balancer']}"))
        self._start("balancer", [program, "-f", str(configuration)], {"PATH": os.environ["PATH"]})

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self._processes.pop(name)
        process.send_signal(how)
        process.wait(60)

    def close(self) -> None:
        for name in [*self._processes]:
            self.kill(name, signal.SIGTERM if name in SERVERS else signal.SIGKILL)

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                env={"HOME": str(self._folder), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _make_folder(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder


def is_answered(url: str) -> bool:
    try:
        return httpx.get(url, timeout=10).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def deployment(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    balancer, program = shutil.which("haproxy"), find_program()
    if balancer is None or program is None:
        pytest.skip(NO_BALANCER if balancer is None else S3_MISSING)
    with ExitStack() as stack:
        started = Deployment(tmp_path_factory.mktemp("deployment"), postgres)
        stack.callback(started.close)
        given = started.services["postgres"]["environment"]
        assert (given["POSTGRES_USER"], given["POSTGRES_PASSWORD"]) == (USER, PASSWORD)
        postgres.run(f"CREATE DATABASE {given['POSTGRES_DB']}")
        stack.callback(postgres.run, f"DROP DATABASE {given['POSTGRES_DB']} WITH (FORCE)")
        stack.callback(started.close)
        started.start_s3(program)
        for name in SERVERS:
            started.start_server(name)
        started.start_balancer(balancer)
        wait_until(lambda: all(map(started.is_healthy, SERVERS)), START_SECONDS)
        yield started


@pytest.fixture
def http(deployment: Deployment) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {KEYS['KB_API_KEY']}"}
    base_url = f"http://127.0.0.1:{deployment.ports['balancer']}"
    with httpx.Client(base_url=base_url, headers=headers, timeout=60) as client:
        wait_until(lambda: client.get("/ready").status_code == httpx.codes.OK)
        yield client


def add_note(http: httpx.Client, number: int) -> int:
    answer = http.post("/api/v1/jobs", json={"note": f"The {make_word(number)} swims.", "title": f"Note {number}"})
    answer.raise_for_status()
    return int(answer.json()["job_id"])


def wait_for_job(http: httpx.Client, job: int) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        answer = http.get(f"/api/v1/jobs/{job}")
        assert answer.status_code == httpx.codes.OK, answer.text
        found: dict[str, Any] = answer.json()
        return found

    wait_until(lambda: read()["status"] not in ("queued", "processing"), START_SECONDS)
    return read()


def find_titles(http: httpx.Client, word: str) -> list[str]:
    answer = http.post("/api/v1/search", json={"query": word, "fts_only": True})
    answer.raise_for_status()
    return [hit["title"] for hit in answer.json()["results"]]


class BalancedSession:
    """An MCP session of the 2025 protocol through the balancer, which sends every request to the next server."""

    def __init__(self, http: httpx.Client) -> None:
        self._http, self._headers = http, {"Authorization": f"Bearer {KEYS['KB_MCP_API_KEY']}"}
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        answer = self._post("initialize", start)
        self._headers |= {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        answer = self._post("tools/call", {"name": tool, "arguments": arguments})
        line = answer.text.partition("data: ")[2].splitlines()[0] if "data: " in answer.text else answer.text
        found: dict[str, Any] = yaml.safe_load(line)["result"]["structuredContent"]
        return found

    def _post(self, method: str, params: object) -> httpx.Response:
        accept = {"Accept": "application/json, text/event-stream", **self._headers}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._http.post("/mcp/kb", json=body, headers=accept)
        answer.raise_for_status()
        return answer


def test_what_is_added_through_the_balancer_is_found_whichever_server_answers(http: httpx.Client) -> None:
    jobs = {number: add_note(http, number) for number in range(6)}
    for number, job in jobs.items():
        assert wait_for_job(http, job)["status"] == "completed"
        for _ in range(2):  # each server once
            assert find_titles(http, make_word(number)) == [f"Note {number}"]
    roles = {server["role"] for server in http.get("/api/v1/status").json()["servers"]}
    assert roles == {"all", "no-workers", "workers-only"}


def test_a_file_is_uploaded_downloaded_and_removed_through_the_balancer(http: httpx.Client) -> None:
    content = b"The harbour master keeps a ledger of every ship. " * 100
    answer = http.post("/api/v1/jobs", files={"file": ("ledger.txt", content)})
    answer.raise_for_status()
    document = wait_for_job(http, answer.json()["job_id"])["document_id"]
    for _ in range(2):
        assert http.get(f"/api/v1/documents/{document}/file").content == content
        part = http.get(f"/api/v1/documents/{document}/file", headers={"Range": "bytes=4-10"})
        assert part.content == content[4:11]
    http.delete(f"/api/v1/documents/{document}").raise_for_status()
    for _ in range(2):
        assert http.get(f"/api/v1/documents/{document}/file").status_code == httpx.codes.NOT_FOUND


def test_an_agent_uploads_in_parts_over_whichever_server(http: httpx.Client) -> None:
    session = BalancedSession(http)
    content = f"The {make_word(900)} came in parts.".encode()
    upload = session.call("kb_upload_start", filename="parts.txt", total_size=len(content))["upload_id"]
    for index, part in enumerate((content[:10], content[10:20], content[20:])):
        session.call("kb_upload_chunk", upload_id=upload, data=base64.b64encode(part).decode(), chunk_index=index)
    job = session.call("kb_upload_finish", upload_id=upload)["job_id"]
    assert wait_for_job(http, job)["status"] == "completed"
    assert find_titles(http, make_word(900))


def test_a_server_that_is_killed_is_not_noticed_behind_the_balancer(deployment: Deployment, http: httpx.Client) -> None:
    jobs = {}
    for number in range(100, 120):
        if number == 105:
            deployment.kill("server-b")
        jobs[number] = add_note(http, number)
        assert http.post("/api/v1/search", json={"query": "swims", "fts_only": True}).status_code == httpx.codes.OK
    deployment.start_server("server-b")
    for number, job in jobs.items():
        assert wait_for_job(http, job)["status"] == "completed", number
    wait_until(lambda: deployment.is_healthy("server-b"), START_SECONDS)
    assert http.post("/api/v1/verify").json()["findings"] == []


def test_every_service_has_a_health_check_and_every_secret_must_be_set() -> None:
    services = load_services(**KEYS)
    assert [name for name, service in services.items() if "healthcheck" not in service] == ["bucket"]
    assert [name for name, service in services.items() if "ports" in service] == ["balancer"]
    for missing in KEYS:
        with pytest.raises(KeyError, match=missing):
            load_services(**{name: value for name, value in KEYS.items() if name != missing})
