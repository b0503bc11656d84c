"""What an admin can do and what only the operator can: every sentence of docs/explanation/accounts.md about them."""

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
from knowledge.surfaces.http.app import http_app
from tests.support.accounts import ADMIN, PASSWORD, a_corpus, bearing, entered, joined
from tests.support.engines import add_note, found

SPELLINGS = (ADMIN, ADMIN.upper(), ADMIN.title())


@pytest.mark.parametrize("name", SPELLINGS)
async def test_nobody_registers_with_the_name_of_an_admin(engine: Engine, name: str) -> None:
    with pytest.raises(Forbidden, match="kept for an admin") as refused:
        await engine.register(name, PASSWORD)
    assert "knowledge user add" in refused.value.hint
    await engine.add_account(ADMIN)
    with pytest.raises(Forbidden, match="kept for an admin"):
        await engine.register(name, PASSWORD)
    await engine.remove_account(ADMIN)
    with pytest.raises(Forbidden, match="kept for an admin"):
        await engine.register(name, PASSWORD)
    assert await engine.accounts() == []


async def test_only_the_operator_makes_the_account_of_an_admin(engine: Engine, local: LocalEngine) -> None:
    root = await joined(engine, ADMIN)
    local._parts.accounts._admins |= {"boss"}
    for name in ("boss", "Boss"):
        with pytest.raises(AdminRequired, match="operator"):
            await root.add_account(name, PASSWORD)
    assert (await engine.add_account("boss")).is_admin


async def test_an_admin_lists_adds_disables_and_removes_accounts(engine: Engine) -> None:
    root, ada = await joined(engine, ADMIN), await joined(engine, "ada")
    assert [account.username for account in await root.accounts()] == [ADMIN, "ada"]
    assert not (await root.add_account("bob", PASSWORD)).is_admin
    assert await entered(engine, "bob")
    assert (await root.disable_account("ada")).is_disabled
    assert not (await root.disable_account("ada", disabled=False)).is_disabled
    await add_note(ada, "tea in the kitchen")
    assert (await root.remove_account("ada")).documents == 1


async def test_an_admin_approves_corpora_and_takes_approval_back(engine: Engine) -> None:
    root, ada = await joined(engine, ADMIN), await joined(engine, "ada")
    corpus = await a_corpus(ada, public=True)
    assert [each.id for each in await root.pending_corpora()] == [corpus.id]
    for verb, approved in ((root.approve_corpus, True), (root.revoke_approval, False)):
        curation = (await verb(corpus.id)).curation
        assert curation is not None and curation.is_approved is approved


async def test_an_admin_reads_no_more_than_others(engine: Engine) -> None:
    root, ada = await joined(engine, ADMIN), await joined(engine, "ada")
    await add_note(ada, "tea in the kitchen")
    await add_note(engine, "tea of the operator")
    assert await found(root, "tea") == []
    assert (await root.status()).documents == 0


async def test_backup_keys_for_others_and_another_model_are_the_operators(engine: Engine) -> None:
    root, ada = await joined(engine, ADMIN), await joined(engine, "ada")
    for person in (root, ada):
        for verb in (
            person.backup(),
            person.issue_key("ada", "mine"),
            person.issue_key(ADMIN, "mine"),
            person.reindex("openai:http://127.0.0.1:9/v1#model"),
        ):
            with pytest.raises(AdminRequired, match="for the operator of this server alone"):
                await verb
    assert [key.name for key in await ada.api_keys()] == ["login"]
    assert await bearing(engine, (await engine.issue_key("ada", "shell")).secret)
    assert await size(await engine.backup()) > 0


async def size(archive: Original) -> int:
    return sum([len(piece) async for piece in archive.pieces])


async def test_an_admin_may_verify_but_learns_no_names(engine: Engine, local: LocalEngine) -> None:
    root, ada = await joined(engine, ADMIN), await joined(engine, "ada")
    note = await add_note(ada, "the plan", title="A title that is nobody's business")
    assert await root.verify() == []
    await root.reindex()
    local._parts.files.path(note.sha256).unlink()
    (finding,) = await root.verify()
    assert finding.part == "files" and "1 finding" in finding.message
    assert note.sha256 not in finding.message and "nobody's business" not in finding.message
    (whole,) = await engine.verify()
    assert note.sha256 in whole.message


@pytest.fixture
async def as_root(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    """The server over HTTP, for an admin with a key of their own."""
    key = (await (await joined(local, ADMIN)).create_api_key("laptop")).secret
    app = http_app(local, Settings(data=local._parts.options.data, admin_users=ADMIN))
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


SENTENCES = {
    "Admins are the accounts that `ADMIN_USERS` names.": test_only_the_operator_makes_the_account_of_an_admin,
    "Only the operator makes such an account, with `knowledge user add NAME`: nobody can register with one of these "
    "names, in whatever case, and not after the account was removed.": test_nobody_registers_with_the_name_of_an_admin,
    "An admin lists the accounts, adds, disables and removes them; to remove one removes all that it owns.":
        test_an_admin_lists_adds_disables_and_removes_accounts,
    "An admin sees which corpora wait for approval, approves them and takes approval back.":
        test_an_admin_approves_corpora_and_takes_approval_back,
    "An admin may verify and reindex, and learns how many findings there are, but no names of documents.":
        test_an_admin_may_verify_but_learns_no_names,
    "An admin searches, lists and reads no more than any other account.": test_an_admin_reads_no_more_than_others,
    "Backup, keys for other accounts and a change of the embedding model are the operator's alone.":
        test_backup_keys_for_others_and_another_model_are_the_operators,
}  # fmt: skip


def test_every_sentence_of_the_page_about_admins_has_its_test() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "accounts.md").read_text("utf-8")
    told = page.partition("**Admins.**")[2].partition("\n\n**")[0]
    assert " ".join(told.split()) == " ".join(SENTENCES)
