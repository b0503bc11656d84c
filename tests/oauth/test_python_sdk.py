"""The OAuth client of the MCP Python SDK against a real server."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller
from knowledge.surfaces.http.app import make_http_app
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.app_server import serve_app
from tests.support.accounts import PASSWORD
from tests.support.oauth import LOOPBACK_URI, allow_in_browser, parse_answer
from tests.support.tls import serve_tls_site


def reserve_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass
class SdkStorage:
    tokens: OAuthToken | None = None
    info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


@dataclass
class SdkUser:
    """The person and the browser behind the SDK's client, who allows what is asked for."""

    scopes: list[str]
    """What is allowed each time; the last one again and again."""
    visits: list[str] = field(default_factory=list)
    answer: dict[str, str] = field(default_factory=dict)

    async def visit(self, url: str) -> None:
        self.visits.append(url)
        allowed = self.scopes.pop(0) if len(self.scopes) > 1 else self.scopes[0]
        self.answer = parse_answer(await allow_in_browser(url, allowed))

    async def return_code(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=self.answer["code"], state=self.answer["state"], iss=self.answer["iss"])


@asynccontextmanager
async def connect_sdk(
    url: str, storage: SdkStorage, user: SdkUser, document: str | None = None, mode: str = "auto"
) -> AsyncIterator[tuple[Client, OAuthClientProvider]]:
    metadata = OAuthClientMetadata(client_name="SDK", redirect_uris=[LOOPBACK_URI])
    provider = OAuthClientProvider(url, metadata, storage, user.visit, user.return_code, client_metadata_url=document)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=60) as client,
    ):
        yield client, provider


@asynccontextmanager
async def serve_with_oauth(engine: LocalEngine, guarded: Settings) -> AsyncIterator[str]:
    await engine.accounts.register("ada", PASSWORD)
    port = reserve_port()
    settings = guarded.model_copy(update={"public_url": f"http://127.0.0.1:{port}"})
    async with serve_app(make_http_app(engine, settings), port) as url:
        yield url


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_registers_refreshes_asks_for_more_and_loses_access(
    local: LocalEngine, guarded: Settings, mode: str
) -> None:
    storage, user = SdkStorage(), SdkUser(["read", "read write"])
    async with (
        serve_with_oauth(local, guarded) as url,
        connect_sdk(f"{url}/mcp/kb", storage, user, mode=mode) as opened,
    ):
        client, provider = opened
        assert [tool.name for tool in (await client.list_tools()).tools]
        assert storage.info is not None and storage.info.client_secret is None
        assert storage.tokens is not None and storage.tokens.scope == "read"
        first = storage.tokens
        provider.context.token_expiry_time = 1  # the client believes that its token has expired
        await client.call_tool("kb_status", {})
        assert storage.tokens.refresh_token != first.refresh_token and len(user.visits) == 1
        added = await client.call_tool("kb_addnote", {"text": "The kettle whistles."})
        assert not added.is_error, added
        assert len(user.visits) == 2 and "write" in user.visits[1], "insufficient_scope led to a second consent"
        assert storage.tokens.scope == "read write"
        await local.as_caller(Caller()).oauth.revoke_all_of("ada")
        await client.call_tool("kb_status", {})
        assert len(user.visits) == 3, "revoked tokens are no use, also for a refresh"


async def test_the_sdk_uses_its_metadata_document(
    settings: Settings, guarded: Settings, parsers: SharedParsers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_tls_site(tmp_path) as site:
        monkeypatch.setenv("SSL_CERT_FILE", str(site.certificate))
        document = f"{site.url}/client.json"
        described = {"client_id": document, "client_name": "SDK with a document", "redirect_uris": [LOOPBACK_URI]}
        site.put("/client.json", json.dumps(described).encode())
        engine = make_test_engine(settings.model_copy(update={"crawl_allow": "localhost"}), parsers=parsers)
        engine.start()
        try:
            storage, user = SdkStorage(), SdkUser(["read write"])
            async with (
                serve_with_oauth(engine, guarded) as url,
                connect_sdk(f"{url}/mcp", storage, user, document) as (client, _),
            ):
                assert (await client.list_tools()).tools
                assert storage.info is not None and storage.info.client_id == document
                [grant] = await engine.as_caller(Caller()).oauth.list_of("ada")
                assert (grant.client_id, grant.client_name) == (document, "SDK with a document")
        finally:
            engine.close()
