"""Slowloris: connections that never send a whole request do not block other clients."""

from __future__ import annotations

import errno
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from knowledge.surfaces.http.connections import RESERVED_DESCRIPTORS
from tests.support.server_process import ServerProcess, run_server_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_NOFILE and all of 127.0.0.0/8")

MAX_DESCRIPTORS = 1024
HALF_OPEN_CONNECTIONS = 1100
HALF_HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "
HALF_BODY = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"


def limit_descriptors() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_DESCRIPTORS // 2, MAX_DESCRIPTORS))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with run_server_process(tmp_path_factory.mktemp("server"), preexec=limit_descriptors) as started:
        yield started


@contextmanager
def raise_descriptor_limit(number: int) -> Iterator[None]:
    """Raise the limit on open files in this process, which holds the client side of the connections."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(port: int, source: str, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10, source_address=(source, 0))
    try:
        connection.sendall(sent)
    except OSError as error:  # already closed, because a limit was reached
        assert error.errno in (errno.ECONNRESET, errno.EPIPE)
    return connection


def test_the_limit_on_open_files_is_raised_to_the_hard_limit(server: ServerProcess) -> None:
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(MAX_DESCRIPTORS), str(MAX_DESCRIPTORS)]


@pytest.mark.parametrize("sent", [HALF_HEAD, HALF_BODY, b""], ids=["head", "body", "nothing"])
def test_health_answers_while_another_address_holds_1100_half_open_connections(
    sent: bytes, server: ServerProcess
) -> None:
    with raise_descriptor_limit(2 * HALF_OPEN_CONNECTIONS), ExitStack() as connections:
        before = server.log.stat().st_size
        for number in range(HALF_OPEN_CONNECTIONS):
            connections.callback(connect(server.port, "127.0.0.2", sent).close)
            if number % 100 == 0:
                assert server.get_health() == 200
        assert [server.get_health() for _ in range(20)] == [200] * 20
        descriptors = len([*Path(f"/proc/{server.process.pid}/fd").iterdir()])
        assert descriptors < MAX_DESCRIPTORS - RESERVED_DESCRIPTORS
        assert server.log.stat().st_size - before < 100_000
        assert b"Too many open files" not in server.log.read_bytes()


def test_the_port_of_the_engine_file_answers_too(server: ServerProcess) -> None:
    engine = json.loads((server.log.parent / "data" / "engine.json").read_text("utf-8"))
    port, headers = int(engine["url"].rpartition(":")[2]), {"X-API-Key": engine["token"]}
    with raise_descriptor_limit(2 * HALF_OPEN_CONNECTIONS), ExitStack() as connections:
        for _ in range(HALF_OPEN_CONNECTIONS):
            connections.callback(connect(port, "127.0.0.1", HALF_HEAD).close)
        assert httpx.get(f"{engine['url']}/api/v1/status", headers=headers, timeout=5).status_code == 200
        assert server.get_health() == 200
