"""Corpora, grants, approval and the isolation of accounts, on local and remote engines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import (
    AccountNotFound,
    AdminRequired,
    CollectionNotFound,
    CorpusNotApproved,
    CorpusNotFound,
    DocumentNotFound,
    Duplicate,
    InsufficientPermissions,
    InvalidParameter,
    JobNotFound,
    KnowledgeError,
    NameTaken,
)
from knowledge.model import (
    Caller,
    CollectionEdit,
    CorpusEdit,
    DocumentEdit,
    DocumentFilter,
    JobFilter,
    JobStatus,
    NewCollection,
    NewCorpus,
    NewNote,
    Permission,
    ProcessStatus,
    Query,
    SearchFilter,
)
from knowledge.model.events import ApprovalChange, EventKind
from tests.support.accounts import ADMIN, PASSWORD, create_corpus, grant_access, register
from tests.support.engines import add_file, add_note, search_ids, wait_until_done
from tests.support.watching import watching

NEVER = 4_000_000


async def refused(verb: Awaitable[object], named: object) -> tuple[type[KnowledgeError], str, str]:
    """Return class, message without the id, and hint of the raised error."""
    with pytest.raises(KnowledgeError) as raised:
        await verb
    return type(raised.value), str(raised.value).replace(str(named), "#"), raised.value.hint


# -- isolation ----------------------------------------------------------------------------------


async def test_data_of_another_account_looks_as_if_it_did_not_exist(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    hers = await add_file(ada, "secret.md", "# Secret\n\nthe garden gate", collection="garden")
    job = (await ada.jobs(JobFilter())).items[0]
    for other in (bob, engine):
        verbs: list[tuple[Callable[[int], Awaitable[object]], int]] = [
            (other.document, hers.id),
            (other.chunks, hers.id),
            (other.original, hers.id),
            (other.remove, hers.id),
            (lambda ref, other=other: other.edit(ref, DocumentEdit(title="mine")), hers.id),  # type: ignore[misc]
            (lambda ref, other=other: other.update_note(ref, "mine"), hers.id),  # type: ignore[misc]
            (other.job, job.id),
            (other.cancel, job.id),
            (other.retry, job.id),
            (other.crawl_report, job.id),
            (other.collection, hers.collection_id),
            (other.remove_collection, hers.collection_id),
            (lambda ref, other=other: other.edit_collection(ref, CollectionEdit(title="x")), hers.collection_id),  # type: ignore[misc]
            (lambda ref, other=other: other.add(NewNote(text="x", collection=ref)), hers.collection_id),  # type: ignore[misc]
            (
                lambda ref, other=other: other.search(Query(text="x", filter=SearchFilter(collections=(ref,)))),  # type: ignore[misc]
                hers.collection_id,
            ),
            (
                lambda ref, other=other: other.search(Query(text="x", filter=SearchFilter(documents=(ref,)))),  # type: ignore[misc]
                hers.id,
            ),
            (lambda ref, other=other: other.documents(DocumentFilter(collection=ref)), hers.collection_id),  # type: ignore[misc]
            (other.corpora.get, hers.collection_id),
            (other.corpora.remove, hers.collection_id),
        ]
        for verb, ref in verbs:
            assert await refused(verb(ref), ref) == await refused(verb(NEVER), NEVER)
        assert await search_ids(other, "garden gate") == []
        assert (await other.documents(DocumentFilter())).total == 0
        assert (await other.collections()).total == 0
        assert (await other.jobs(JobFilter())).total == 0
        status = await other.status()
        assert (status.documents, status.chunks, status.collections, status.queued) == (0, 0, 0, 0)
    assert await search_ids(ada, "garden gate") == [hers.id]


async def test_the_status_for_an_account_reveals_nothing_about_others(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    before = await bob.status()
    await add_file(ada, "long.md", "tea " * 5000)
    after = await bob.status()
    assert (after.files_bytes, after.database_bytes, after.index_bytes, after.last_change, after.data_path) == (
        before.files_bytes, before.database_bytes, before.index_bytes, before.last_change, "",
    )  # fmt: skip
    assert after.processes == ProcessStatus()


async def test_accounts_may_use_the_same_names_and_bytes(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    hers = await add_note(ada, "tea at noon", collection="memory", source_path="day.txt")
    his = await add_note(bob, "tea at noon", collection="memory", source_path="day.txt")
    assert hers.id != his.id
    assert await search_ids(ada, "tea") == [hers.id]
    assert await search_ids(bob, "tea") == [his.id]
    assert (await bob.create_collection(NewCollection(title="Garden", name="garden"))).name == "garden"
    assert (await ada.create_collection(NewCollection(title="Garden", name="garden"))).name == "garden"


async def test_clear_removes_only_the_callers_own_documents(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus = await create_corpus(ada)
    await grant_access(ada, corpus, "bob", "write")
    hers = await add_note(ada, "tea in the corpus", collection=corpus.id)
    await add_note(bob, "tea of bob")
    assert (await bob.clear()).documents == 1
    assert (await engine.clear()).documents == 0
    assert await search_ids(bob, "tea") == [hers.id]


async def test_the_scope_is_applied_inside_the_search(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    for number in range(30):
        await ada.add(NewNote(text=f"tea {number}, tea and more tea"))
    his = await add_note(bob, "a kettle, some cups, a spoon, and tea")
    for job in (await ada.jobs(JobFilter(per_page=200))).items:
        await wait_until_done(ada, job)
    answer = await bob.search(Query(text="tea", limit=5))
    assert ([hit.document.id for hit in answer.hits], answer.total) == ([his.id], 1)


# -- grants -------------------------------------------------------------------------------------


async def test_a_read_grant_allows_reading_only(engine: Engine) -> None:
    ada, bob, eve = await register(engine, "ada"), await register(engine, "bob"), await register(engine, "eve")
    corpus = await create_corpus(ada)
    note = await add_note(ada, "the penalties for breach", collection=corpus.id)
    await grant_access(ada, corpus, "BOB")
    assert await search_ids(bob, "penalties") == [note.id]
    assert await search_ids(bob, "penalties", collections=(corpus.name,)) == [note.id]
    assert (await bob.document(note.id)).title == note.title
    assert [chunk.text for chunk in await bob.chunks(note.id)] == ["the penalties for breach"]
    assert (await bob.corpora.get(corpus.id)).document_count == 1
    assert [each.id for each in (await bob.collections()).items] == [corpus.id]
    for verb in (
        bob.remove(note.id), bob.edit(note.id, DocumentEdit(title="x")), bob.update_note(note.id, "x"),
        bob.add(NewNote(text="mine", collection=corpus.id)), bob.remove_collection(corpus.id),
        bob.edit_collection(corpus.id, CollectionEdit(title="x")), bob.corpora.remove(corpus.id),
        bob.corpora.edit(corpus.id, CorpusEdit(title="x")), bob.corpora.grant(corpus.id, "eve", Permission.READ),
        bob.corpora.revoke_grant(corpus.id, "bob"), bob.corpora.list_grants(corpus.id),
    ):  # fmt: skip
        with pytest.raises(InsufficientPermissions):
            await verb
    assert await search_ids(eve, "penalties") == []
    with pytest.raises(CorpusNotFound):
        await eve.corpora.get(corpus.id)


async def test_a_write_grant_adds_documents_for_the_owner_of_the_corpus(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus = await create_corpus(ada)
    await grant_access(ada, corpus, "bob", "write")
    note = await add_note(bob, "a clause by bob", collection=corpus.id)
    assert note.owner == corpus.owner
    assert await search_ids(ada, "clause") == await search_ids(bob, "clause") == [note.id]
    assert [job.status for job in (await bob.jobs(JobFilter())).items] == [JobStatus.COMPLETED]
    assert (await ada.jobs(JobFilter())).total == 0, "a job is visible only to the account that started it"
    with pytest.raises(Duplicate):
        await bob.add(NewNote(text="a clause by bob", collection=corpus.id))
    assert (await bob.update_note(note.id, "a better clause")).owner == corpus.owner
    assert (await bob.edit(note.id, DocumentEdit(title="Clause", add_tags=("new",)))).title == "Clause"
    for job in (await bob.jobs(JobFilter())).items:
        await wait_until_done(bob, job)
    assert await search_ids(ada, "better clause") == [note.id]
    assert (await bob.remove(note.id)).documents == 1
    with pytest.raises(InsufficientPermissions):
        await bob.corpora.remove(corpus.id)


async def test_a_revoked_grant_ends_at_once(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus = await create_corpus(ada)
    note = await add_note(ada, "the penalties for breach", collection=corpus.id)
    await grant_access(ada, corpus, "bob", "write")
    await grant_access(ada, corpus, "bob", "read")
    assert [(each.username, each.permission) for each in await ada.corpora.list_grants(corpus.id)] == [
        ("bob", Permission.READ)
    ]
    with pytest.raises(InsufficientPermissions):
        await bob.remove(note.id)
    await ada.corpora.revoke_grant(corpus.id, "bob")
    assert await search_ids(bob, "penalties") == []
    with pytest.raises(DocumentNotFound):
        await bob.document(note.id)


async def test_a_queued_job_fails_after_the_write_grant_is_revoked(local: LocalEngine) -> None:
    ada, bob = await register(local, "ada"), await register(local, "bob")
    corpus = await create_corpus(ada)
    await grant_access(ada, corpus, "bob", "write")
    parts = local._parts
    parts.workers.close()
    await bob.add(NewNote(text="a clause by bob", collection=corpus.id))
    await grant_access(ada, corpus, "bob", "read")
    claim = parts.jobs.claim(most_urgent_only=False)
    assert claim is not None
    with pytest.raises(InsufficientPermissions):
        parts.ingest.run(claim, lambda *_: None, lambda: False)
    assert await search_ids(ada, "clause") == []


async def test_a_document_moved_to_a_corpus_belongs_to_its_owner(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus = await create_corpus(ada)
    await grant_access(ada, corpus, "bob", "write")
    note = await add_note(bob, "a clause by bob")
    moved = await bob.edit(note.id, DocumentEdit(collection=corpus.id))
    assert (moved.owner, moved.collection_id) == (corpus.owner, corpus.id)
    assert await search_ids(ada, "clause") == [note.id]
    await ada.corpora.revoke_grant(corpus.id, "bob")
    assert await search_ids(bob, "clause") == []


async def test_a_new_document_does_not_go_to_a_shared_collection_by_name(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus = await create_corpus(ada, "memory")
    await grant_access(ada, corpus, "bob", "write")
    assert (await bob.collection("memory")).id == corpus.id
    note = await add_note(bob, "a secret of bob", collection="memory")
    assert note.owner != corpus.owner, "sharing a collection must not attract documents of others"
    assert await search_ids(ada, "secret") == []
    assert (await bob.collection("memory")).id == note.collection_id


# -- approval -----------------------------------------------------------------------------------


async def test_a_corpus_is_readable_for_all_once_it_is_public_and_approved(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus = await create_corpus(ada)
    note = await add_note(ada, "the penalties for breach", collection=corpus.id)
    with pytest.raises(CorpusNotFound):
        await bob.corpora.get(corpus.id)
    with pytest.raises(CorpusNotFound):
        await engine.corpora.approve(corpus.id)
    await ada.corpora.edit(corpus.id, CorpusEdit(is_public=True))
    with pytest.raises(CorpusNotApproved):
        await bob.corpora.get(corpus.id)
    assert await search_ids(bob, "penalties") == []
    assert [each.id for each in await engine.corpora.list_pending()] == [corpus.id]
    assert (await engine.corpora.approve(corpus.id)).curation is not None
    assert await engine.corpora.list_pending() == []
    for reader in (bob, engine):
        assert await search_ids(reader, "penalties") == [note.id]
        assert (await reader.corpora.get(corpus.id)).curation == (await ada.corpora.get(corpus.id)).curation
        assert [each.id for each in (await reader.corpora.list_page()).items] == [corpus.id]
        with pytest.raises(InsufficientPermissions):
            await reader.remove(note.id)
    await ada.corpora.edit(corpus.id, CorpusEdit(title="Contracts", is_public=False))
    assert await search_ids(bob, "penalties") == []
    with pytest.raises(CorpusNotFound):
        await bob.corpora.get(corpus.id)
    await ada.corpora.edit(corpus.id, CorpusEdit(is_public=True))
    assert await search_ids(bob, "penalties") == [note.id], "the approval stays"
    await engine.corpora.revoke_approval(corpus.id)
    assert await search_ids(bob, "penalties") == []
    with pytest.raises(CorpusNotApproved):
        await bob.corpora.get(corpus.id)


async def test_admins_approve_corpora(engine: Engine) -> None:
    ada, root = await register(engine, "ada"), await register(engine, "root")
    corpus = await create_corpus(ada, public=True)
    curation = (await root.corpora.approve(corpus.id)).curation
    assert curation is not None
    assert (curation.is_approved, curation.owner_name) == (True, "ada")


async def test_corpora_are_listed_by_category_and_approval(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    law = await create_corpus(ada, "Law", public=True)
    await ada.corpora.create(NewCorpus(title="Cells", category="medical", version="2"))
    await add_note(ada, "no corpus at all", collection="garden")
    await engine.corpora.approve(law.id)
    assert [each.title for each in (await ada.corpora.list_page()).items] == ["Law", "Cells"]
    assert [each.title for each in (await ada.corpora.list_page("medical")).items] == ["Cells"]
    assert [each.title for each in (await ada.corpora.list_page(approved_only=True)).items] == ["Law"]
    page = await ada.corpora.list_page(page=2, per_page=1)
    assert (page.total, [each.title for each in page.items]) == (2, ["Cells"])
    assert [each.title for each in (await bob.corpora.list_page()).items] == ["Law"]
    with pytest.raises(InvalidParameter):
        await ada.corpora.list_page("cooking")


# -- corpora themselves -------------------------------------------------------------------------


async def test_a_corpus_is_a_collection_with_curation_fields(engine: Engine) -> None:
    ada = await register(engine, "ada")
    new = NewCorpus(title="US Contract Law", name="us_law", description="Reference", category="legal", version="1.0")
    corpus = await ada.corpora.create(new)
    assert (await ada.corpora.create(new)).id == corpus.id, "creating it twice makes one"
    assert (corpus.name, corpus.title, corpus.description) == ("us_law", "US Contract Law", "Reference")
    edited = await ada.corpora.edit(corpus.id, CorpusEdit(title="Law", category="technical", version="2"))
    assert edited.curation is not None
    assert (edited.title, edited.curation.category, edited.curation.version) == ("Law", "technical", "2")
    assert (await ada.collection("us_law")).curation == edited.curation
    with pytest.raises(NameTaken):
        await ada.corpora.create(NewCorpus(title="x", name="us_law"))
    for wrong in (NewCorpus(title="x", category="cooking"), NewCorpus(title="x", version="v" * 1000)):
        with pytest.raises(InvalidParameter):
            await ada.corpora.create(wrong)


async def test_a_plain_collection_is_not_found_as_a_corpus(engine: Engine) -> None:
    ada = await register(engine, "ada")
    plain = await ada.create_collection(NewCollection(title="Garden"))
    for verb in (
        ada.corpora.get(plain.id),
        ada.corpora.remove(plain.id),
        ada.corpora.grant(plain.id, "ada", Permission.READ),
    ):
        with pytest.raises(CorpusNotFound):
            await verb
    assert (await ada.collection(plain.id)).curation is None


async def test_removing_a_corpus_removes_its_documents_and_grants(engine: Engine, local: LocalEngine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus = await create_corpus(ada)
    await grant_access(ada, corpus, "bob", "write")
    await add_note(bob, "a clause by bob", collection=corpus.id)
    assert (await ada.corpora.remove(corpus.id)).documents == 1
    assert (await bob.corpora.list_page()).total == 0
    with pytest.raises(CollectionNotFound):
        await bob.collection(corpus.id)
    assert await local.verify() == []


async def test_a_grant_to_an_unknown_account_is_refused(engine: Engine) -> None:
    ada = await register(engine, "ada")
    corpus = await create_corpus(ada)
    for name in ("nobody", "'; DROP TABLE grants; --", "x" * 100_000):
        with pytest.raises(AccountNotFound):
            await ada.corpora.grant(corpus.id, name, Permission.READ)
    assert await ada.corpora.list_grants(corpus.id) == []


async def test_deleting_an_account_keeps_the_corpora_of_others(engine: Engine, local: LocalEngine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus, his = await create_corpus(ada), await create_corpus(bob, "Bob's")
    await grant_access(ada, corpus, "bob", "write")
    await grant_access(bob, his, "ada", "write")
    kept = await add_note(bob, "a clause by bob", collection=corpus.id)
    gone = await add_note(ada, "a clause by ada", collection=his.id)
    await bob.accounts.delete_me(PASSWORD)
    assert await search_ids(ada, "clause") == [kept.id]
    assert await ada.corpora.list_grants(corpus.id) == []
    with pytest.raises(DocumentNotFound):
        await ada.document(gone.id)
    with pytest.raises(JobNotFound):
        await ada.job((await ada.jobs(JobFilter())).total + 1000)
    assert await local.verify() == []


# -- review -------------------------------------------------------------------------------------


async def test_an_admin_looks_into_a_corpus_while_it_is_public_and_into_nothing_else(engine: Engine) -> None:
    root, ada, bob = await register(engine, ADMIN), await register(engine, "ada"), await register(engine, "bob")
    corpus, other = await create_corpus(ada, "Gates", public=True), await create_corpus(ada, "Private")
    shown = await add_note(ada, "the garden gate", title="Gate", collection=corpus.id)
    hidden = await add_note(ada, "the secret door", title="Door", collection=other.id)
    assert [each.id for each in (await root.corpora.review(corpus.id)).items] == [shown.id]
    part = await root.corpora.review_chunks(corpus.id, shown.uid)
    assert part.document.title == "Gate" and [chunk.text for chunk in part.chunks] == ["the garden gate"]
    assert (await root.corpora.review_chunks(corpus.id, shown.id, limit=0)).chunks == ()
    with pytest.raises(DocumentNotFound):
        await root.corpora.review_chunks(corpus.id, hidden.id)
    for admin in (root, engine):
        with pytest.raises(CorpusNotFound):
            await admin.corpora.review(other.id)
    with pytest.raises(AdminRequired):
        await bob.corpora.review(corpus.id)
    with pytest.raises(DocumentNotFound):  # the review gives no other verb access
        await root.document(shown.id)
    assert await search_ids(root, "garden gate") == []
    await root.corpora.decline(corpus.id, "Gates only")
    with pytest.raises(CorpusNotFound):
        await root.corpora.review_chunks(corpus.id, shown.id)


async def test_a_declined_corpus_is_private_and_its_owner_reads_why_until_it_is_public_again(engine: Engine) -> None:
    root, ada = await register(engine, ADMIN), await register(engine, "ada")
    corpus = await create_corpus(ada, public=True)
    declined = await root.corpora.decline(corpus.id, "Please name the sources.")
    assert declined.curation is not None and not declined.curation.is_public
    assert await root.corpora.list_pending() == []
    found = (await ada.corpora.get(corpus.id)).curation
    assert found is not None and found.declined == "Please name the sources."
    with pytest.raises(CorpusNotFound):
        await root.corpora.decline(corpus.id)
    again = (await ada.corpora.edit(corpus.id, CorpusEdit(is_public=True))).curation
    assert again is not None and again.declined is None and again.is_public
    await root.corpora.approve(corpus.id)
    with pytest.raises(CorpusNotFound):  # an approved corpus is revoked, not declined
        await root.corpora.decline(corpus.id)


async def test_approvals_are_told_to_the_owner_and_to_admins_alone(local: LocalEngine) -> None:
    engine = local.as_caller(Caller())
    root, ada, bob = await register(engine, ADMIN), await register(engine, "ada"), await register(engine, "bob")
    async with watching(root) as admins, watching(ada) as hers, watching(bob) as his:
        for reader in (admins, hers, his):
            await reader.read_kind(EventKind.HELLO)
        corpus = await create_corpus(ada, public=True)
        for reader in (admins, hers):
            told = await reader.read_kind(EventKind.APPROVAL)
            assert isinstance(told.data, ApprovalChange) and told.data.id == corpus.id
        await root.corpora.approve(corpus.id)
        assert (await his.read()).kind is EventKind.RESET  # he may read it now, and was told nothing before
        await hers.read_kind(EventKind.RESET)
