"""`GET /metrics`: who may read it, what it counts, and that the alert rules name metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from safetensors.numpy import save_file

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.errors import DatabaseFailed, Unavailable
from knowledge.surfaces.http.app import make_http_app
from knowledge.telemetry import metrics
from tests.support import tiny_model
from tests.support.server_process import ServerProcess, run_server_process, wait_until

ROOT = Path(__file__).parents[2]
RULES = ROOT / "config" / "prometheus" / "alerts.yaml"
KEY, MCP_KEY = "operator-key-0123456789", "mcp-key-0123456789"
OPERATOR = {"x-api-key": KEY}
SECRETS = ("zanzibar", "harbourmaster", "Quarterly", "Confidential", "ann-the-reader")
"""A word of a text, of a question, of a title, of a collection, and the name of an account."""
NAME = re.compile(r"\b(?:knowledge|process|python)_[a-z0-9_]+\b")


def call_tool(server: ServerProcess, name: str, **arguments: object) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    headers = {"accept": "application/json, text/event-stream", "x-api-key": MCP_KEY}
    return httpx.post(f"{server.url}/mcp", json=body, headers=headers, timeout=60)


def get_metrics(server: ServerProcess, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}/metrics", headers=headers, timeout=60)


def scrape(server: ServerProcess) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples by name and labels."""
    found = text_string_to_metric_families(get_metrics(server, **OPERATOR).text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in found
        for sample in family.samples
    }


