"""Permissions of admins and of the operator, one test per statement in docs/explanation/accounts.md."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import AdminRequired, Forbidden
from knowledge.model import Original
from knowledge.surfaces.http.app import make_http_app
from tests.support.accounts import ADMIN, PASSWORD, create_corpus, get_engine_for_key, log_in, register
from tests.support.engines import add_note, search_ids
from tests.support.originals import get_folder

SPELLINGS = (ADMIN, ADMIN.upper(), ADMIN.title())


@pytest.mark.parametrize("name", SPELLINGS)
async def test_registering_with_the_name_of_an_admin_is_refused(engine: Engine, name: str) -> None:
    with pytest.raises(Forbidden, match="reserved for an admin") as refused:
        await engine.accounts.register(name, PASSWORD)
    assert "knowledge user add" in refused.value.hint
    await engine.accounts.add(ADMIN)
    with pytest.raises(Forbidden, match="reserved for an admin"):
        await engine.accounts.register(name, PASSWORD)
    await engine.accounts.remove(ADMIN)
    with pytest.raises(Forbidden, match="reserved for an admin"):
        await engine.accounts.register(name, PASSWORD)
    assert await engine.accounts.list_all() == []


async def test_only_the_operator_creates_the_account_of_an_admin(engine: Engine, local: LocalEngine) -> None:
    root = await register(engine, ADMIN)
    local._parts.accounts._admins |= {"boss"}
    for name in ("boss", "Boss"):
        with pytest.raises(AdminRequired, match="operator"):
            await root.accounts.add(name, PASSWORD)
    assert (await engine.accounts.add("boss")).is_admin


async def test_an_admin_lists_adds_disables_and_removes_accounts(engine: Engine) -> None:
    root, ada = await register(engine, ADMIN), await register(engine, "ada")
    assert [account.username for account in await root.accounts.list_all()] == [ADMIN, "ada"]
    assert not (await root.accounts.add("bob", PASSWORD)).is_admin
    assert await log_in(engine, "bob")
    assert (await root.accounts.disable("ada")).is_disabled
    assert not (await root.accounts.disable("ada", disabled=False)).is_disabled
    await add_note(ada, "tea in the kitchen")
    assert (await root.accounts.remove("ada")).documents == 1


async def test_an_admin_approves_corpora_and_revokes_approval(engine: Engine) -> None:
    root, ada = await register(engine, ADMIN), await register(engine, "ada")
    corpus = await create_corpus(ada, public=True)
    assert [each.id for each in await root.corpora.list_pending()] == [corpus.id]
    for verb, approved in ((root.corpora.approve, True), (root.corpora.revoke_approval, False)):
        curation = (await verb(corpus.id)).curation
        assert curation is not None and curation.is_approved is approved


async def test_an_admin_reads_no_more_than_others(engine: Engine) -> None:
    root, ada = await register(engine, ADMIN), await register(engine, "ada")
    await add_note(ada, "tea in the kitchen")
    await add_note(engine, "tea of the operator")
    assert await search_ids(root, "tea") == []
    assert (await root.status()).documents == 0


async def test_backup_keys_for_others_and_another_model_are_the_operators(engine: Engine) -> None:
    root, ada = await register(engine, ADMIN), await register(engine, "ada")
    for person in (root, ada):
        for verb in (
            person.backup(),
            person.accounts.issue_key("ada", "mine"),
            person.accounts.issue_key(ADMIN, "mine"),
            person.reindex("openai:http://127.0.0.1:9/v1#model"),
        ):
            with pytest.raises(AdminRequired, match="Only the operator of this server"):
                await verb
    assert [key.name for key in await ada.accounts.list_keys()] == ["login"]
    assert await get_engine_for_key(engine, (await engine.accounts.issue_key("ada", "shell")).secret)
    assert await size(await engine.backup()) > 0


async def size(archive: Original) -> int:
    return sum([len(piece) async for piece in archive.pieces])


async def test_an_admin_may_verify_but_sees_no_names(engine: Engine, local: LocalEngine) -> None:
    root, ada = await register(engine, ADMIN), await register(engine, "ada")
    note = await add_note(ada, "the plan", title="A title that is nobody's business")
    assert await root.verify() == []
    await root.reindex()
    get_folder(local).get_path(note.sha256).unlink()
    (finding,) = await root.verify()
    assert finding.part == "files" and "1 finding" in finding.message
    assert note.sha256 not in finding.message and "nobody's business" not in finding.message
    (whole,) = await engine.verify()
    assert note.sha256 in whole.message


@pytest.fixture
async def as_root(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client with the key of an admin."""
    key = (await (await register(local, ADMIN)).accounts.create_key("laptop")).secret
    app = make_http_app(local, Settings(data=local._parts.options.data, admin_users=ADMIN))
    headers = {"X-API-Key": key}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=headers) as http:
        yield http


