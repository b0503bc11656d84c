"""Ids of MCP sessions: signed for one caller, valid in every process of a data folder, refused once ended."""

from __future__ import annotations

from sqlalchemy import update

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.engine.local_mcp_sessions import check_session_id, sign_session_id
from knowledge.store import schema
from knowledge.store.mcp_sessions import ENDED_KEEP_MICROSECONDS, McpSessionStore
from knowledge.store.row_mapping import make_timestamp
from knowledge.testing import SharedParsers, make_test_engine


async def test_an_id_is_valid_for_its_caller_until_it_is_ended(engine: Engine) -> None:
    session = await engine.mcp_sessions.issue("account:2", "2025-06-18")
    assert await engine.mcp_sessions.find_version(session, "account:2") == "2025-06-18"
    assert await engine.mcp_sessions.find_version(session, "account:3") is None
    await engine.mcp_sessions.end(session, "account:3")  # another caller cannot end it
    assert await engine.mcp_sessions.find_version(session, "account:2") == "2025-06-18"
    await engine.mcp_sessions.end(session, "account:2")
    await engine.mcp_sessions.end(session, "account:2")
    assert await engine.mcp_sessions.find_version(session, "account:2") is None


async def test_an_id_is_valid_after_a_restart(settings: Settings, parsers: SharedParsers) -> None:
    first = make_test_engine(settings, parsers=parsers)
    first.start()
    kept, ended = [await first.mcp_sessions.issue("local:0", "2025-11-25") for _ in range(2)]
    await first.mcp_sessions.end(ended, "local:0")
    first.close()
    second = make_test_engine(settings, parsers=parsers)
    second.start()
    try:
        assert await second.mcp_sessions.find_version(kept, "local:0") == "2025-11-25"
        assert await second.mcp_sessions.find_version(ended, "local:0") is None
    finally:
        second.close()


async def test_ended_ids_are_forgotten_after_a_day(local: LocalEngine) -> None:
    old = await local.mcp_sessions.issue("local:0", "2025-11-25")
    await local.mcp_sessions.end(old, "local:0")
    database = local._parts.database
    past = make_timestamp() - ENDED_KEEP_MICROSECONDS - 1
    database.write(lambda connection: connection.execute(update(schema.ended_mcp_sessions).values(ended_at=past)))
    store = McpSessionStore(database)
    store.end(b"x" * 32)
    with database.read() as connection:
        assert [row.digest for row in connection.execute(schema.ended_mcp_sessions.select())] == [b"x" * 32]


def test_every_part_of_an_id_is_signed() -> None:
    key = b"k" * 32
    session = sign_session_id(key, "nonce", "2025-06-18", "ada")
    assert check_session_id(key, session, "ada") == "2025-06-18"
    nonce, version, mac = session.split(".")
    others = [
        f"other.{version}.{mac}",
        f"{nonce}.2024-11-05.{mac}",
        f"{nonce}.{version}.{'0' * 32}",
        nonce,
        "",
        "ü.ü.ü",
    ]
    assert [check_session_id(key, other, "ada") for other in others] == [None] * len(others)
    assert check_session_id(b"l" * 32, session, "ada") is None
