"""A flood of registrations is rate limited, and the server keeps answering."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from tests.contracts.app_server import serve_app

CONCURRENT_CLIENTS, ALLOWED_REGISTRATIONS = 32, 10


@pytest.mark.parametrize("calls", [500, pytest.param(10_000, marks=pytest.mark.long)])
async def test_a_flood_of_registrations_is_refused_and_the_server_keeps_answering(
    local: LocalEngine, settings: Settings, calls: int
) -> None:
    numbers, statuses = iter(range(calls)), Counter[int]()

    async def register_repeatedly(http: httpx.AsyncClient) -> None:
        for number in numbers:
            account = {"username": f"robot-{number}", "password": "a long enough password"}
            answer = await http.post("/api/v1/user/register", json=account)
            statuses[answer.status_code] += 1
            if answer.status_code == 429:
                assert answer.headers["x-mcp-error-code"] == "rate_limit.exceeded"
                assert int(answer.headers["retry-after"]) > 0

    limited = settings.model_copy(update={"auth_rate_limit": f"{ALLOWED_REGISTRATIONS}/day"})
    async with serve_app(make_http_app(local, limited)) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        await asyncio.gather(*(register_repeatedly(http) for _ in range(CONCURRENT_CLIENTS)))
        assert statuses == {201: ALLOWED_REGISTRATIONS, 429: calls - ALLOWED_REGISTRATIONS}
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/api/v1/status")).status_code == 200
    assert len(await local.accounts.list_all()) == ALLOWED_REGISTRATIONS