async def test_the_same_holds_over_http(as_root: httpx.AsyncClient) -> None:
    boss = {"username": "Root", "password": PASSWORD}
    for reply, expected in (
        (await as_root.get("/api/v1/backup"), (403, "admin_required")),
        (await as_root.post("/api/v1/admin/users/root/api-keys", json={}), (403, "admin_required")),
        (await as_root.post("/api/v1/admin/users", json=boss), (403, "admin_required")),
        (await as_root.post("/api/v1/reindex", json={"model": "none"}), (403, "admin_required")),
        (await as_root.post("/api/v1/user/register", json=boss), (403, "forbidden")),
    ):
        assert (reply.status_code, reply.json()["error"]["code"]) == expected
    assert (await as_root.get("/api/v1/admin/users")).status_code == 200


async def test_an_admin_lists_and_ends_sessions(engine: Engine) -> None:
    ada, root = await register(engine, "ada"), await register(engine, ADMIN)
    opened = [await engine.sessions.open_by_password("ada", PASSWORD, False, "") for _ in range(2)]
    for caller in (root, engine):
        assert {one.id for one in await caller.sessions.list_of("ada")} >= {opened[-1].session.id}
        await caller.sessions.revoke_of("ada", opened.pop().session.id)
    assert await engine.sessions.list_of("ada") == []
    with pytest.raises(AdminRequired):
        await ada.sessions.list_of(ADMIN)


async def test_an_admin_sees_numbers_of_all_accounts(engine: Engine) -> None:
    root, ada = await register(engine, ADMIN), await register(engine, "ada")
    await root.insight.count_queries()
    with pytest.raises(AdminRequired):
        await ada.insight.count_queries()


STATEMENTS = {
    "**Admins** are the accounts that `ADMIN_USERS` names.": test_only_the_operator_creates_the_account_of_an_admin,
    "Only the operator creates them, with `knowledge user add NAME`: these names cannot be registered, in any case, "
    "not even after the account was removed.": test_registering_with_the_name_of_an_admin_is_refused,
    "| search, list and read their own, granted, and public approved documents | yes | yes | yes |":
        test_an_admin_reads_no_more_than_others,
    "| read other documents | no | no, except to look into a corpus that its owner has made public | as an admin |":
        test_an_admin_reads_no_more_than_others,
    "| list, add, disable and remove accounts (removing deletes what the account owns) | no | yes | yes |":
        test_an_admin_lists_adds_disables_and_removes_accounts,
    "| list and end the browser sessions of other accounts | no | yes | yes |": test_an_admin_lists_and_ends_sessions,
    "| see the numbers of searches, questions, documents and jobs of all accounts together, without names and texts "
    "| no | yes | yes |": test_an_admin_sees_numbers_of_all_accounts,
    "| list corpora that wait for approval, look into the documents of public ones, approve, decline, revoke an "
    "approval | no | yes | yes |": test_an_admin_approves_corpora_and_revokes_approval,
    "| `verify` and `reindex` | no | yes; sees the number of findings, no document names | yes |":
        test_an_admin_may_verify_but_sees_no_names,
    "| backup, keys for other accounts, change of the embedding model | no | no | yes |":
        test_backup_keys_for_others_and_another_model_are_the_operators,
}  # fmt: skip


def test_every_statement_of_the_page_about_admins_has_its_test() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "accounts.md").read_text("utf-8")
    section = page[page.index("**Admins**") : page.index("## Permissions")]
    head = "| may | account | admin | operator | |---|---|---|---| "
    assert " ".join(section.split()).replace(head, "") == " ".join(STATEMENTS)