def read(server: ServerProcess, name: str, **labels: str) -> float:
    return scrape(server).get((name, tuple(sorted(labels.items()))), 0.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a document, two searches, an unknown tool and an unknown page behind it."""
    folder = tmp_path_factory.mktemp("metrics")
    model = tiny_model.write_model_folder(folder / "model")
    save_file(tiny_model.make_weights(), model / "model.safetensors")
    settings = {
        "KB_API_KEY": KEY, "KB_MCP_API_KEY": MCP_KEY, "KNOWLEDGE_EMBEDDING": f"dir:{model}",
        "KNOWLEDGE_LOG_LEVEL": "warning",
    }  # fmt: skip
    with run_server_process(folder, preexec=None, **settings) as started:
        started.http.headers.update(OPERATOR)
        started.http.post("/collections", json={"title": "Confidential"}).raise_for_status()
        note = {"note": "The zanzibar ledger lists every ship.", "title": "Quarterly", "collection": "Confidential"}
        job = started.http.post("/jobs", json=note)
        assert started.wait_for_outcome(job)["status"] == "completed"
        for _ in range(2):
            started.http.post("/search", json={"query": "harbourmaster ledger"}).raise_for_status()
        call_tool(started, "knowledge-search", query="harbourmaster ledger").raise_for_status()
        call_tool(started, "harbourmaster-tool")
        started.http.get("/zanzibar")
        started.http.request("ZANZIBAR", "/status")
        yield started


def test_searches_are_counted_by_surface_tool_and_stage(server: ServerProcess) -> None:
    samples = scrape(server)
    assert samples["knowledge_http_requests_total", (("method", "POST"), ("status", "200"), ("surface", "rest"))] >= 2
    tool = (("tool", "knowledge-search"), ("toolset", "knowledge"))
    assert samples["knowledge_tool_calls_total", (("code", "none"), *tool)] == 1
    assert samples["knowledge_tool_call_seconds_count", tool] == 1
    assert samples["knowledge_searches_total", (("code", "none"),)] == 3
    assert samples["knowledge_search_seconds_count", ()] == 3
    for stage in ("embed", "words", "meaning", "fuse", "hydrate"):
        assert samples["knowledge_search_stage_seconds_count", (("stage", stage),)] == 3, stage
    assert samples["knowledge_cache_hits_total", (("cache", "questions"),)] == 2
    assert samples["knowledge_cache_misses_total", (("cache", "questions"),)] == 1


def test_the_stages_of_a_document_are_counted(server: ServerProcess) -> None:
    samples = scrape(server)
    for stage in ("extract", "split", "embed", "publish", "index"):
        assert samples["knowledge_ingest_stage_seconds_count", (("stage", stage),)] >= 1, stage
    assert samples["knowledge_job_seconds_count", (("kind", "add"),)] >= 1
    assert samples["knowledge_documents", ()] == 1
    assert samples["knowledge_queue_jobs", (("kind", "add"), ("status", "queued"))] == 0
    assert samples["knowledge_queue_oldest_seconds", (("kind", "add"),)] == 0
    assert samples["knowledge_engine_up", ()] == samples["knowledge_model_ready", ()] == 1
    assert samples["process_open_fds", ()] > 0
    wait_until(lambda: read(server, "knowledge_index_lag_changes") == 0)


def test_errors_are_counted_by_their_code(server: ServerProcess) -> None:
    before = read(server, "knowledge_http_errors_total", surface="rest", code="empty_query")
    assert server.http.post("/search", json={"query": "?"}).status_code == 422
    assert read(server, "knowledge_http_errors_total", surface="rest", code="empty_query") == before + 1
    assert read(server, "knowledge_searches_total", code="empty_query") == 1
    broken = server.add_file("broken.pdf", b"%PDF-1.4 broken")
    assert server.wait_for_outcome(broken)["status"] == "failed"
    assert read(server, "knowledge_jobs_total", kind="add", outcome="failed") == 1
    assert sum(
        value for (name, labels), value in scrape(server).items() if name == "knowledge_job_errors_total" and labels
    )


def test_unknown_tools_paths_and_methods_add_no_time_series(server: ServerProcess) -> None:
    assert (
        read(server, "knowledge_tool_calls_total", toolset="other", tool="other", code="unknown_tool") == 1
    )  # called by the fixture
    before = set(scrape(server))
    for number in range(5):
        call_tool(server, f"tool-{number}")
        httpx.request(f"METHOD{number}", f"{server.url}/api/v1/path-{number}", headers=OPERATOR)
    new = {name for name, _ in set(scrape(server)) - before}
    assert new <= {"knowledge_http_requests_total", "knowledge_http_requests_created"}
    assert len(set(scrape(server)) - before) <= 4


def test_no_text_and_no_name_of_a_user_is_shown(server: ServerProcess) -> None:
    account = {"username": "ann-the-reader", "password": "correct horse battery"}
    server.http.post("/user/register", json=account).raise_for_status()
    text = get_metrics(server, **OPERATOR).text
    assert [secret for secret in SECRETS if secret.lower() in text.lower()] == []


def test_only_the_operator_reads_metrics(server: ServerProcess) -> None:
    assert get_metrics(server).status_code == 401
    assert get_metrics(server, **{"x-api-key": MCP_KEY}).status_code == 401
    account = {"username": "bob", "password": "correct horse battery"}
    server.http.post("/user/register", json=account).raise_for_status()
    key = server.http.post("/user/login", json=account).json()["api_key"]
    refused = get_metrics(server, **{"x-api-key": key})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "admin_required")
    shown = get_metrics(server, **OPERATOR)
    assert shown.status_code == 200
    assert shown.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert shown.headers["cache-control"] == "no-store"


def test_foreign_pages_and_hosts_do_not_read_metrics(tmp_path: Path) -> None:
    with run_server_process(tmp_path) as server:
        assert get_metrics(server).status_code == 200
        assert get_metrics(server, host="evil.example").status_code == 403
        assert (
            get_metrics(server, **{"origin": "http://evil.example", "sec-fetch-site": "cross-site"}).status_code == 403
        )
        assert get_metrics(server, **{"x-forwarded-for": "192.0.2.1"}).status_code == 401


async def test_metrics_are_shown_while_the_engine_starts_or_its_database_is_away(
    local: LocalEngine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise DatabaseFailed("The database does not answer")

    starting = httpx.ASGITransport(app=make_http_app(local, settings, lambda: False))
    running = httpx.ASGITransport(app=make_http_app(local, settings))
    async with httpx.AsyncClient(transport=starting, base_url="http://127.0.0.1:8000") as http:
        shown = await http.get("/metrics")
    assert shown.status_code == 200 and "knowledge_engine_up 0.0" in shown.text
    monkeypatch.setattr(local._parts.status, "read", fail)
    async with httpx.AsyncClient(transport=running, base_url="http://127.0.0.1:8000") as http:
        shown = await http.get("/metrics")
    assert shown.status_code == 200 and "knowledge_engine_up 0.0" in shown.text
    assert "knowledge_documents" not in shown.text


def test_every_metric_of_the_alert_rules_exists(server: ServerProcess) -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    named = {name for rule in rules for name in NAME.findall(rule["expr"])}
    shown = {name for name, _ in scrape(server)}
    assert len(rules) >= 10 and named
    assert named - shown == set()
    guide = (ROOT / "docs" / "how-to" / "monitor-a-server.md").read_text()
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in guide] == []


def test_every_error_code_of_the_alert_rules_exists() -> None:
    codes = {code for match in re.findall(r'code=~"([^"]+)"', RULES.read_text()) for code in match.split("|")}
    assert codes and codes - metrics.CODES == set()


def test_every_metric_is_in_the_guide(server: ServerProcess) -> None:
    guide = (ROOT / "docs" / "how-to" / "monitor-a-server.md").read_text()
    families = text_string_to_metric_families(get_metrics(server, **OPERATOR).text)
    ours = {family.name for family in families if family.name.startswith("knowledge_")}
    named = {name.removesuffix("_total") for name in NAME.findall(guide)}
    assert (ours - named, {name for name in named if name.startswith("knowledge_")} - ours) == (set(), set())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_rules_and_output(server: ServerProcess) -> None:
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    text = get_metrics(server, **OPERATOR).text
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_unknown_label_value_becomes_other_and_is_not_kept() -> None:
    made: list[tuple[str, ...]] = []

    class Series:
        def inc(self, amount: float = 1) -> None: ...

    def make(labels: tuple[str, ...]) -> Series:
        made.append(labels)
        return Series()

    tally = metrics.Tally("example_total", "An example.", {"code": frozenset({"a", "b"}), "kind": None})
    tally["a", "x"].inc()  # before the start nothing is recorded
    tally.start(make)
    for number in range(3):
        tally[f"code-{number}", "x"].inc()
        tally["a", "x"].inc()
    assert made == [("other", "x"), ("a", "x"), ("other", "x"), ("other", "x")]
    assert set(tally) == {("a", "x")}
    assert metrics.find_code(Unavailable("away")) == "unavailable"
    assert metrics.find_code(ValueError()) == "internal"
