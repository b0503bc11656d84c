"""Runs the scenarios of the official suite for authorization servers."""

from __future__ import annotations

import asyncio
import os
import re
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from tests.conformance.node import install_tools
from tests.oauth.test_python_sdk import reserve_port, serve_with_oauth
from tests.support.oauth import OAuthTestClient, allow_in_browser

AUTHORIZE_URL = re.compile(r"http://127\.0\.0\.1:\d+/authorize\?[^\s\"']+")
LIMIT_SECONDS = 120


@pytest.mark.long
async def test_the_authorization_server_passes_the_official_suite(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    official, port = install_tools(), reserve_port()
    keys = {"api_key": SecretStr("operator-key-0123456789"), "mcp_api_key": SecretStr("operator-key-0123456789")}
    guarded = settings.model_copy(update={**keys, "oauth": True, "auth_rate_limit": "off"})
    printed, visited = "", False
    async with serve_with_oauth(local, guarded) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            client = OAuthTestClient(http, url, f"http://127.0.0.1:{port}/callback")
            await client.register()
        process = await asyncio.create_subprocess_exec(
            official.node, official.conformance, "authorization", "--url", url, "--client-id", client.client_id,
            "--resource", f"{url}/mcp", "--port", str(port), "-o", str(tmp_path / "out"),
            stdin=PIPE, stdout=PIPE, stderr=STDOUT, env={**os.environ, "HOME": str(tmp_path), "NO_COLOR": "1"},
        )  # fmt: skip
        assert process.stdout is not None
        try:
            while line := (await asyncio.wait_for(process.stdout.readline(), LIMIT_SECONDS)).decode():
                printed += line
                found = AUTHORIZE_URL.search(line)
                if found and not visited:
                    visited = True
                    async with httpx.AsyncClient(timeout=LIMIT_SECONDS) as browser:
                        await browser.get(await allow_in_browser(found[0], "read write"))
            code = await asyncio.wait_for(process.wait(), LIMIT_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert visited and code == 0, printed[-4000:]
    assert not re.search(r"\b[1-9]\d* failed", printed), printed[-4000:]
