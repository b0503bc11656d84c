"""Browser sessions as verbs of the engine, in process and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Table, select, update

from knowledge.config import Settings
from knowledge.engine.accounts import MAX_SESSIONS, MAX_USER_AGENT_CHARS
from knowledge.engine.api import Engine
from knowledge.engine.data_folder import open_database
from knowledge.engine.events import watch
from knowledge.engine.local import LocalEngine
from knowledge.errors import (
    AccountNotFound,
    AdminRequired,
    KnowledgeError,
    SessionEnded,
    SessionNotFound,
    WrongPassword,
)
from knowledge.model import CallerKind, DocumentFilter, now
from knowledge.model.events import EventKind
from knowledge.model.sessions import IssuedSession, prove_operator_key
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.row_mapping import make_timestamp
from knowledge.testing import SharedParsers, make_test_engine
from tests.engine.test_accounts import CountingHasher
from tests.support.accounts import ADMIN, PASSWORD, register
from tests.support.engines import add_note
from tests.support.watching import watching

BROWSER = "Browser 1.0"
S = schema.browser_sessions.c


async def open_session(engine: Engine, username: str = "ada", *, stay: bool = False) -> IssuedSession:
    return await engine.sessions.open_by_password(username, PASSWORD, stay, BROWSER)


async def act(engine: Engine, token: str) -> Engine:
    """Return the engine of a session."""
    found = await engine.sessions.find(token)
    assert found is not None
    return engine.as_caller(found.caller)


@contextmanager
def open_store(settings: Settings) -> Iterator[Database]:
    """Open the database of the engine once more."""
    url = settings.database_url
    database = open_database(settings.data, url.get_secret_value() if url else None)
    try:
        yield database
    finally:
        database.close()


def change_rows(settings: Settings, table: Table, **values: Any) -> None:
    with open_store(settings) as database:
        database.write(lambda connection: connection.execute(update(table).values(**values)))


def change_row(settings: Settings, **values: Any) -> None:
    change_rows(settings, schema.browser_sessions, **values)


def read_rows(settings: Settings) -> list[Any]:
    with open_store(settings) as database, database.read() as connection:
        return list(connection.execute(select(schema.browser_sessions)))


async def test_a_session_acts_for_its_account(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    await add_note(ada, "tea in the kitchen")
    await add_note(bob, "coffee in the cellar")
    issued = await open_session(engine)
    assert (issued.caller.kind, issued.caller.name, issued.session.user_agent) == (CallerKind.ACCOUNT, "ada", BROWSER)
    session = await act(engine, issued.token)
    assert (await session.accounts.me()).username == "ada"
    assert [found.title for found in (await session.documents(DocumentFilter())).items] == ["tea in the kitchen"]


async def test_the_operators_session_acts_for_the_owner_and_proves_its_key(engine: Engine) -> None:
    await add_note(engine, "tea in the kitchen")
    issued = await engine.sessions.open_for_operator("operator-key", False, BROWSER)
    found = await engine.sessions.find(issued.token)
    assert found is not None and found.caller.kind is CallerKind.KEY and found.caller.owner == 0
    assert found.operator_proof == prove_operator_key(issued.token, "operator-key")
    assert (await engine.as_caller(found.caller).documents(DocumentFilter())).total == 1


async def test_a_session_opened_with_an_api_key_ends_with_the_key(engine: Engine) -> None:
    ada = await register(engine, "ada")
    key = await ada.accounts.create_key("page")
    issued = await engine.sessions.open_by_key(key.secret, False, BROWSER)
    session = await act(engine, issued.token)
    await ada.accounts.revoke_key(key.key.id)
    assert await engine.sessions.find(issued.token) is None
    with pytest.raises(SessionEnded):
        await session.documents(DocumentFilter())


async def test_a_session_opened_with_an_api_key_expires_with_it(local: LocalEngine, settings: Settings) -> None:
    ada = await register(local, "ada")
    key = await ada.accounts.create_key("page", now() + timedelta(hours=1))
    issued = await local.sessions.open_by_key(key.secret, False, BROWSER)
    change_rows(settings, schema.api_keys, expires_at=1)
    assert await local.sessions.find(issued.token) is None
    with pytest.raises(WrongPassword):
        await local.sessions.open_by_key(key.secret, False, BROWSER)


@pytest.mark.parametrize("wrong", ["name", "password", "disabled", "key", "no key"])
async def test_a_wrong_login_says_the_same_whatever_was_wrong(engine: Engine, wrong: str) -> None:
    ada = await register(engine, "ada")
    key = (await ada.accounts.create_key("page")).secret
    if wrong == "disabled":
        await engine.accounts.disable("ada")
    attempts: dict[str, Callable[[], Any]] = {
        "name": lambda: engine.sessions.open_by_password("eve", PASSWORD, False, ""),
        "password": lambda: engine.sessions.open_by_password("ada", "wrong password", False, ""),
        "disabled": lambda: engine.sessions.open_by_password("ada", PASSWORD, False, ""),
        "key": lambda: engine.sessions.open_by_key(f"{key}x", False, ""),
        "no key": lambda: engine.sessions.open_by_key("kn_", False, ""),
    }
    with pytest.raises(WrongPassword) as caught:
        await attempts[wrong]()
    assert str(caught.value) == "The username, the password or the API key is wrong"
    assert caught.value.hint == "Check the username and the password, or the API key."


async def test_an_unknown_name_takes_the_work_of_a_wrong_password(
    local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts the argon2 verifications, because time differs from run to run."""
    await local.accounts.register("ada", PASSWORD)
    await local.accounts.add("keyholder")
    hasher = CountingHasher()
    monkeypatch.setattr(local._parts.passwords, "hasher", hasher)
    for number, name in enumerate(("ada", "nobody", "keyholder"), 1):
        with pytest.raises(WrongPassword):
            await local.sessions.open_by_password(name, "wrong horse", False, "")
        assert len(hasher.seen) == number
    assert len({kept.rsplit("$", 2)[0] for kept in hasher.seen}) == 1, "all hashes have the same cost"


