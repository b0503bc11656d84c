"""Two server processes on one PostgreSQL: killed, frozen, cut off, and asked in turns."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.server_pair import (
    add_note,
    check_ready,
    find_titles,
    make_word,
    read_statuses,
    run_member,
    verify,
)
from tests.support.postgres import MISSING, PostgresServer, find_binaries, run_postgres
from tests.support.server_process import ServerProcess, wait_until

LIMIT_SECONDS = 90.0
ENDED = {"completed", "partial", "failed", "cancelled"}
LONG_TEXT = "The harbour master keeps a ledger of every ship. " * 30


def wait_for_jobs(server: ServerProcess, jobs: list[int]) -> dict[int, str]:
    wait_until(lambda: set(read_statuses(server, jobs).values()) <= ENDED, LIMIT_SECONDS)
    return read_statuses(server, jobs)


Pair = tuple[ServerProcess, ServerProcess]
PASSWORD = "correct horse battery"
OPERATOR_KEY = "operator-key-of-both-servers"


@pytest.fixture(scope="module")
def pair(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers for tests that harm neither."""
    folder = tmp_path_factory.mktemp("pair")
    limits = {"UPLOAD_RATE_LIMIT": "3/hour", "AUTH_RATE_LIMIT": "off"}
    with (
        postgres.database() as url,
        run_member(folder, url, "a", **limits) as first,
        run_member(folder, url, "b", **limits) as second,
    ):
        yield first, second


def test_a_note_that_is_added_on_one_server_is_found_on_the_other(pair: Pair) -> None:
    for number in range(6):
        here, there = (pair[0], pair[1]) if number % 2 else (pair[1], pair[0])
        job = add_note(here, f"The {make_word(number)} swims at dawn.", f"Note {number}")
        assert there.wait_for_job(job)["status"] == "completed"
        assert find_titles(there, make_word(number)) == [f"Note {number}"]


def test_the_status_of_either_server_names_both(pair: Pair) -> None:
    for server in pair:
        found = server.http.get("/status").json()["servers"]
        assert {each["address"].rpartition(":")[2] for each in found} == {str(each.port) for each in pair}
        assert all(each["live"] and each["ready"] and each["role"] == "all" for each in found)


def log_in(server: ServerProcess, name: str) -> str:
    server.http.post("/user/register", json={"username": name, "password": PASSWORD}).raise_for_status()
    answer = server.http.post("/user/login", json={"username": name, "password": PASSWORD})
    answer.raise_for_status()
    return str(answer.json()["api_key"])


def test_a_key_that_is_revoked_on_one_server_is_refused_at_once_on_the_other(pair: Pair) -> None:
    first, second = pair
    headers = {"Authorization": f"Bearer {log_in(first, 'alice')}"}
    assert second.http.get("/user", headers=headers).status_code == 200
    [key] = first.http.get("/user/api-keys", headers=headers).json()["api_keys"]
    first.http.delete(f"/user/api-keys/{key['id']}", headers=headers).raise_for_status()
    assert second.http.get("/user", headers=headers).status_code == 401


def test_a_rate_limit_counts_the_calls_to_both_servers(pair: Pair) -> None:
    headers = {"Authorization": f"Bearer {log_in(pair[0], 'bob')}"}
    answers = [
        pair[number % 2].http.post("/jobs", json={"note": f"Note {number} of Bob."}, headers=headers).status_code
        for number in range(4)
    ]
    assert answers == [202, 202, 202, 429]


