"""Grants and tokens of OAuth: in this process and over HTTP, on both databases."""

from __future__ import annotations

import base64
import hashlib

import pytest

from knowledge.engine.api import Engine
from knowledge.errors import AccountNotFound, InsufficientScope, KeyNotFound, SessionEnded, WrongPassword
from knowledge.model.oauth import CodeExchange, IssuedTokens, NewOAuthGrant, RefreshExchange, expand_scopes
from tests.support.accounts import PASSWORD, register
from tests.support.engines import add_note

VERIFIER = "v" * 50
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
RESOURCE, REDIRECT = "https://kb.example/mcp", "https://app.example/callback"


async def allow(engine: Engine, scopes: tuple[str, ...] = ("read", "write"), username: str = "ada") -> CodeExchange:
    """Let a new client act for an account, and return its token request."""
    client = await engine.oauth.register_client("Agent", (REDIRECT,))
    login = await engine.oauth.log_in(username, PASSWORD)
    new = NewOAuthGrant(client.client_id, client.name, RESOURCE, scopes, REDIRECT, CHALLENGE)
    code = await engine.oauth.approve(login.token, new)
    return CodeExchange(code, client.client_id, REDIRECT, VERIFIER, RESOURCE)


async def get_tokens(engine: Engine, scopes: tuple[str, ...] = ("read", "write")) -> tuple[str, IssuedTokens]:
    given = await allow(engine, scopes)
    issued = await engine.oauth.exchange_code(given)
    assert issued is not None
    return given.client_id, issued


async def test_a_client_gets_tokens_that_act_for_the_account(engine: Engine) -> None:
    own = await register(engine, "ada")
    client_id, issued = await get_tokens(engine)
    found = await engine.oauth.find_token(issued.access_token)
    assert found is not None and (found.caller.name, found.resource) == ("ada", RESOURCE)
    added = await add_note(engine.as_caller(found.caller), "tea in the kitchen")
    assert (await own.document(added.id)).added_by == "ada"
    [grant] = await own.oauth.list_own()
    assert (grant.client_id, grant.client_name, grant.scopes) == (client_id, "Agent", ("read", "write"))
    with pytest.raises(InsufficientScope):
        await engine.as_caller(found.caller).accounts.create_key("laptop")
    with pytest.raises(InsufficientScope):
        await engine.as_caller(found.caller).oauth.list_own()


async def test_codes_and_refresh_tokens_are_used_once(engine: Engine) -> None:
    await register(engine, "ada")
    given = await allow(engine)
    issued = await engine.oauth.exchange_code(given)
    assert issued is not None
    again = await engine.oauth.refresh(RefreshExchange(issued.refresh_token, given.client_id))
    assert again is not None and again.scopes == ("read", "write")
    assert await engine.oauth.refresh(RefreshExchange(issued.refresh_token, given.client_id)) is None
    assert await engine.oauth.find_token(again.access_token) is None, "the whole family ended"
    assert await engine.oauth.exchange_code(given) is None


async def test_grants_are_revoked_by_their_owner_by_admins_and_by_the_client(engine: Engine) -> None:
    own, other = await register(engine, "ada"), await register(engine, "bob")
    tokens = [await get_tokens(engine) for _ in range(4)]
    ids = [grant.id for grant in await own.oauth.list_own()]
    assert len(ids) == 4 and await other.oauth.list_own() == []
    with pytest.raises(KeyNotFound):
        await other.oauth.revoke(ids[0])
    await own.oauth.revoke(ids[0])
    await engine.oauth.revoke_of("ada", ids[1])
    client_id, issued = tokens[0]
    await engine.oauth.revoke_token(issued.refresh_token, "another client")
    assert await engine.oauth.find_token(issued.access_token) is not None
    await engine.oauth.revoke_token(issued.refresh_token, client_id)
    assert await engine.oauth.find_token(issued.access_token) is None
    assert len(await engine.oauth.list_of("ada")) == 1
    assert await engine.oauth.revoke_all_of("ada") == 1
    assert await own.oauth.revoke_all() == 0
    with pytest.raises(AccountNotFound):
        await engine.oauth.list_of("nobody")


async def test_logins_need_the_password_and_end_with_the_account(engine: Engine) -> None:
    await register(engine, "ada")
    for name, password in (("ada", "wrong password"), ("nobody", PASSWORD)):
        with pytest.raises(WrongPassword):
            await engine.oauth.log_in(name, password)
    with pytest.raises(WrongPassword):
        await engine.oauth.log_in_by_key("kn_0123456789ab_wrong")
    login = await engine.oauth.log_in("ada", PASSWORD)
    assert (await engine.oauth.find_login(login.token)) == login
    _, issued = await get_tokens(engine)
    await engine.accounts.disable("ada")
    await engine.accounts.disable("ada", False)
    assert await engine.oauth.find_login(login.token) is None
    assert await engine.oauth.find_token(issued.access_token) is None
    with pytest.raises(SessionEnded):
        await engine.oauth.approve(login.token, NewOAuthGrant("c", "c", RESOURCE, ("read",), REDIRECT, CHALLENGE))


async def test_an_account_with_grants_can_be_deleted(engine: Engine) -> None:
    await register(engine, "ada")
    _, issued = await get_tokens(engine)
    await engine.oauth.link_subject("ada", "https://id.example", "u-1")
    await engine.accounts.remove("ada")
    assert await engine.oauth.find_token(issued.access_token) is None


async def test_unknown_clients_are_not_found(engine: Engine) -> None:
    client = await engine.oauth.register_client("Agent", (REDIRECT,))
    assert await engine.oauth.find_client(client.client_id) == client
    assert await engine.oauth.find_client("unknown") is None


def test_scopes_include_each_other() -> None:
    assert expand_scopes(["write", "openid"]) == ("read", "write")
    assert expand_scopes(["admin"]) == ("read", "write", "admin")
    assert expand_scopes(["openid"]) == ()
