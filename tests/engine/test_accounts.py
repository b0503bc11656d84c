"""Accounts, passwords and API keys, on local and remote engines."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Literal

import pytest
from argon2 import PasswordHasher
from sqlalchemy import text

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import (
    AccountNotFound,
    AccountTaken,
    AdminRequired,
    ExpiredKey,
    Forbidden,
    InvalidKey,
    InvalidParameter,
    KeyNotFound,
    Unauthenticated,
    WrongPassword,
)
from knowledge.model import Caller, CallerKind, NewNote, now
from tests.support.accounts import PASSWORD, get_engine_for_key, log_in, register
from tests.support.engines import add_note, search_ids
from tests.support.postgres import read_all_rows


async def test_a_registered_account_logs_in_and_is_found_by_its_key(engine: Engine) -> None:
    account = await engine.accounts.register("Ada", PASSWORD)
    assert account.id > 0
    issued = await engine.accounts.login("ada", PASSWORD)
    assert issued.secret.startswith(issued.key.prefix + "_")
    caller = await engine.accounts.find_by_key(issued.secret)
    assert caller == Caller(CallerKind.ACCOUNT, account.id, "Ada", issued.secret)
    assert (await engine.as_caller(caller).accounts.me()) == account


async def test_a_username_is_taken_whatever_its_case(engine: Engine) -> None:
    await engine.accounts.register("Ada", PASSWORD)
    for name in ("Ada", "ada", "ADA"):
        with pytest.raises(AccountTaken):
            await engine.accounts.register(name, PASSWORD)


@pytest.mark.parametrize(
    "username",
    [
        "",
        "ab",
        "a" * 65,
        "a" * 1_000_000,
        "ada lovelace",
        ".ada",
        "ada'; DROP TABLE accounts; --",
        "a\nb",
        "ädä",
        "../x",
    ],
)
async def test_an_invalid_username_is_refused(engine: Engine, username: str) -> None:
    with pytest.raises(InvalidParameter):
        await engine.accounts.register(username, PASSWORD)
    with pytest.raises(WrongPassword):
        await engine.accounts.login(username, PASSWORD)
    assert await engine.accounts.list_all() == []


@pytest.mark.parametrize("password", ["", "short", "x" * 1025, "x" * 1_000_000])
async def test_a_password_that_is_too_short_or_too_long_is_refused(engine: Engine, password: str) -> None:
    with pytest.raises(InvalidParameter):
        await engine.accounts.register("ada", password)


@pytest.mark.parametrize(
    "password", ["password", "PassWord123!", "12345678", "aaaaaaaa", "ada-lovelace", "Lovelace.Ada1"]
)
async def test_a_common_password_is_refused_everywhere(engine: Engine, password: str) -> None:
    name = "ada-lovelace" if "-" in password else "lovelace.ada"
    for verb in (engine.accounts.register(name, password), engine.accounts.add(name, password)):
        with pytest.raises(InvalidParameter, match="too easy to guess") as refused:
            await verb
        assert "several unrelated words" in refused.value.hint
    person = await register(engine, name)
    with pytest.raises(InvalidParameter, match="too easy to guess"):
        await person.accounts.change_password(PASSWORD, password)
    assert await log_in(engine, name), "the old password stays"


async def test_a_wrong_password_and_an_unknown_name_give_the_same_error(engine: Engine) -> None:
    await engine.accounts.register("ada", PASSWORD)
    errors = []
    for name, password in (("ada", "wrong horse"), ("nobody", PASSWORD), ("ada", PASSWORD + "x" * 2000)):
        with pytest.raises(WrongPassword) as raised:
            await engine.accounts.login(name, password)
        errors.append((str(raised.value), raised.value.hint, raised.value.details))
    assert errors[0] == errors[1] == errors[2]


class CountingHasher(PasswordHasher):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        self.seen.append(str(hash))
        return super().verify(hash, password)


async def test_an_unknown_name_costs_as_much_as_a_wrong_password(
    local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await local.accounts.register("ada", PASSWORD)
    await local.accounts.add("keyholder")
    hasher = CountingHasher()
    monkeypatch.setattr(local._parts.passwords, "hasher", hasher)
    for number, name in enumerate(("ada", "nobody", "keyholder"), 1):
        with pytest.raises(WrongPassword):
            await local.accounts.login(name, "wrong horse")
        assert len(hasher.seen) == number
    assert len({kept.rsplit("$", 2)[0] for kept in hasher.seen}) == 1, "all hashes have the same cost"


async def test_every_login_issues_a_new_key(engine: Engine) -> None:
    ada = await register(engine, "ada")
    again = await engine.accounts.login("ada", PASSWORD)
    keys = await ada.accounts.list_keys()
    assert [key.name for key in keys] == ["login", "login"]
    assert again.key.id == keys[1].id
    assert len({key.prefix for key in keys}) == 2


async def test_the_secret_of_a_key_is_not_stored(engine: Engine, local: LocalEngine) -> None:
    issued = await engine.accounts.login((await engine.accounts.register("ada", PASSWORD)).username, PASSWORD)
    kept = read_all_rows(local._parts.options.database_url)
    kept += b"".join(path.read_bytes() for path in local._parts.options.data.glob("knowledge.db*"))
    assert issued.key.prefix.encode() in kept
    assert issued.secret.encode() not in kept
    assert issued.secret.removeprefix(issued.key.prefix).encode() not in kept
    assert PASSWORD.encode() not in kept
    assert issued.secret not in repr(issued)


async def test_a_revoked_key_is_refused_at_once(engine: Engine) -> None:
    ada = await register(engine, "ada")
    issued = await ada.accounts.create_key("laptop")
    laptop = await get_engine_for_key(engine, issued.secret)
    await add_note(laptop, "tea in the kitchen")
    await ada.accounts.revoke_key(issued.key.id)
    assert await engine.accounts.find_by_key(issued.secret) is None
    with pytest.raises(InvalidKey):
        await search_ids(laptop, "tea")
    assert await search_ids(ada, "tea"), "other keys of the account stay valid"


async def test_an_expired_key_raises_expired_key(engine: Engine, local: LocalEngine) -> None:
    ada = await register(engine, "ada")
    issued = await ada.accounts.create_key("short", now() + timedelta(hours=1))
    short = await get_engine_for_key(engine, issued.secret)
    expire(local, issued.key.id)
    with pytest.raises(ExpiredKey):
        await engine.accounts.find_by_key(issued.secret)
    with pytest.raises(ExpiredKey):
        await short.status()
    with pytest.raises(InvalidParameter):
        await ada.accounts.create_key("late", now() - timedelta(seconds=1))


def expire(local: LocalEngine, key_id: int) -> None:
    """Set the expiry of a key to the past."""
    statement = text("UPDATE api_keys SET expires_at = 1 WHERE id = :key_id")
    local._parts.database.write(lambda connection: connection.execute(statement, {"key_id": key_id}))


@pytest.mark.parametrize("change", ["", "x", "swap", "cut"])
async def test_an_altered_key_is_unknown(engine: Engine, change: str) -> None:
    await engine.accounts.register("ada", PASSWORD)
    secret = (await engine.accounts.login("ada", PASSWORD)).secret
    altered = {"": "kn_", "x": secret + "x", "swap": secret.swapcase(), "cut": secret[:-1]}[change]
    assert await engine.accounts.find_by_key(altered) is None


@pytest.mark.parametrize(
    "key", ["kn_a_b", "kn_'; DROP TABLE api_keys; --_x", "kn_" + "a" * 100_000, "nothing", "kn_é_ü"]
)
async def test_a_malformed_key_belongs_to_no_account(local: LocalEngine, key: str) -> None:
    assert await local.accounts.find_by_key(key) is None


async def test_keys_of_another_account_are_not_found(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    hers = (await ada.accounts.list_keys())[0]
    with pytest.raises(KeyNotFound) as theirs:
        await bob.accounts.revoke_key(hers.id)
    with pytest.raises(KeyNotFound) as nobodys:
        await bob.accounts.revoke_key(999)
    assert str(theirs.value).replace(str(hers.id), "#") == str(nobodys.value).replace("999", "#")
    assert [key.id for key in await ada.accounts.list_keys()] == [hers.id]


async def test_the_last_use_of_a_key_is_stored_at_most_once_a_minute(local: LocalEngine) -> None:
    ada = await register(local, "ada")
    first = (await ada.accounts.list_keys())[0].last_used_at
    assert first is not None
    await ada.status()
    assert (await ada.accounts.list_keys())[0].last_used_at == first


async def test_after_a_password_change_only_the_new_password_works(engine: Engine) -> None:
    ada = await register(engine, "ada")
    with pytest.raises(WrongPassword):
        await ada.accounts.change_password("wrong horse", "another staple")
    await ada.accounts.change_password(PASSWORD, "another staple")
    with pytest.raises(WrongPassword):
        await engine.accounts.login("ada", PASSWORD)
    assert (await engine.accounts.login("ada", "another staple")).username == "ada"


async def test_a_password_change_revokes_only_login_keys(engine: Engine) -> None:
    await engine.accounts.register("ada", PASSWORD)
    await engine.accounts.register("bob", PASSWORD)
    logins = [(await engine.accounts.login("ada", PASSWORD)).secret for _ in range(2)]
    ada = await get_engine_for_key(engine, logins[0])
    by_hand = [
        (await ada.accounts.create_key("login")).secret,
        (await engine.accounts.issue_key("ada", "shell")).secret,
    ]
    bobs = (await engine.accounts.login("bob", PASSWORD)).secret
    await ada.accounts.change_password(PASSWORD, "another staple")
    assert [await engine.accounts.find_by_key(key) for key in logins] == [None, None]
    for key in (*by_hand, bobs):
        assert await engine.accounts.find_by_key(key) is not None
    with pytest.raises(Unauthenticated):
        await ada.status()


async def test_a_login_key_expires_after_the_configured_days(local: LocalEngine) -> None:
    await local.accounts.register("ada", PASSWORD)
    for days in (90, 7):
        local._parts.options = replace(local._parts.options, login_key_days=days)
        expires = (await local.accounts.login("ada", PASSWORD)).key.expires_at
        assert expires is not None
        assert timedelta(days=days) - timedelta(minutes=5) < expires - now() <= timedelta(days=days)
    issued = await local.accounts.login("ada", PASSWORD)
    expire(local, issued.key.id)
    with pytest.raises(ExpiredKey) as refused:
        await local.accounts.find_by_key(issued.secret)
    assert refused.value.hint == "Log in again to get a new key."


async def test_an_account_keeps_the_newest_twenty_login_keys(engine: Engine) -> None:
    await engine.accounts.register("ada", PASSWORD)
    first = await engine.accounts.login("ada", PASSWORD)
    ada = await get_engine_for_key(engine, first.secret)
    laptop = await ada.accounts.create_key("laptop")
    await engine.accounts.register("bob", PASSWORD)
    bobs = (await engine.accounts.login("bob", PASSWORD)).secret
    later = [(await engine.accounts.login("ada", PASSWORD)).secret for _ in range(19)]
    assert await engine.accounts.find_by_key(first.secret) is not None, "twenty login keys are kept"
    later.append((await engine.accounts.login("ada", PASSWORD)).secret)
    assert await engine.accounts.find_by_key(first.secret) is None, "the oldest is revoked"
    for key in (laptop.secret, bobs, *later):
        assert await engine.accounts.find_by_key(key) is not None
    assert len(await (await get_engine_for_key(engine, later[-1])).accounts.list_keys()) == 21


async def test_a_login_during_a_password_change_gets_no_key(local: LocalEngine) -> None:
    ada = await register(local, "ada")
    people = local._parts.accounts
    verified = people.store.require("ada")
    await ada.accounts.change_password(PASSWORD, "another staple")
    with pytest.raises(WrongPassword):
        people.issue_login_key(verified, 90)
    assert people.keys.list_of_account(verified.id) == []


async def test_a_disabled_account_is_refused(engine: Engine) -> None:
    ada = await register(engine, "ada")
    note = await add_note(ada, "tea in the kitchen")
    assert (await engine.accounts.disable("ADA")).is_disabled
    with pytest.raises(InvalidKey):
        await ada.status()
    with pytest.raises(WrongPassword):
        await engine.accounts.login("ada", PASSWORD)
    await engine.accounts.disable("ada", disabled=False)
    assert await search_ids(ada, "tea") == [note.id]


async def test_the_local_owner_has_no_account(engine: Engine) -> None:
    for verb in (
        engine.accounts.me(),
        engine.accounts.list_keys(),
        engine.accounts.create_key("x"),
        engine.accounts.delete_me("x" * 8),
    ):
        with pytest.raises(AccountNotFound):
            await verb


async def test_an_account_without_a_password_works_with_its_keys_only(engine: Engine) -> None:
    await engine.accounts.add("robot")
    for password in ("", "None", PASSWORD):
        with pytest.raises(WrongPassword):
            await engine.accounts.login("robot", password)
    robot = await get_engine_for_key(engine, (await engine.accounts.issue_key("robot", "nightly")).secret)
    assert (await robot.accounts.me()).username == "robot"


async def test_administration_is_for_admins(engine: Engine) -> None:
    ada, root = await register(engine, "ada"), await register(engine, "root")
    for verb in (
        ada.verify(), ada.reindex(), ada.backup(), ada.accounts.list_all(), ada.accounts.add("eve"),
        ada.accounts.remove("root"), ada.accounts.disable("root"), ada.accounts.issue_key("root", "mine"),
        ada.corpora.list_pending(), ada.corpora.approve(1), ada.corpora.revoke_approval(1),
    ):  # fmt: skip
        with pytest.raises(AdminRequired):
            await verb
    assert await root.verify() == []
    assert [account.username for account in await root.accounts.list_all()] == ["ada", "root"]
    assert [account.is_admin for account in await root.accounts.list_all()] == [False, True]


async def test_an_admin_does_not_read_documents_of_others(engine: Engine) -> None:
    ada, root = await register(engine, "ada"), await register(engine, "root")
    await add_note(ada, "tea in the kitchen")
    assert await search_ids(root, "tea") == []
    assert (await root.status()).documents == 0


async def test_a_deleted_account_leaves_nothing(engine: Engine, local: LocalEngine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    await add_note(ada, "tea in the kitchen")
    kept = await add_note(bob, "tea at noon")
    with pytest.raises(WrongPassword):
        await ada.accounts.delete_me("wrong horse")
    removed = await ada.accounts.delete_me(PASSWORD)
    assert removed.documents == 1
    with pytest.raises(Unauthenticated):
        await ada.status()
    assert [account.username for account in await engine.accounts.list_all()] == ["bob"]
    assert await search_ids(bob, "tea") == [kept.id]
    assert await local.verify() == []
    assert is_erased(local, 1)
    again = await register(engine, "ada")
    assert (await again.status()).documents == 0
    assert (await again.accounts.me()).id > 2, "ids are not reused"


def is_erased(local: LocalEngine, account_id: int) -> bool:
    tables = {
        "collections": "owner_id", "documents": "owner_id", "jobs": "owner_id", "grants": "account_id",
        "api_keys": "account_id", "accounts": "id",
    }  # fmt: skip
    with local._parts.database.read() as connection:
        counts = [
            connection.execute(text(f"SELECT count(*) FROM {table} WHERE {column} = :id"), {"id": account_id}).scalar()
            for table, column in tables.items()
        ]
    return sum(count or 0 for count in counts) == 0


async def test_removing_an_account_cancels_its_jobs(local: LocalEngine) -> None:
    ada = await register(local, "ada")
    for number in range(20):
        await ada.add(NewNote(text=f"note {number} about tea"))
    await local.accounts.remove("ada")
    assert is_erased(local, 1)
    assert await local.verify() == []
    assert list((local._parts.options.data / "files").rglob("??/*")) == []


async def test_an_unknown_account_is_not_found(engine: Engine) -> None:
    for verb in (
        engine.accounts.remove("nobody"),
        engine.accounts.disable("nobody"),
        engine.accounts.issue_key("nobody", "x"),
    ):
        with pytest.raises(AccountNotFound):
            await verb


async def test_the_operator_adds_accounts_while_registration_is_closed(local: LocalEngine) -> None:
    local._parts.options = replace(local._parts.options, registration=False)
    with pytest.raises(Forbidden):
        await local.accounts.register("ada", PASSWORD)
    await local.accounts.add("ada", PASSWORD)
    assert await log_in(local, "ada")


async def test_a_rotated_key_keeps_its_name_and_the_old_secret_is_refused(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    made = await ada.accounts.create_key("laptop")
    rotated = await ada.accounts.rotate_key(made.key.id)
    assert (rotated.key.id, rotated.key.name, rotated.username) == (made.key.id, "laptop", "ada")
    assert rotated.key.prefix != made.key.prefix and rotated.secret.startswith(rotated.key.prefix)
    assert await engine.accounts.find_by_key(made.secret) is None
    assert await engine.accounts.find_by_key(rotated.secret) is not None
    with pytest.raises(KeyNotFound):
        await bob.accounts.rotate_key(made.key.id)


async def test_an_account_sees_what_it_stores(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    await add_note(ada, "tea")
    usage = await ada.accounts.usage()
    assert (usage.documents, usage.bytes, usage.max_documents, usage.max_bytes) == (1, 3, None, None)
    assert (await bob.accounts.usage()).documents == 0
    with pytest.raises(AccountNotFound):
        await engine.accounts.usage()
