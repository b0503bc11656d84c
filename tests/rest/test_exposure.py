"""`serve` and `doctor` warn about short keys, and about a surface without a key beside one with a key."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.cli.commands.serve import warn_of_exposures
from knowledge.surfaces.http.exposure import find_open_surfaces, find_short_keys
from tests.support.accounts import PASSWORD
from tests.support.command_line import Shell

LIMIT = 60.0
LONG, SHORT = SecretStr("sixteen letters!"), SecretStr("fifteen letters")


def settings(**given: object) -> Settings:
    return Settings.model_validate(given)


def test_a_key_of_fewer_than_16_characters_can_be_guessed() -> None:
    assert [*find_short_keys(settings(api_key=LONG, mcp_api_key=LONG))] == []
    assert [*find_short_keys(settings())] == []
    (rest, mcp) = find_short_keys(settings(api_key=SHORT, mcp_api_key=SecretStr("x")))
    assert rest.message.startswith("KB_API_KEY has only 15 characters") and "16 random characters" in rest.fix
    assert mcp.message.startswith("KB_MCP_API_KEY has only 1 characters")


@pytest.mark.parametrize(
    ("given", "accounts", "expected"),
    [
        ({}, False, None),
        ({"api_key": LONG, "mcp_api_key": LONG}, True, None),
        ({"trusted_proxies": "127.0.0.1"}, True, None),
        ({"api_key": LONG, "host": "0.0.0.0"}, True, None),
        ({"api_key": LONG}, False, "KB_API_KEY is set, but MCP needs no key: every user of this machine"),
        ({"mcp_api_key": LONG}, False, "KB_MCP_API_KEY is set, but REST needs no key"),
        ({}, True, "There are accounts, but REST and MCP need no key"),
        ({"api_key": LONG}, True, "KB_API_KEY is set and there are accounts, but MCP needs"),
        ({"allow_open": True}, False, "KNOWLEDGE_ALLOW_OPEN is set, but REST and MCP need no key: anyone who"),
    ],
)
def test_a_surface_without_a_key_beside_one_with_a_key_is_reported(
    given: dict[str, object], accounts: bool, expected: str | None
) -> None:
    messages = [exposure.message for exposure in find_open_surfaces(settings(**given), accounts=accounts)]
    assert [message[: len(expected or "")] for message in messages] == ([] if expected is None else [expected])


async def test_accounts_on_an_open_server_are_warned_of_at_start(
    local: LocalEngine, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    opened: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(0))
    await warn_of_exposures(settings, local, opened)
    assert caplog.text == ""
    await local.accounts.register("ada", PASSWORD)
    await warn_of_exposures(settings, local, opened)
    assert "There are accounts, but REST and MCP" in caplog.text and "Set KB_API_KEY and KB_MCP_API_KEY" in caplog.text


def test_the_doctor_has_the_same_warnings_and_no_problem(tmp_path: Path) -> None:
    place = {"KNOWLEDGE_EMBEDDING": "none", "KNOWLEDGE_PORT": "0", "KNOWLEDGE_DATA": str(tmp_path / "data")}
    shell = Shell({**place, "KB_MCP_API_KEY": "short"})
    shell.run_ok("user", "add", "ada")
    printed = shell.run_ok("doctor")
    assert "warning keys: KB_MCP_API_KEY has only 5 characters" in printed and "openssl rand" in printed
    assert "warning access: KB_MCP_API_KEY is set and there are accounts, but REST needs no key" in printed
    assert "→ Set KB_API_KEY." in printed


def test_a_key_for_a_remote_engine_is_not_warned_about(tmp_path: Path) -> None:
    sent = Shell({"KB_ENGINE_URL": "http://127.0.0.1:9", "KB_API_KEY": "short", "KB_MCP_API_KEY": "brief"})
    printed = sent.run("doctor", "--data", tmp_path / "data").stdout
    assert "KB_MCP_API_KEY has only" in printed and "KB_API_KEY has only" not in printed


def test_a_server_logs_the_warnings_when_it_starts(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    given = {"KNOWLEDGE_EMBEDDING": "none", "KNOWLEDGE_PORT": "0", "KB_API_KEY": "change-me"}
    command = [sys.executable, "-m", "knowledge", "serve", "--data", str(tmp_path / "data")]
    server = subprocess.Popen(command, env={**kept, **given}, stderr=subprocess.PIPE, text=True)
    limit = threading.Timer(LIMIT, server.kill)
    limit.start()
    try:
        assert server.stderr is not None
        printed = ""
        while "KB_API_KEY has only 9 characters" not in printed or "MCP needs no key" not in printed:
            line = server.stderr.readline()
            assert line, printed
            printed += line
    finally:
        limit.cancel()
        server.terminate()
        server.communicate(timeout=LIMIT)
