"""Agents that use MCP, and attempts that were refused, in process and over HTTP, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knowledge.engine.api import Engine
from knowledge.errors import AdminRequired
from knowledge.model import CallerKind
from knowledge.model.agents import Agent, AgentSighting, AgentTransport, NewRefusal, RefusalReason
from knowledge.model.events import EventKind
from tests.support.accounts import PASSWORD, register
from tests.support.watching import watching

CODE = AgentSighting(client="claude-code", version="2.1", toolset="knowledge", calls=2, last_tool="knowledge-search")


async def test_the_calls_of_an_agent_are_counted_and_its_last_tool_is_kept(engine: Engine) -> None:
    await engine.agents.record(replace(CODE, calls=0, last_tool=None))
    await engine.agents.record(CODE)
    await engine.agents.record(replace(CODE, calls=0, last_tool=None))
    await engine.agents.record(replace(CODE, client="cursor", transport=AgentTransport.WEBSOCKET, calls=1))
    cursor, code = await engine.agents.list_seen()
    assert (code.client, code.version, code.calls, code.last_tool) == ("claude-code", "2.1", 2, "knowledge-search")
    assert (cursor.client, cursor.transport, cursor.calls) == ("cursor", AgentTransport.WEBSOCKET, 1)
    assert code.first_seen < code.last_seen <= cursor.last_seen


async def test_accounts_see_their_own_agents_with_the_name_of_the_key(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    key = await ada.accounts.create_key("laptop")
    await ada.agents.record(replace(CODE, caller=CallerKind.ACCOUNT, key_prefix=key.key.prefix))
    (seen,) = await ada.agents.list_seen()
    assert (seen.key_name, seen.caller) == ("laptop", CallerKind.ACCOUNT)
    assert await bob.agents.list_seen() == await engine.agents.list_seen() == []
    await ada.accounts.delete_me(PASSWORD)
    assert await engine.agents.list_seen() == []


async def test_refused_attempts_are_joined_and_accounts_see_only_those_from_their_address(engine: Engine) -> None:
    missing = NewRefusal(reason=RefusalReason.NO_KEY, client="claude-code", address="10.0.0.9", path="/mcp")
    host = NewRefusal(reason=RefusalReason.HOST, client="curl", address="10.0.0.7", path="/mcp", detail="evil.example")
    await engine.agents.record_refusals([missing, host])
    await engine.agents.record_refusals([replace(missing, attempts=2)])
    first, second = await engine.agents.list_refused("")
    assert (first.reason, first.attempts, first.client) == (RefusalReason.NO_KEY, 3, "claude-code")
    assert (second.detail, second.address) == ("evil.example", "10.0.0.7")
    ada = await register(engine, "ada")
    assert await ada.agents.list_refused("192.0.2.1") == []
    with pytest.raises(AdminRequired):
        await ada.agents.record_refusals([missing])


async def test_an_account_sees_no_names_in_the_attempts_from_its_address(local: Engine) -> None:
    new = NewRefusal(reason=RefusalReason.WRONG_KEY, client="cursor", address="10.0.0.9", path="/mcp", detail="x")
    await local.agents.record_refusals([new])
    (seen,) = await (await register(local, "ada")).agents.list_refused("10.0.0.9")
    assert (seen.reason, seen.client, seen.address, seen.path, seen.detail) == (RefusalReason.WRONG_KEY, "", "", "", "")


async def test_agents_and_refusals_are_told_to_those_who_may_see_them(local: Engine) -> None:
    ada = await register(local, "ada")
    async with watching(local) as owner, watching(ada) as account:
        await owner.read()
        await account.read()
        await ada.agents.record(CODE)
        event = await account.read_kind(EventKind.AGENT)
        assert isinstance(event.data, Agent) and event.data == (await ada.agents.list_seen())[0]
        await local.agents.record_refusals([NewRefusal(reason=RefusalReason.NO_KEY, path="/mcp")])
        assert (await owner.read_kind(EventKind.REFUSAL)).data == (await local.agents.list_refused(""))[0]
        await ada.agents.record(replace(CODE, client="cursor"))
        await account.read_kind(EventKind.AGENT)
        assert [event for event in owner.seen if event.kind is EventKind.AGENT] == []
        assert [event for event in account.seen if event.kind is EventKind.REFUSAL] == []
