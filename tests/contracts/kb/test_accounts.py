"""The key of an account is forwarded to the engine, which authenticates it."""

from __future__ import annotations

import httpx
import pytest

from tests.contracts.kb.conftest import Agent, TwoProcesses, open_agent, wait_for_engine
from tests.contracts.kb.processes import ENGINE_KEY, MCP_KEY, RecordingProxy
from tests.contracts.kb.test_uploads import encode, start_upload
from tests.support.accounts import PASSWORD


async def key_of(agent: Agent, processes: TwoProcesses, username: str) -> str:
    """Register an account at the engine and return its key."""
    await wait_for_engine(agent.engine)
    given = {"username": username, "password": PASSWORD}
    async with httpx.AsyncClient(base_url=f"{processes.engine.url}/api/v1/user") as http:
        assert (await http.post("/register", json=given)).status_code == 201
        return str((await http.post("/login", json=given)).json()["api_key"])


@pytest.mark.requirement("004.auth.account")
async def test_the_engine_authenticates_the_key_of_an_account(
    agent: Agent, processes: TwoProcesses, proxy: RecordingProxy
) -> None:
    ada, bob = await key_of(agent, processes, "ada"), await key_of(agent, processes, "bob")
    async with (
        open_agent(processes.mcp.url, processes, ada) as hers,
        open_agent(processes.mcp.url, processes, bob) as his,
    ):
        added = await hers.call("kb_addnote", text="The ostrich key is under the mat")
        assert proxy.requests[-1].headers["authorization"] == f"Bearer {ada}"
        while not (found := (await hers.call("kb_search", query="ostrich key"))["results"]):
            assert (await hers.call("kb_jobs"))["jobs"][0]["status"] != "failed", added
        document = found[0]["document_id"]
        for other in (his, agent):
            assert (await other.call("kb_search", query="ostrich key"))["results"] == []
            assert (await other.call("kb_get", document_id=document))["error"] == "document_not_found"
            assert (await other.call("kb_update_note", document_id=document, text="mine"))["success"] is False
        assert {request.headers["authorization"] for request in proxy.requests} == {
            f"Bearer {key}" for key in (ada, bob, ENGINE_KEY)
        }
        assert MCP_KEY not in str([request.headers for request in proxy.requests])
        upload = await start_upload(hers, 5)
        sent = await his.call("kb_upload_chunk", upload_id=upload, data=encode(b"12345"), chunk_index=0)
        assert sent["error"] == "upload_not_found"


@pytest.mark.requirement("004.auth.account")
async def test_a_key_that_the_engine_does_not_know_is_refused_by_it(agent: Agent, processes: TwoProcesses) -> None:
    key = await key_of(agent, processes, "cyd")
    async with (
        httpx.AsyncClient(base_url=f"{processes.engine.url}/api/v1/user", headers={"x-api-key": key}) as http,
        open_agent(processes.mcp.url, processes, key) as theirs,
    ):
        assert "version" in await theirs.call("kb_status")
        [kept] = (await http.get("/api-keys")).json()["api_keys"]
        assert (await http.delete(f"/api-keys/{kept['id']}")).status_code == 200
        refused = await theirs.call("kb_status")
        assert (refused["success"], refused["error"]) == (False, "invalid_key")
    async with open_agent(processes.mcp.url, processes, "kn_nobody_atall") as nobody:
        assert (await nobody.call("kb_search", query="ostrich"))["error"] == "invalid_key"
