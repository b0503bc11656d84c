"""Slowloris: connections that never send a whole request take nothing from those who do."""

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
from tests.support.server_process import ServerProcess, server_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_NOFILE and all of 127.0.0.0/8")

DESCRIPTORS = 1024
HALF_OPEN = 1100
HALF_A_HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "
HALF_A_BODY = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"


def few_descriptors() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS // 2, DESCRIPTORS))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("server"), preexec=few_descriptors) as started:
        yield started


@contextmanager
def room_for_descriptors(number: int) -> Iterator[None]:
    """In this process, which holds the other ends."""
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
    except OSError as error:  # closed already, to make room
        assert error.errno in (errno.ECONNRESET, errno.EPIPE)
    return connection


def test_the_limit_on_open_files_is_raised_to_the_hard_limit(server: ServerProcess) -> None:
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(DESCRIPTORS), str(DESCRIPTORS)]


@pytest.mark.parametrize("sent", [HALF_A_HEAD, HALF_A_BODY, b""], ids=["head", "body", "nothing"])
def test_health_answers_while_another_address_holds_1100_half_open_connections(
    sent: bytes, server: ServerProcess
) -> None:
    with room_for_descriptors(2 * HALF_OPEN), ExitStack() as held:
        before = server.log.stat().st_size
        for number in range(HALF_OPEN):
            held.callback(connect(server.port, "127.0.0.2", sent).close)
            if number % 100 == 0:
                assert server.health() == 200
        assert [server.health() for _ in range(20)] == [200] * 20
        descriptors = len([*Path(f"/proc/{server.process.pid}/fd").iterdir()])
        assert descriptors < DESCRIPTORS - RESERVED_DESCRIPTORS
        assert server.log.stat().st_size - before < 100_000
        assert b"Too many open files" not in server.log.read_bytes()


def test_the_port_of_the_engine_file_answers_too(server: ServerProcess) -> None:
    engine = json.loads((server.log.parent / "data" / "engine.json").read_text("utf-8"))
    port, headers = int(engine["url"].rpartition(":")[2]), {"X-API-Key": engine["token"]}
    with room_for_descriptors(2 * HALF_OPEN), ExitStack() as held:
        for _ in range(HALF_OPEN):
            held.callback(connect(port, "127.0.0.1", HALF_A_HEAD).close)
        assert httpx.get(f"{engine['url']}/api/v1/status", headers=headers, timeout=5).status_code == 200
        assert server.health() == 200
