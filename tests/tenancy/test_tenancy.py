"""Random actions of three users and an admin over REST, MCP and the stream, compared with a model."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.app_server import serve_app
from tests.tenancy.client import TenantClient
from tests.tenancy.model import TenancyModel, make_secrets
from tests.tenancy.steps import Steps

PASSWORD = "a long enough password"
OPERATOR_KEY = "the-operators-key-of-this-test"
NAMES = ["ann", "bob", "cyd"]
ADMIN = "root"
UNREACHABLE_RATE_LIMIT = "1000000/minute"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    kinds = ("query", "upload", "management", "auth", "typing", "session_upload")
    limits = {f"{kind}_rate_limit": UNREACHABLE_RATE_LIMIT for kind in kinds}
    key = SecretStr(OPERATOR_KEY)  # on a server without a key nobody logs in
    return Settings(data=tmp_path / "data", workers=2, admin_users=ADMIN, api_key=key, **limits)  # type: ignore[arg-type]


@pytest.fixture
async def url(settings: Settings, parsers: SharedParsers) -> AsyncIterator[str]:
    engine: LocalEngine = make_test_engine(settings, parsers=parsers)
    engine.start()
    async with serve_app(make_http_app(engine, settings)) as address:
        yield address
    engine.close()


async def create_client(name: str, http: httpx.AsyncClient, model: TenancyModel) -> TenantClient:
    """Create an account, a key and a browser session; the operator creates the admin."""
    account = {"username": name, "password": PASSWORD}
    path = "/api/v1/admin/users" if name == ADMIN else "/api/v1/user/register"
    operator = {"X-API-Key": OPERATOR_KEY}
    assert (await http.post(path, json=account, headers=operator)).status_code == 201
    key = (await http.post("/api/v1/user/login", json=account)).json()["api_key"]
    assert (await http.post("/api/v1/session", json=account)).status_code == 200
    session = http.cookies["knowledge_session"]
    http.cookies.clear()  # all accounts share this client
    return TenantClient(name, http, model, key, session)


async def run_steps(url: str, seed: int, count: int) -> None:
    print(f"seed {seed}")
    model = TenancyModel()
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        people = [await create_client(name, http, model) for name in NAMES]
        admin = await create_client(ADMIN, http, model)
        steps = Steps(model, [*people, admin], admin, random.Random(seed), make_secrets())
        for _ in range(count):
            await steps.take_step()
    assert model.jobs and model.deleted_secrets, "no document was ever added or removed"


async def test_nobody_sees_what_is_not_theirs_and_nobody_is_refused_what_is(url: str) -> None:
    await run_steps(url, seed=1, count=2000)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
async def test_nobody_sees_what_is_not_theirs_in_a_long_run(url: str, seed: int) -> None:
    await run_steps(url, seed, count=5000)
