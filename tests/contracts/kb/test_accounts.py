"""Contract 004: an account's own key goes on to the engine, which judges it."""

from __future__ import annotations

import httpx
import pytest

from tests.contracts.kb.conftest import Agent, TwoProcesses, open_agent, wait_for_engine
from tests.contracts.kb.processes import ENGINE_KEY, MCP_KEY, RecordingProxy
from tests.contracts.kb.test_uploads import begun, encoded
from tests.support.accounts import PASSWORD


async def key_of(agent: Agent, apart: TwoProcesses, username: str) -> str:
    """A new account at the engine, and its key."""
    await wait_for_engine(agent.engine)
    given = {"username": username, "password": PASSWORD}
    async with httpx.AsyncClient(base_url=f"{apart.engine.url}/api/v1/user") as http:
        assert (await http.post("/register", json=given)).status_code == 201
        return str((await http.post("/login", json=given)).json()["api_key"])


@pytest.mark.requirement("004.auth.account")
async def test_the_engine_judges_an_accounts_key(agent: Agent, apart: TwoProcesses, line: RecordingProxy) -> None:
    ada, bob = await key_of(agent, apart, "ada"), await key_of(agent, apart, "bob")
    async with open_agent(apart.mcp.url, apart, ada) as hers, open_agent(apart.mcp.url, apart, bob) as his:
        added = await hers.call("kb_addnote", text="The ostrich key lies below the mat")
        assert line.requests[-1].headers["authorization"] == f"Bearer {ada}"
        while not (found := (await hers.call("kb_search", query="ostrich key"))["results"]):
            assert (await hers.call("kb_jobs"))["jobs"][0]["status"] != "failed", added
        document = found[0]["document_id"]
        for other in (his, agent):
            assert (await other.call("kb_search", query="ostrich key"))["results"] == []
            assert (await other.call("kb_get", document_id=document))["error"] == "document_not_found"
            assert (await other.call("kb_update_note", document_id=document, text="mine"))["success"] is False
        assert {said.headers["authorization"] for said in line.requests} == {
            f"Bearer {key}" for key in (ada, bob, ENGINE_KEY)
        }
        assert MCP_KEY not in str([said.headers for said in line.requests])
        upload = await begun(hers, 5)
        sent = await his.call("kb_upload_chunk", upload_id=upload, data=encoded(b"12345"), chunk_index=0)
        assert sent["error"] == "upload_not_found"


@pytest.mark.requirement("004.auth.account")
async def test_a_key_that_the_engine_does_not_know_is_refused_by_it(agent: Agent, apart: TwoProcesses) -> None:
    key = await key_of(agent, apart, "cyd")
    async with (
        httpx.AsyncClient(base_url=f"{apart.engine.url}/api/v1/user", headers={"x-api-key": key}) as http,
        open_agent(apart.mcp.url, apart, key) as theirs,
    ):
        assert "version" in await theirs.call("kb_status")
        [kept] = (await http.get("/api-keys")).json()["api_keys"]
        assert (await http.delete(f"/api-keys/{kept['id']}")).status_code == 200
        refused = await theirs.call("kb_status")
        assert (refused["success"], refused["error"]) == (False, "invalid_key")
    async with open_agent(apart.mcp.url, apart, "kn_nobody_atall") as nobody:
        assert (await nobody.call("kb_search", query="ostrich"))["error"] == "invalid_key"