async def test_an_ended_session_is_refused_at_once(engine: Engine) -> None:
    await register(engine, "ada")
    issued = await open_session(engine)
    session = await act(engine, issued.token)
    await engine.sessions.end(issued.token)
    await engine.sessions.end(issued.token)
    await engine.sessions.end("never issued")
    assert await engine.sessions.find(issued.token) is None
    with pytest.raises(SessionEnded):
        await session.status()


async def test_accounts_list_and_revoke_their_own_sessions_only(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    first, second = await open_session(engine), await open_session(engine, stay=True)
    other = await open_session(engine, "bob")
    operator = await engine.sessions.open_for_operator("operator-key", False, BROWSER)
    listed = await ada.sessions.list_own()
    assert [(one.id, one.stay) for one in listed] == [(second.session.id, True), (first.session.id, False)]
    assert [one.id for one in await bob.sessions.list_own()] == [other.session.id]
    assert [one.id for one in await engine.sessions.list_own()] == [operator.session.id]
    for foreign in (other, operator):
        with pytest.raises(SessionNotFound):
            await ada.sessions.revoke(foreign.session.id)
    await ada.sessions.revoke(first.session.id)
    assert await engine.sessions.find(first.token) is None
    assert await ada.sessions.revoke_all() == 1
    for kept in (other, operator):
        assert await engine.sessions.find(kept.token) is not None
    with pytest.raises(SessionNotFound):
        await ada.sessions.revoke(second.session.id)


async def test_admins_list_and_revoke_the_sessions_of_accounts(engine: Engine) -> None:
    ada, root = await register(engine, "ada"), await register(engine, ADMIN)
    first, second = await open_session(engine), await open_session(engine)
    assert len(await root.sessions.list_of("ada")) == 2
    await root.sessions.revoke_of("ada", first.session.id)
    with pytest.raises(SessionNotFound):
        await root.sessions.revoke_of("ada", first.session.id)
    assert await root.sessions.revoke_all_of("ada") == 1
    assert await engine.sessions.find(second.token) is None
    with pytest.raises(AccountNotFound):
        await engine.sessions.list_of("nobody")
    for refused in (ada.sessions.list_of(ADMIN), ada.sessions.revoke_all_of(ADMIN), ada.sessions.revoke_of(ADMIN, 1)):
        with pytest.raises(AdminRequired):
            await refused


async def test_only_the_operator_opens_and_reads_sessions_of_others(engine: Engine) -> None:
    root = await register(engine, ADMIN)
    refused = [
        root.sessions.open_by_password(ADMIN, PASSWORD, False, ""),
        root.sessions.open_by_key("kn_x", False, ""),
        root.sessions.open_for_operator("key", False, ""),
        root.sessions.find("token"),
        root.sessions.end("token"),
    ]
    for verb in refused:
        with pytest.raises(AdminRequired):
            await verb


async def test_changing_the_password_ends_all_sessions(engine: Engine) -> None:
    ada = await register(engine, "ada")
    key = await ada.accounts.create_key("page")
    by_key = await engine.sessions.open_by_key(key.secret, False, BROWSER)
    tokens = [by_key.token, *[(await open_session(engine)).token for _ in range(2)]]
    session = await act(engine, tokens[1])
    await session.accounts.change_password(PASSWORD, "another good horse")
    assert [await engine.sessions.find(token) for token in tokens] == [None] * 3
    assert await engine.accounts.find_by_key(key.secret) is not None


async def test_disabling_an_account_ends_its_sessions_for_good(engine: Engine) -> None:
    await register(engine, "ada")
    issued = await open_session(engine)
    session = await act(engine, issued.token)
    await engine.accounts.disable("ada")
    with pytest.raises(KnowledgeError):
        await session.documents(DocumentFilter())
    await engine.accounts.disable("ada", False)
    assert await engine.sessions.find(issued.token) is None


async def test_deleting_an_account_deletes_its_sessions(engine: Engine, settings: Settings) -> None:
    await register(engine, "ada")
    issued = await open_session(engine)
    await (await act(engine, issued.token)).accounts.delete_me(PASSWORD)
    assert await engine.sessions.find(issued.token) is None
    assert read_rows(settings) == []


async def test_the_token_is_not_stored(local: LocalEngine, settings: Settings) -> None:
    await register(local, "ada")
    issued = await open_session(local)
    (row,) = read_rows(settings)
    assert issued.token.encode() not in b"".join(value for value in row if isinstance(value, bytes))
    assert issued.token not in repr(row) and issued.token not in repr(issued)
    assert len(issued.token) == 43, "256 bits"


async def test_a_session_survives_a_restart(settings: Settings, parsers: SharedParsers) -> None:
    first = make_test_engine(settings, parsers=parsers)
    first.start()
    await first.accounts.register("ada", PASSWORD)
    issued = await open_session(first)
    first.close()
    second = make_test_engine(settings, parsers=parsers)
    second.start()
    try:
        found = await second.sessions.find(issued.token)
        assert found is not None and found.caller.name == "ada" and found.session == issued.session
    finally:
        second.close()


async def test_an_expired_session_is_refused_not_listed_and_deleted(local: LocalEngine, settings: Settings) -> None:
    ada = await register(local, "ada")
    issued = await open_session(local)
    session = await act(local, issued.token)
    change_row(settings, expires_at=make_timestamp() - 1)
    assert await local.sessions.find(issued.token) is None
    with pytest.raises(SessionEnded):
        await session.status()
    assert await ada.sessions.list_own() == [] and len(read_rows(settings)) == 1
    local._parts.sweep(older_than=0.0)
    assert read_rows(settings) == []


@pytest.mark.parametrize(("stay", "lifetime"), [(False, timedelta(hours=12)), (True, timedelta(days=30))])
async def test_use_moves_the_end_of_a_session_on(
    local: LocalEngine, settings: Settings, stay: bool, lifetime: timedelta
) -> None:
    await register(local, "ada")
    issued = await open_session(local, stay=stay)
    assert lifetime - timedelta(minutes=1) < issued.session.expires_at - now() <= lifetime
    used = now() - timedelta(hours=1)
    change_row(settings, last_used_at=make_timestamp(used), expires_at=make_timestamp(used + timedelta(hours=2)))
    found = await local.sessions.find(issued.token)
    assert found is not None
    assert lifetime - timedelta(minutes=1) < found.session.expires_at - now() <= lifetime
    (row,) = read_rows(settings)
    assert row.expires_at == make_timestamp(found.session.expires_at)


async def test_a_session_is_written_at_most_once_a_minute(local: LocalEngine, settings: Settings) -> None:
    await register(local, "ada")
    issued = await open_session(local)
    recent = make_timestamp(now() - timedelta(seconds=30))
    change_row(settings, last_used_at=recent)
    for _ in range(3):
        assert await local.sessions.find(issued.token) is not None
    (row,) = read_rows(settings)
    assert row.last_used_at == recent


async def test_a_stream_does_not_keep_a_session_alive(
    local: LocalEngine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "JUDGE_SECONDS", 0.01)
    await register(local, "ada")
    issued = await open_session(local)
    used, ends = make_timestamp(now() - timedelta(hours=11)), make_timestamp(now() + timedelta(hours=1))
    change_row(settings, last_used_at=used, expires_at=ends)
    async with watching(local.as_caller(issued.caller)) as reader:
        await reader.read_kind(EventKind.HEARTBEAT)
        assert await local.sessions.find(issued.token, is_use=False) is not None
        (row,) = read_rows(settings)
        assert (row.last_used_at, row.expires_at) == (used, ends)
        change_row(settings, expires_at=make_timestamp() - 1)
        with pytest.raises(SessionEnded):
            await reader.read_to_end()


async def test_the_oldest_sessions_of_an_account_give_way(local: LocalEngine) -> None:
    ada = await register(local, "ada")
    key = (await ada.accounts.create_key("page")).secret
    operator = await local.sessions.open_for_operator("key", False, "")
    tokens = [(await local.sessions.open_by_key(key, False, "")).token for _ in range(MAX_SESSIONS + 2)]
    found = [await local.sessions.find(token) is not None for token in tokens]
    assert found == [False] * 2 + [True] * MAX_SESSIONS
    assert await local.sessions.find(operator.token) is not None, "others are not affected"


async def test_the_name_of_the_browser_is_one_printable_line(engine: Engine) -> None:
    hostile = "Evil\x1b[2J\r\n\u202e" + "x" * 5000
    issued = await engine.sessions.open_for_operator("key", False, hostile)
    shown = issued.session.user_agent
    assert shown.startswith("Evil[2Jx") and len(shown) <= MAX_USER_AGENT_CHARS and shown.isprintable()


async def test_times_are_in_utc(engine: Engine) -> None:
    issued = await engine.sessions.open_for_operator("key", False, "")
    assert issued.session.expires_at.tzinfo is not None
    assert abs(issued.session.created_at - datetime.now(UTC)) < timedelta(minutes=5)
