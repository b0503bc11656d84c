"""The services of compose.cluster.yaml as processes of this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cluster.server_pair import make_word
from tests.contracts.kb.test_compose import image_environment, substitute_all
from tests.support.postgres import PASSWORD, USER, PostgresServer, find_free_port
from tests.support.s3 import MISSING as S3_MISSING
from tests.support.s3 import find_program, make_s3_client
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
        self._commands: dict[str, tuple[list[str], dict[str, str]]] = {}
        self.ports = {name: find_free_port() for name in (*SERVERS, "s3", "master", "balancer")}
        self._grpc_port = find_free_port()
        others = ("volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port.grpc")
        self._other_ports = [f"-{name}={find_free_port()}" for name in others]
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
        given = {
            "-dir=/data": f"-dir={self._make_folder('s3')}",
            "-ip=s3": "-ip=127.0.0.1",
            "-ip.bind=0.0.0.0": "-ip.bind=127.0.0.1",
            "-s3.port=8333": f"-s3.port={self.ports['s3']}",
        }
        assert set(given) <= set(service["command"])
        command = [given.get(part, part) for part in service["command"]]
        command += [f"-master.port={self.ports['master']}", f"-master.port.grpc={self._grpc_port}"]
        command += [*self._other_ports, "-volume.max=20"]
        self._start("s3", [str(program), *command], service["environment"])
        wait_until(lambda: self.is_healthy("s3"), START_SECONDS)
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
        """Run the health check of a server, of S3 or of the balancer as the file has it."""
        _, program, *arguments = self.services[name]["healthcheck"]["test"]
        if name == "s3":  # wget is not on every machine
            return is_answered(arguments[-1].replace(":8333", f":{self.ports['s3']}"))
        if name == "balancer":
            check = [program, *(part.replace("/8080", f"/{self.ports['balancer']}") for part in arguments)]
            return subprocess.run(check, capture_output=True, check=False).returncode == 0
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

    def start_again(self, name: str) -> None:
        """Start a service that was killed, with its command and its folder."""
        self._start(name, *self._commands[name])

    def make_s3_client(self) -> Any:
        return make_s3_client(
            f"http://127.0.0.1:{self.ports['s3']}", KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"]
        )

    def close(self) -> None:
        for name in [*self._processes]:
            self.kill(name, signal.SIGTERM if name in SERVERS else signal.SIGKILL)

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self._commands[name] = (command, environment)
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


@contextmanager
def run_deployment(folder: Path, postgres: PostgresServer) -> Iterator[Deployment]:
    """Start all services on an empty database of a PostgreSQL server, and wait until they are healthy."""
    balancer, program = shutil.which("haproxy"), find_program()
    if balancer is None or program is None:
        pytest.skip(NO_BALANCER if balancer is None else S3_MISSING)
    with ExitStack() as stack:
        started = Deployment(folder, postgres)
        given = started.services["postgres"]["environment"]
        assert (given["POSTGRES_USER"], given["POSTGRES_PASSWORD"]) == (USER, PASSWORD)
        postgres.run(f"CREATE DATABASE {given['POSTGRES_DB']}")
        stack.callback(postgres.run, f"DROP DATABASE {given['POSTGRES_DB']} WITH (FORCE)")
        stack.callback(started.close)
        started.start_s3(program)
        for name in SERVERS:
            started.start_server(name)
        started.start_balancer(balancer)
        wait_until(lambda: all(map(started.is_healthy, (*SERVERS, "balancer"))), START_SECONDS)
        yield started


def add_note(http: httpx.Client, number: int, uid: str | None = None) -> int:
    """Add a note and return its job; raises if it was not accepted. With `uid` it can be repeated."""
    body = {"note": f"The {make_word(number)} swims.", "title": f"Note {number}", "job_uid": uid}
    answer = http.post("/api/v1/jobs", json=body)
    answer.raise_for_status()
    return int(answer.json()["job_id"])


def find_titles(http: httpx.Client, word: str) -> list[str]:
    answer = http.post("/api/v1/search", json={"query": word, "fts_only": True})
    answer.raise_for_status()
    return [hit["title"] for hit in answer.json()["results"]]
