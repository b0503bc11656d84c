"""Server processes with their originals in a real S3 bucket: uploads in parts, S3 away under load, and kill -9."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator

import httpx
import pytest

from tests.cluster.server_pair import add_note, check_ready, make_word, run_member, verify
from tests.cluster.test_two_servers import McpSession, Pair, wait_for_jobs
from tests.support.postgres import PostgresServer
from tests.support.s3 import S3Server
from tests.support.tcp_proxy import TcpProxy, run_proxy

LIMIT_SECONDS = 120.0
ROUNDS, ADDS_PER_ROUND = 20, 10


def make_environment(s3: S3Server, port: int = 0) -> dict[str, str]:
    endpoint = f"http://127.0.0.1:{port or s3.port}"
    url = s3.make_url(f"servers-{secrets.token_hex(6)}", endpoint=endpoint)
    return {"KNOWLEDGE_ORIGINALS_URL": url, **s3.make_environment()}


@pytest.fixture(scope="module")
def proxy(s3: S3Server) -> Iterator[TcpProxy]:
    with run_proxy(s3.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def pair(
    postgres: PostgresServer, s3: S3Server, proxy: TcpProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Two servers whose data folders share nothing."""
    folder = tmp_path_factory.mktemp("pair")
    environment = make_environment(s3, proxy.port)
    with (
        postgres.database() as url,
        run_member(folder, url, "a", **environment) as first,
        run_member(folder, url, "b", **environment) as second,
    ):
        yield first, second


def test_an_upload_in_parts_is_finished_on_another_server(pair: Pair) -> None:
    first, second = pair
    session = McpSession(first)
    content = f"The {make_word(900)} came in parts.".encode()
    upload = session.call(first, "kb_upload_start", filename="parts.txt", total_size=len(content))["upload_id"]
    for index, part in enumerate((content[:10], content[10:])):
        data = base64.b64encode(part).decode()
        session.call((second, first)[index], "kb_upload_chunk", upload_id=upload, data=data, chunk_index=index)
    job = session.call(second, "kb_upload_finish", upload_id=upload)["job_id"]
    assert session.call(first, "kb_upload_finish", upload_id=upload)["job_id"] == job
    ended = first.wait_for_job(job)
    assert ended["status"] == "completed"
    assert second.http.get(f"/documents/{ended['document_id']}/file").content == content


def test_s3_goes_away_and_comes_back_during_adds_and_searches(pair: Pair, proxy: TcpProxy) -> None:
    first, second = pair
    jobs: list[int] = []
    refused = 0
    for number in range(30):
        if number == 10:
            proxy.go_away()
        if number == 20:
            proxy.come_back()
        try:
            jobs.append(add_note(pair[number % 2], f"The {make_word(number)} swims at dawn.", f"Away {number}"))
        except httpx.HTTPStatusError as error:
            assert error.response.status_code == 503
            assert "cannot be reached" in error.response.text or "cannot be used" in error.response.text
            refused += 1
        assert second.http.post("/search", json={"query": "dawn", "fts_only": True}).status_code == 200
        assert check_ready(first)
    assert refused == 10
    assert set(wait_for_jobs(first, jobs).values()) == {"completed"}
    assert verify(first) == verify(second) == []
