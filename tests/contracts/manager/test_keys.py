"""Authentication at contract 001's endpoints: only API keys of accounts are accepted."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import httpx
import pytest
from mcp import MCPError
from pydantic import SecretStr

from knowledge.engine.local import LocalEngine
from knowledge.model import now
from knowledge.surfaces.http.app import make_http_app
from tests.contracts.app_server import serve_app
from tests.contracts.manager.conftest import (
    ENDPOINT,
    STREAM,
    Person,
    Product,
    make_person,
    open_sdk_transport,
    read_refusal,
)
from tests.contracts.manager.test_stream import read_events
from tests.contracts.transports import WAIT_SECONDS, Body

LISTING = {"jsonrpc": "2.0", "method": "tools/list", "params": {}, "id": 1}
NO_KEY = "Invalid or missing API key"


async def send_request(url: str, headers: dict[str, str], path: str = ENDPOINT) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url) as http:
        return await http.post(path, json=LISTING if path != STREAM else {"query": "tea"}, headers=headers)


@pytest.mark.requirement("001.auth.missing")
@pytest.mark.parametrize("path", [ENDPOINT, ENDPOINT.rstrip("/")])
async def test_a_request_without_a_key_is_rejected(product: Product, path: str) -> None:
    answer = await send_request(product.url, {}, path)
    assert read_refusal(answer) == (401, "auth.missing_api_key", NO_KEY)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["data"]["http_status"] == 401


@pytest.mark.requirement("001.auth.invalid")
@pytest.mark.parametrize("key", ["your-api-key", "kn_abc_def", "x" * 5000, "kn_' OR 1=1 --"])
async def test_a_wrong_key_has_another_code_than_a_missing_one(product: Product, key: str) -> None:
    assert read_refusal(await send_request(product.url, {"X-API-Key": key})) == (401, "auth.invalid_api_key", NO_KEY)


@pytest.mark.requirement("001.auth.header")
async def test_the_key_is_accepted_as_x_api_key_or_bearer_token(ada: Person) -> None:
    for headers in ({"X-API-Key": ada.key}, {"Authorization": f"Bearer {ada.key}"}):
        answer = await send_request(ada.url, headers)
        assert (answer.status_code, len(answer.json()["result"]["tools"])) == (200, 4)


@pytest.mark.requirement("001.auth.expired")
async def test_an_expired_key_has_its_own_code(ada: Person, product: Product) -> None:
    old = await product.engine.accounts.issue_key(ada.name, "old", now() + timedelta(seconds=0.5))
    async with asyncio.timeout(WAIT_SECONDS):
        while (answer := await send_request(ada.url, {"X-API-Key": old.secret})).status_code == 200:
            await asyncio.sleep(0.05)
    assert read_refusal(answer) == (401, "auth.expired_api_key", "API key expired")
    streamed = await send_request(ada.url, {"X-API-Key": old.secret}, STREAM)
    assert streamed.status_code == 401
    assert read_events(streamed) == [
        {"type": "error", "error_code": "auth.expired_api_key", "detail": "API key expired"}
    ]  # fmt: skip


@pytest.mark.requirement("001.auth.revoked")
async def test_a_revoked_key_is_rejected_immediately(ada: Person) -> None:
    second = await ada.engine.accounts.create_key("second")
    assert (await send_request(ada.url, {"X-API-Key": second.secret})).status_code == 200
    await ada.engine.accounts.revoke_key(second.key.id)
    assert read_refusal(await send_request(ada.url, {"X-API-Key": second.secret}))[:2] == (401, "auth.invalid_api_key")
    assert (await send_request(ada.url, {"X-API-Key": ada.key})).status_code == 200


@pytest.mark.requirement("001.auth.disabled")
async def test_the_key_of_a_disabled_account_is_rejected(ada: Person, product: Product) -> None:
    await product.engine.accounts.disable(ada.name)
    assert read_refusal(await send_request(ada.url, {"X-API-Key": ada.key}))[:2] == (401, "auth.invalid_api_key")
    await product.engine.accounts.disable(ada.name, False)
    assert (await send_request(ada.url, {"X-API-Key": ada.key})).status_code == 200


@pytest.mark.requirement("001.auth.accounts_only")
async def test_the_keys_of_the_operator_are_rejected(
    local: LocalEngine, product: Product, ada: Person
) -> None:  # fmt: skip
    keys = {"api_key": SecretStr("rest"), "mcp_api_key": SecretStr("mcp")}
    settings = product.settings.model_copy(update=keys)
    async with serve_app(make_http_app(local, settings)) as url:
        bob = await make_person(local, url)
        for path in (ENDPOINT, STREAM):
            for key in ("rest", "mcp"):
                answer = await send_request(url, {"X-API-Key": key}, path)
                assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (401, "auth.invalid_api_key")
            assert (await send_request(url, {"X-API-Key": bob.key}, path)).status_code == 200
        assert (await send_request(url, {"X-API-Key": bob.key}, "/mcp")).status_code == 200
        assert (await send_request(url, {"X-API-Key": "mcp"}, "/mcp")).status_code == 200


@pytest.mark.requirement("001.auth.eras")
@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_a_wrong_key_is_rejected_in_both_protocol_eras(product: Product, ada: Person, mode: str) -> None:
    async def list_with(key: str) -> Body:
        async with open_sdk_transport(f"{product.url}{ENDPOINT}", key, mode) as client:
            return await client.call("list_collections")

    assert (await list_with(ada.key))["count"] == 0
    with pytest.RaisesGroup(pytest.RaisesExc(MCPError, check=is_refused), flatten_subgroups=True):
        await list_with("kn_wrong_key")


def is_refused(error: MCPError) -> bool:
    given = error.error.code, error.error.data["error_type"], error.error.message
    return given == (401, "auth.invalid_api_key", NO_KEY)


@pytest.mark.requirement("001.auth.id")
async def test_an_authentication_error_has_the_id_of_the_request(product: Product) -> None:
    async with httpx.AsyncClient(base_url=product.url) as http:
        named = await http.post(ENDPOINT, json={"jsonrpc": "2.0", "method": "ping", "id": "seven"})
        assert (named.status_code, named.json()["id"]) == (401, "seven")
        unreadable = await http.post(ENDPOINT, content=b"not json")
        assert (unreadable.status_code, unreadable.json()["id"]) == (401, None)
