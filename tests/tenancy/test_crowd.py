"""Somebody who registers without end: told to slow down each time, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from tests.contracts.app_server import serve_app

AT_ONCE, ALLOWED = 32, 10


@pytest.mark.parametrize("calls", [500, pytest.param(10_000, marks=pytest.mark.long)])
async def test_a_crowd_of_registrations_is_refused_and_the_server_lives(
    local: LocalEngine, settings: Settings, calls: int
) -> None:
    turns, seen = iter(range(calls)), Counter[int]()

    async def register_again_and_again(http: httpx.AsyncClient) -> None:
        for number in turns:
            account = {"username": f"robot-{number}", "password": "a long enough password"}
            answer = await http.post("/api/v1/user/register", json=account)
            seen[answer.status_code] += 1
            if answer.status_code == 429:
                assert answer.headers["x-mcp-error-code"] == "rate_limit.exceeded"
                assert int(answer.headers["retry-after"]) > 0

    patient = settings.model_copy(update={"auth_rate_limit": f"{ALLOWED}/day"})
    async with serve_app(make_http_app(local, patient)) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        await asyncio.gather(*(register_again_and_again(http) for _ in range(AT_ONCE)))
        assert seen == {201: ALLOWED, 429: calls - ALLOWED}
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/api/v1/status")).status_code == 200
    assert len(await local.accounts.list_all()) == ALLOWED
