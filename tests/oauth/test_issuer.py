"""Tokens of an authorization server elsewhere: JWTs, checked with its keys and mapped to accounts."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.oauth.issuer import list_metadata_urls, read_scopes
from tests.oauth.conftest import ORIGIN
from tests.support.oauth import bearer
from tests.support.web_site import SiteReply, WebSite, serve_site

LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
KEY, OTHER_KEY = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))


@pytest.fixture
def issuer() -> Iterator[WebSite]:
    """An issuer that publishes one key."""
    with serve_site() as site:
        put_key(site, "k1", KEY)
        metadata = {"issuer": site.url, "jwks_uri": f"{site.url}/keys"}
        site.pages["/.well-known/openid-configuration"] = SiteReply(
            json.dumps(metadata), content_type="application/json"
        )
        yield site


def put_key(site: WebSite, kid: str, key: rsa.RSAPrivateKey) -> None:
    public = {**jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}
    site.pages["/keys"] = SiteReply(json.dumps({"keys": [public]}), content_type="application/json")


def sign(issuer: WebSite, key: Any = KEY, kid: str = "k1", algorithm: str = "RS256", **changed: Any) -> str:
    claims = {
        "iss": issuer.url, "sub": "u-1", "aud": f"{ORIGIN}/mcp", "exp": int(time.time()) + 600, "scope": "read write",
        "preferred_username": "ada", "client_id": "agent", **changed,
    }  # fmt: skip
    return jwt.encode(
        {name: value for name, value in claims.items() if value is not None}, key, algorithm, {"kid": kid}
    )


@asynccontextmanager
async def open_server(
    local: LocalEngine, guarded: Settings, issuer: WebSite, **given: object
) -> AsyncIterator[httpx.AsyncClient]:
    settings = guarded.model_copy(update={"oauth_issuer": issuer.url, "oauth_create_accounts": True, **given})
    transport = httpx.ASGITransport(app=make_http_app(local, settings), client=("127.0.0.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http:
        yield http


async def call(http: httpx.AsyncClient, token: str, path: str = "/mcp") -> httpx.Response:
    return await http.post(path, json=LIST_TOOLS, headers=bearer(token))


async def test_a_user_of_the_issuer_gets_an_account_on_first_use(
    local: LocalEngine, guarded: Settings, issuer: WebSite
) -> None:
    await local.accounts.register("ada", "correct horse")
    async with open_server(local, guarded, issuer) as http:
        described = (await http.get("/.well-known/oauth-protected-resource/mcp")).json()
        assert described["authorization_servers"] == [issuer.url]
        assert (await http.get("/.well-known/oauth-authorization-server")).status_code == 404
        token = sign(issuer, aud=[ORIGIN, "other"])
        for _ in range(2):
            assert (await call(http, token)).status_code == 200
        found = (await http.get("/api/v1/user", headers=bearer(token))).json()
        assert found["username"].startswith("ada-"), "the account of that name belongs to somebody else"
        accounts = await local.accounts.list_all()
        assert len(accounts) == 2
        [grant] = await local.as_caller(Caller()).oauth.list_of(found["username"])
        assert (grant.client_name, grant.scopes) == ("agent", ("read", "write"))
        await local.as_caller(Caller()).oauth.revoke_all_of(found["username"])
        assert (await call(http, token)).status_code == 401
        assert (await call(http, "kna_" + "x" * 43)).status_code == 401


async def test_a_subject_that_is_linked_acts_for_its_account(
    local: LocalEngine, guarded: Settings, issuer: WebSite
) -> None:
    await local.accounts.register("ada", "correct horse")
    async with open_server(local, guarded, issuer, oauth_create_accounts=False) as http:
        refused = await call(http, sign(issuer))
        assert refused.status_code == 401 and "has no account" in refused.text
        await local.as_caller(Caller()).oauth.link_subject("ada", issuer.url, "u-1")
        assert (await call(http, sign(issuer))).status_code == 200
        mine = await http.get("/api/v1/user", headers=bearer(sign(issuer, aud=ORIGIN)))
        assert mine.json()["username"] == "ada"
        await local.accounts.disable("ada")
        assert (await call(http, sign(issuer, jti="2"))).status_code == 401


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "https://other.example/mcp"},
        {"aud": f"{ORIGIN}/mcp/rag"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"exp": int(time.time()) - 600},
        {"exp": None},
        {"sub": None},
        {"nbf": int(time.time()) + 6000},
        {"key": OTHER_KEY},
        {"kid": "unknown"},
        {"key": "a shared secret that is long enough for it", "algorithm": "HS256"},
        {"key": None, "algorithm": "none"},
    ],
    ids=lambda changed: " ".join(changed),
)
async def test_a_token_that_is_not_for_this_server_is_refused(
    local: LocalEngine, guarded: Settings, issuer: WebSite, changed: dict[str, Any]
) -> None:
    async with open_server(local, guarded, issuer) as http:
        assert (await call(http, sign(issuer, **changed))).status_code == 401
        assert (await call(http, sign(issuer))).status_code == 200


async def test_scopes_and_the_audience_of_the_issuer_are_understood(
    local: LocalEngine, guarded: Settings, issuer: WebSite
) -> None:
    async with open_server(local, guarded, issuer, oauth_audience="api://knowledge") as http:
        token = sign(issuer, aud="api://knowledge", scope=None, scp=["api://knowledge/read"])
        assert (await http.get("/api/v1/documents", headers=bearer(token))).status_code == 200
        refused = await http.post("/api/v1/jobs", json={"note": "x", "title": "x"}, headers=bearer(token))
        assert refused.status_code == 403 and 'scope="write"' in refused.headers["www-authenticate"]
        nothing = await call(http, sign(issuer, scope="openid profile"))
        assert nothing.status_code == 403


async def test_an_issuer_that_cannot_be_reached_is_named(
    local: LocalEngine, guarded: Settings, issuer: WebSite
) -> None:
    issuer.pages.clear()
    async with open_server(local, guarded, issuer) as http:
        refused = await call(http, sign(issuer))
        assert refused.status_code == 503 and issuer.url in refused.text


def test_metadata_is_found_below_a_path() -> None:
    assert list_metadata_urls("https://id.example/realms/a") == [
        "https://id.example/.well-known/oauth-authorization-server/realms/a",
        "https://id.example/.well-known/openid-configuration/realms/a",
        "https://id.example/realms/a/.well-known/openid-configuration",
    ]


def test_scopes_may_have_a_name_before_them() -> None:
    assert read_scopes("openid knowledge:write") == ("read", "write")
    assert read_scopes(None) == ()
