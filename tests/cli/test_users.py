"""`knowledge user`: accounts and keys from the shell."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.model import ApiKey
from knowledge.surfaces.cli import errors as cli_errors
from tests.engine.test_oauth import get_tokens
from tests.support.accounts import PASSWORD, get_engine_for_key
from tests.support.command_line import Shell, serve_engine
from tests.support.engines import add_note


@pytest.fixture
def shell(local: LocalEngine, settings: Settings) -> Iterator[Shell]:
    with serve_engine(local, settings) as address:
        yield Shell({"KB_ENGINE_URL": address})


async def keys_of(engine: Engine, key: str) -> list[ApiKey]:
    return await (await get_engine_for_key(engine, key)).accounts.list_keys()


async def write_down(engine: Engine, key: str) -> None:
    await add_note(await get_engine_for_key(engine, key), "tea in the kitchen")


def test_a_new_account_gets_a_key_that_works(shell: Shell, local: LocalEngine) -> None:
    key = shell.run_ok("user", "add", "ada").strip()
    caller = asyncio.run(local.accounts.find_by_key(key))
    assert caller is not None and caller.name == "ada"
    assert key not in shell.run_ok("user", "list"), "it was shown once"


def test_the_password_can_be_read_from_stdin(shell: Shell, local: LocalEngine) -> None:
    shell.run_ok("user", "add", "ada", "--password-stdin", input="correct horse\n")
    assert asyncio.run(local.accounts.login("ada", "correct horse")).username == "ada"
    assert shell.run("user", "add", "bob", "--password-stdin", input="short\n").exit_code == cli_errors.USAGE


def test_accounts_are_listed_with_their_flags(shell: Shell) -> None:
    assert shell.run("user", "list").stderr == "There are no accounts.\n"
    for name in ("ada", "root"):
        shell.run_ok("user", "add", name)
    shell.run_ok("user", "disable", "ada")
    listed = shell.run_json("user", "list")["accounts"]
    assert [(one["username"], one["is_admin"], one["is_disabled"]) for one in listed] == [
        ("ada", False, True),
        ("root", True, False),
    ]
    printed = shell.run_ok("user", "list")
    assert "admin" in printed and "disabled" in printed


def test_a_key_has_its_name_and_expiry(shell: Shell, local: LocalEngine) -> None:
    shell.run_ok("user", "add", "ada")
    issued = shell.run_json("user", "key", "ada", "--name", "laptop", "--days", "90")
    assert (issued["name"], issued["username"]) == ("laptop", "ada")
    keys = asyncio.run(keys_of(local, issued["api_key"]))
    assert [key.name for key in keys] == ["first", "laptop"]
    assert keys[1].expires_at is not None


def test_a_disabled_account_can_be_enabled_again(shell: Shell, local: LocalEngine) -> None:
    key = shell.run_ok("user", "add", "ada").strip()
    shell.run_ok("user", "disable", "ada")
    assert asyncio.run(local.accounts.find_by_key(key)) is None
    assert shell.run_ok("user", "disable", "ada", "--undo") == f"ada is enabled.{os.linesep}"
    assert asyncio.run(local.accounts.find_by_key(key)) is not None


def test_an_account_is_removed_with_its_documents(shell: Shell, local: LocalEngine) -> None:
    asyncio.run(write_down(local, shell.run_ok("user", "add", "ada").strip()))
    assert shell.run("user", "remove", "ada").exit_code == cli_errors.USAGE, "nobody was there to be asked"
    assert shell.run_ok("user", "remove", "ada", "--yes").startswith("Deleted the account with 1 document")
    assert shell.run_json("user", "list") == {"accounts": []}
    shell.run_ok("verify")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("add", "a b"), cli_errors.USAGE),
        (("key", "nobody"), cli_errors.NOT_FOUND),
        (("disable", "nobody"), cli_errors.NOT_FOUND),
        (("remove", "nobody", "--yes"), cli_errors.NOT_FOUND),
    ],
)
def test_an_invalid_username_has_its_exit_code(shell: Shell, arguments: tuple[str, ...], code: int) -> None:
    assert shell.run("user", *arguments).exit_code == code


def test_a_taken_username_is_reported(shell: Shell) -> None:
    shell.run_ok("user", "add", "ada")
    taken = shell.run("user", "add", "ADA")
    assert taken.exit_code == cli_errors.FAILED
    assert "is already taken" in taken.stderr


def test_browser_sessions_are_listed_and_ended(shell: Shell, local: LocalEngine) -> None:
    shell.run_ok("user", "add", "ada", "--password-stdin", input="correct horse\n")
    assert shell.run("user", "sessions", "ada").stderr == "There are no browser sessions.\n"
    opened = [
        asyncio.run(local.sessions.open_by_password("ada", "correct horse", False, f"Browser {n}")) for n in range(3)
    ]
    operator = asyncio.run(local.sessions.open_for_operator("operator-key", False, "Own browser"))
    assert "Browser 2" in shell.run_ok("user", "sessions", "ada")
    left = shell.run_json("user", "sessions", "ada", "--revoke", opened[0].session.id)["sessions"]
    assert [one["user_agent"] for one in left] == ["Browser 2", "Browser 1"]
    assert asyncio.run(local.sessions.find(opened[0].token)) is None
    assert shell.run("user", "sessions", "ada", "--revoke", operator.session.id).exit_code == cli_errors.NOT_FOUND
    assert shell.run_json("user", "sessions", "ada", "--revoke-all")["sessions"] == []
    assert [one["user_agent"] for one in shell.run_json("user", "sessions")["sessions"]] == ["Own browser"]
    assert shell.run_json("user", "sessions", "--revoke-all")["sessions"] == []
    assert shell.run("user", "sessions", "nobody").exit_code == cli_errors.NOT_FOUND


def test_tokens_of_oauth_are_listed_and_revoked(shell: Shell, local: LocalEngine) -> None:
    shell.run_ok("user", "add", "ada", "--password-stdin", input=f"{PASSWORD}\n")
    assert shell.run("user", "tokens", "ada").stderr == "No client has tokens.\n"
    asyncio.run(get_tokens(local))
    listed = shell.run_ok("user", "tokens", "ada")
    assert "Agent" in listed and "read write" in listed and "https://kb.example/mcp" in listed
    assert "Agent" in shell.run_ok("user", "tokens", "ada", "--json")
    assert shell.run("user", "tokens", "ada", "--revoke-all").stderr == "No client has tokens.\n"


def test_a_subject_of_another_issuer_is_linked(shell: Shell, local: LocalEngine) -> None:
    shell.run_ok("user", "add", "ada")
    assert shell.run("user", "link", "ada", "u-1").exit_code == cli_errors.USAGE
    told = shell.run("user", "link", "ada", "u-1", "--issuer", "https://id.example")
    assert told.exit_code == 0 and "act for ada" in told.stderr
