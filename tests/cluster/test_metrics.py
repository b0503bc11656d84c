"""The metrics of two servers on one database, one of which only runs jobs."""

from __future__ import annotations

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.server_pair import add_note, find_titles, run_member
from tests.support.server_process import ServerProcess

KEY = {"x-api-key": "operator-key-0123456789"}


def scrape(server: ServerProcess) -> dict[tuple[str, ...], float]:
    """Return the samples by name and label values."""
    answer = httpx.get(f"{server.url}/metrics", headers=KEY, timeout=30, verify=False)
    answer.raise_for_status()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_each_server_shows_its_own_work_and_the_shared_queue(shared_url: str, tmp_path: Path) -> None:
    keys = {"KB_API_KEY": KEY["x-api-key"], "KB_MCP_API_KEY": "mcp-key-0123456789"}
    with (
        run_member(tmp_path, shared_url, "front", KNOWLEDGE_SERVER_ROLE="no-workers", **keys) as front,
        run_member(tmp_path, shared_url, "back", KNOWLEDGE_SERVER_ROLE="workers-only", **keys) as back,
    ):
        front.http.headers.update(KEY)
        front.wait_for_job(add_note(front, "The harbour master keeps a ledger."))
        assert find_titles(front, "ledger")
        ours, theirs = scrape(front), scrape(back)
        refused = httpx.get(f"{back.url}/metrics", timeout=30, verify=False)
    assert refused.status_code == 401
    assert ours["knowledge_documents",] == theirs["knowledge_documents",] == 1
    assert ours["knowledge_queue_jobs", "add", "queued"] == theirs["knowledge_queue_jobs", "add", "queued"] == 0
    assert ours["knowledge_servers_live",] == theirs["knowledge_servers_live",] == 2
    assert ours["knowledge_searches_total", "none"] == 1
    assert ("knowledge_searches_total", "none") not in theirs
    assert theirs["knowledge_jobs_total", "add", "published"] >= 1
    assert ("knowledge_jobs_total", "add", "published") not in ours
    assert theirs["knowledge_index_lag_changes",] == 0, "a server that only runs jobs has no index"