class McpSession:
    """An MCP session of the 2025 protocol whose requests go to any server."""

    def __init__(self, server: ServerProcess) -> None:
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        answer = self._post(server, "initialize", start, {})
        self._headers = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}

    def call(self, server: ServerProcess, tool: str, **arguments: object) -> dict[str, Any]:
        answer = self._post(server, "tools/call", {"name": tool, "arguments": arguments}, self._headers)
        text = answer.text.partition("data: ")[2] if "data: " in answer.text else answer.text
        found: dict[str, Any] = json.loads(text.splitlines()[0])["result"]["structuredContent"]
        return found

    @staticmethod
    def _post(server: ServerProcess, method: str, params: object, headers: dict[str, str]) -> httpx.Response:
        accept = {"Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx.post(f"{server.url}/mcp/kb", json=body, headers={**accept, **headers}, timeout=60, verify=False)
        answer.raise_for_status()
        return answer


def test_a_session_goes_on_at_another_server_and_an_upload_in_parts_is_finished_there(pair: Pair) -> None:
    first, second = pair
    session = McpSession(first)
    content = f"The {make_word(900)} came in parts.".encode()
    parts = [content[:10], content[10:]]
    upload = session.call(first, "kb_upload_start", filename="parts.txt", total_size=len(content))["upload_id"]
    for index, part in enumerate(parts):
        data = base64.b64encode(part).decode()
        session.call((second, first)[index], "kb_upload_chunk", upload_id=upload, data=data, chunk_index=index)
    job = session.call(second, "kb_upload_finish", upload_id=upload)["job_id"]
    assert session.call(first, "kb_upload_finish", upload_id=upload)["job_id"] == job
    assert first.wait_for_job(job)["status"] == "completed"
    assert find_titles(first, make_word(900)) == find_titles(second, make_word(900)) != []


def test_a_server_with_workers_only_answers_nothing_but_health_and_readiness(shared_url: str, tmp_path: Path) -> None:
    with (
        run_member(tmp_path, shared_url, "worker", KNOWLEDGE_SERVER_ROLE="workers-only") as worker,
        run_member(tmp_path, shared_url, "api", KNOWLEDGE_SERVER_ROLE="no-workers") as api,
    ):
        job = add_note(api, f"The {make_word(1)} swims at dawn.", "Note")
        assert api.wait_for_job(job)["status"] == "completed"
        assert find_titles(api, make_word(1)) == ["Note"]
        assert worker.http.get("/status").status_code == 404
        assert worker.http.post("/search", json={"query": "dawn"}).status_code == 404
        assert check_ready(worker) and check_ready(api)


def test_an_unshared_folder_of_originals_is_refused_with_a_sentence(shared_url: str, tmp_path: Path) -> None:
    with run_member(tmp_path, shared_url, "a"):
        data = tmp_path / "lonely"
        environment = {"KNOWLEDGE_DATABASE_URL": shared_url, "PATH": "", "KNOWLEDGE_EMBEDDING": "none"}
        command = [sys.executable, "-m", "knowledge", "--data", str(data), "serve", "--port", "0"]
        refused = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0
    assert "is not the one that the other servers of this database use" in refused.stderr
    assert "KNOWLEDGE_ORIGINALS" in refused.stderr
    assert "Traceback" not in refused.stderr


def add_and_kill(folder: Path, url: str, notes: int, kill_after: int) -> None:
    """Add notes to two servers in turns, kill one of them meanwhile, and check that nothing is lost or doubled."""
    accepted: dict[int, int] = {}
    with run_member(folder, url, "a") as first:
        with run_member(folder, url, "b") as second:
            for number in range(notes):
                server = (first, second)[number % 2]
                try:
                    accepted[number] = add_note(server, f"{make_word(number)} {LONG_TEXT}", f"K {number}")
                except httpx.HTTPError:
                    assert server is second
                if number == kill_after:
                    second.process.kill()
                    second.process.wait()
            began = time.monotonic()
            assert set(wait_for_jobs(first, list(accepted.values())).values()) == {"completed"}
            assert time.monotonic() - began < LIMIT_SECONDS
        assert len(accepted) > kill_after
        for number in accepted:
            assert find_titles(first, make_word(number)) == [f"K {number}"]
        with run_member(folder, url, "b") as again:
            for number in accepted:
                assert find_titles(again, make_word(number)) == [f"K {number}"]
            assert verify(first) == verify(again) == []


def test_every_accepted_job_is_completed_when_one_of_two_servers_is_killed(shared_url: str, tmp_path: Path) -> None:
    add_and_kill(tmp_path, shared_url, notes=40, kill_after=25)


def test_a_frozen_server_loses_its_jobs_and_does_no_harm_when_it_comes_back(shared_url: str, tmp_path: Path) -> None:
    with run_member(tmp_path, shared_url, "a") as first, run_member(tmp_path, shared_url, "b") as second:
        jobs = [add_note(second, f"{make_word(number)} {LONG_TEXT}", f"K {number}") for number in range(20)]
        second.process.send_signal(signal.SIGSTOP)
        try:
            assert set(wait_for_jobs(first, jobs).values()) == {"completed"}
        finally:
            second.process.send_signal(signal.SIGCONT)
        late = add_note(first, f"The {make_word(77)} swims at dawn.", "Late")
        first.wait_for_job(late)
        wait_until(lambda: check_ready(second) and find_titles(second, make_word(77)) == ["Late"], LIMIT_SECONDS)
        for server in (first, second):
            assert [find_titles(server, make_word(number)) for number in range(20)] == [
                [f"K {number}"] for number in range(20)
            ]
            assert verify(server) == []


@pytest.mark.long  # tests/postgres has the same with one connection
def test_a_frozen_server_that_holds_the_lock_of_the_change_log_delays_others_by_at_most_20_seconds(
    shared_url: str, tmp_path: Path
) -> None:
    with run_member(tmp_path, shared_url, "a") as first:
        script = Path(__file__).with_name("frozen_writer.py")
        with subprocess.Popen([sys.executable, script, shared_url], stdout=subprocess.PIPE) as frozen:
            try:
                assert frozen.stdout is not None and frozen.stdout.readline() == b"frozen\n"
                began = time.monotonic()
                job = add_note(first, f"The {make_word(1)} swims at dawn.", "Note")
                assert first.wait_for_job(job)["status"] == "completed"
                assert time.monotonic() - began < 20
            finally:
                frozen.kill()


def test_both_servers_go_on_when_postgresql_was_restarted_under_load(tmp_path: Path) -> None:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(MISSING)
    accepted: list[int] = []
    refused = 0
    with (
        run_postgres(binaries, fsync="on", synchronous_commit="on") as postgres,
        postgres.database() as url,
        run_member(tmp_path, url, "a") as first,
        run_member(tmp_path, url, "b") as second,
    ):

        def stop_and_start() -> None:
            postgres.stop(signal.SIGINT)
            postgres.start()

        restart = threading.Thread(target=stop_and_start)
        for number in range(24):
            if number == 8:
                restart.start()
            try:
                accepted.append(
                    add_note((first, second)[number % 2], f"{make_word(number)} {LONG_TEXT}", f"K {number}")
                )
            except httpx.HTTPStatusError as error:
                assert error.response.status_code == 503, error.response.text
                refused += 1
        restart.join()
        wait_until(lambda: check_ready(first) and check_ready(second), LIMIT_SECONDS)
        assert set(wait_for_jobs(first, accepted).values()) == {"completed"}
        assert len(accepted) + refused == 24 and len(accepted) >= 8
        documents = first.http.get("/documents", params={"per_page": 100}).json()["documents"]
        titles = [document["title"] for document in documents]
        assert len(titles) == len(set(titles)) >= len(accepted)
        assert verify(first) == verify(second) == []


@pytest.mark.long
def test_nothing_is_lost_when_one_of_two_servers_is_killed_during_200_adds(shared_url: str, tmp_path: Path) -> None:
    add_and_kill(tmp_path, shared_url, notes=200, kill_after=100)


@pytest.mark.long
@pytest.mark.parametrize("kill_after", range(5, 25))
def test_nothing_is_lost_in_20_kills(shared_url: str, tmp_path: Path, kill_after: int) -> None:
    add_and_kill(tmp_path, shared_url, notes=30, kill_after=kill_after)
