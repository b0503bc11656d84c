"""A server with OAuth, and a client that its user can allow to use it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from tests.support.accounts import PASSWORD
from tests.support.oauth import OAuthTestClient

ORIGIN = "http://127.0.0.1:8000"
OPERATOR_KEY = "operator-key-0123456789"


@pytest.fixture
def guarded(settings: Settings) -> Settings:
    """Settings of a server with OAuth."""
    keys = {"api_key": SecretStr(OPERATOR_KEY), "mcp_api_key": SecretStr(OPERATOR_KEY)}
    oauth = {"oauth": True, "public_url": ORIGIN, "auth_rate_limit": "off"}
    return settings.model_copy(update={**keys, **oauth})


@pytest.fixture
async def http(local: LocalEngine, guarded: Settings) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_http_app(local, guarded), client=("127.0.0.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        yield client


@pytest.fixture
async def client(local: LocalEngine, http: httpx.AsyncClient) -> OAuthTestClient:
    """A client whose user has the account `ada`."""
    await local.accounts.register("ada", PASSWORD)
    return OAuthTestClient(http, ORIGIN)
