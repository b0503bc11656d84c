"""GET /events over a real connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller
from knowledge.surfaces.rest import events
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.command_line import serve_engine

Block = dict[str, Any]
TIMEOUT_SECONDS = 30.0


@pytest.fixture
def http(local: LocalEngine, settings: Settings) -> Iterator[httpx.Client]:
    with (
        serve_engine(local.as_caller(Caller()), settings) as url,
        httpx.Client(base_url=f"{url}/api/v1", timeout=TIMEOUT_SECONDS) as client,
    ):
        yield client


def read_blocks(response: httpx.Response) -> Iterator[Block]:
    """Yield the blocks of an event stream as a browser reads them."""
    block: Block = {}
    for line in response.iter_lines():
        if not line:
            if block:
                yield block
            block = {}
            continue
        name, _, value = line.partition(": ")
        block[name] = json.loads(value) if name == "data" else value


def add_note(http: httpx.Client, text: str) -> Block:
    answer = http.post("/jobs", json={"note": text})
    assert answer.status_code == 202, answer.text
    job: Block = answer.json()
    return job


def test_events_are_server_sent_events(http: httpx.Client) -> None:
    with http.stream("GET", "/events") as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        blocks = read_blocks(response)
        assert "retry" in next(blocks)
        hello = next(blocks)
        assert hello["event"] == "hello" and hello["data"]["jobs"] == [] and hello["id"] == str(hello["data"]["seq"])
        job = add_note(http, "the kettle boils water")
        seen: list[Block] = []
        for block in blocks:
            seen.append(block)
            if block.get("event") == "job" and block["data"]["status"] == "completed":
                break
        assert seen[-1]["data"] == http.get(f"/jobs/{job['job_id']}").json()
        document = next(block for block in seen if block.get("event") == "document")
        assert set(document["data"]) == {"id", "uid", "change", "collection"} and document["id"].isdecimal()


def test_a_browser_continues_with_last_event_id(http: httpx.Client) -> None:
    with http.stream("GET", "/events") as response:
        last = next(block["id"] for block in read_blocks(response) if "id" in block)
    job = add_note(http, "the kettle boils water")
    while http.get(f"/jobs/{job['job_id']}").json()["status"] != "completed":
        pass
    with http.stream("GET", "/events", headers={"Last-Event-ID": last}) as response:
        document = next(block for block in read_blocks(response) if block.get("event") == "document")
    assert document["data"]["change"] == "added" and int(document["id"]) > int(last)


@pytest.mark.parametrize("last", ["abc", "99999999", "-1", "1" * 40])
def test_an_unknown_last_event_id_is_reset(http: httpx.Client, last: str) -> None:
    with http.stream("GET", "/events", headers={"Last-Event-ID": last}) as response:
        reset = next(block for block in read_blocks(response) if block.get("event") == "reset")
    assert reset["data"] == {} and reset["id"].isdecimal()


def test_a_caller_has_a_limited_number_of_streams(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS_PER_CALLER", 1)
    with http.stream("GET", "/events") as response:
        blocks = read_blocks(response)  # kept, because the connection is closed with the generator
        next(blocks)
        with http.stream("GET", "/events") as refused:
            assert refused.status_code == 429 and refused.headers["retry-after"]
    with httpx.Client(base_url=http.base_url, timeout=TIMEOUT_SECONDS) as again:
        answer = again.send(again.build_request("GET", "/events"), stream=True)
        while answer.status_code == 429:  # until the server has noticed that the first stream is closed
            answer.close()
            answer = again.send(again.build_request("GET", "/events"), stream=True)
        assert answer.status_code == 200
        answer.close()


def test_a_wrong_position_is_refused(http: httpx.Client) -> None:
    assert http.get("/events", params={"after": "-1"}).status_code == 422
    assert http.get("/events", params={"since": "1"}).status_code == 422


def test_events_continue_after_a_restart_of_the_server(settings: Settings, parsers: SharedParsers) -> None:
    last = None
    for text in ("the kettle boils water", "a boat on the lake"):
        engine = make_test_engine(settings, parsers=parsers)
        engine.start()
        try:
            with (
                serve_engine(engine.as_caller(Caller()), settings) as url,
                httpx.Client(base_url=f"{url}/api/v1", timeout=TIMEOUT_SECONDS) as http,
            ):
                headers: dict[str, str] = {} if last is None else {"Last-Event-ID": last}
                with http.stream("GET", "/events", headers=headers) as response:
                    blocks = read_blocks(response)
                    kinds = [next(blocks).get("event") for _ in range(3 if last else 2)]
                    assert "reset" not in kinds
                    add_note(http, text)
                    last = next(block["id"] for block in blocks if block.get("event") == "document")
                    assert response.status_code == 200
        finally:
            engine.close()


def test_the_server_ends_open_streams_when_it_stops(local: LocalEngine, settings: Settings) -> None:
    http = httpx.Client(timeout=TIMEOUT_SECONDS)
    with serve_engine(local.as_caller(Caller()), settings) as url:
        response = http.send(http.build_request("GET", f"{url}/api/v1/events"), stream=True)
        blocks = read_blocks(response)
        assert "retry" in next(blocks)
    rest = list(blocks)  # the stream ended in order: httpx raises if the connection is cut
    http.close()
    assert [block["event"] for block in rest] == ["hello"]
