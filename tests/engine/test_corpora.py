"""Corpora and what people see of each other, near and far: what is another's looks as if it had never been."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import (
    AccountNotFound,
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
    CollectionEdit,
    CorpusEdit,
    DocumentEdit,
    DocumentFilter,
    Filter,
    JobFilter,
    JobStatus,
    NewCollection,
    NewCorpus,
    NewNote,
    Permission,
    Query,
)
from tests.support.accounts import PASSWORD, a_corpus, joined, lend
from tests.support.engines import add_file, add_note, done, found

NEVER = 4_000_000


async def refused(verb: Awaitable[object], named: object) -> tuple[type[KnowledgeError], str, str]:
    """A refusal, without the id that was asked for."""
    with pytest.raises(KnowledgeError) as raised:
        await verb
    return type(raised.value), str(raised.value).replace(str(named), "#"), raised.value.hint


# -- what is another's --------------------------------------------------------------------------


async def test_what_is_anothers_looks_as_if_it_had_never_been(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
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
                lambda ref, other=other: other.search(Query(text="x", filter=Filter(collections=(ref,)))),  # type: ignore[misc]
                hers.collection_id,
            ),
            (
                lambda ref, other=other: other.search(Query(text="x", filter=Filter(documents=(ref,)))),  # type: ignore[misc]
                hers.id,
            ),
            (lambda ref, other=other: other.documents(DocumentFilter(collection=ref)), hers.collection_id),  # type: ignore[misc]
            (other.corpus, hers.collection_id),
            (other.remove_corpus, hers.collection_id),
        ]
        for verb, ref in verbs:
            assert await refused(verb(ref), ref) == await refused(verb(NEVER), NEVER)
        assert await found(other, "garden gate") == []
        assert (await other.documents(DocumentFilter())).total == 0
        assert (await other.collections()).total == 0
        assert (await other.jobs(JobFilter())).total == 0
        status = await other.status()
        assert (status.documents, status.chunks, status.collections, status.queued) == (0, 0, 0, 0)
    assert await found(ada, "garden gate") == [hers.id]


async def test_an_account_is_told_nothing_of_the_whole(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    before = await bob.status()
    await add_file(ada, "long.md", "tea " * 5000)
    after = await bob.status()
    assert (after.files_bytes, after.database_bytes, after.index_bytes, after.last_change, after.data_path) == (
        before.files_bytes, before.database_bytes, before.index_bytes, before.last_change, "",
    )  # fmt: skip


async def test_the_same_names_and_bytes_are_nobody_elses_business(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    hers = await add_note(ada, "tea at noon", collection="memory", source_path="day.txt")
    his = await add_note(bob, "tea at noon", collection="memory", source_path="day.txt")
    assert hers.id != his.id
    assert await found(ada, "tea") == [hers.id]
    assert await found(bob, "tea") == [his.id]
    assert (await bob.create_collection(NewCollection(title="Garden", name="garden"))).name == "garden"
    assert (await ada.create_collection(NewCollection(title="Garden", name="garden"))).name == "garden"


async def test_to_clear_touches_only_what_is_ones_own(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    corpus = await a_corpus(ada)
    await lend(ada, corpus, "bob", "write")
    hers = await add_note(ada, "tea in the corpus", collection=corpus.id)
    await add_note(bob, "tea of bob")
    assert (await bob.clear()).documents == 1
    assert (await engine.clear()).documents == 0
    assert await found(bob, "tea") == [hers.id]


async def test_the_filter_is_inside_the_search(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    for number in range(30):
        await ada.add(NewNote(text=f"tea {number}, tea and more tea"))
    his = await add_note(bob, "a kettle, some cups, a spoon, and tea")
    for job in (await ada.jobs(JobFilter(per_page=200))).items:
        await done(ada, job)
    answer = await bob.search(Query(text="tea", limit=5))
    assert ([hit.document.id for hit in answer.hits], answer.total) == ([his.id], 1)


# -- grants -------------------------------------------------------------------------------------


async def test_who_is_granted_reading_reads_and_nothing_else(engine: Engine) -> None:
    ada, bob, eve = await joined(engine, "ada"), await joined(engine, "bob"), await joined(engine, "eve")
    corpus = await a_corpus(ada)
    note = await add_note(ada, "the penalties for breach", collection=corpus.id)
    await lend(ada, corpus, "BOB")
    assert await found(bob, "penalties") == [note.id]
    assert await found(bob, "penalties", collections=(corpus.name,)) == [note.id]
    assert (await bob.document(note.id)).title == note.title
    assert [chunk.text for chunk in await bob.chunks(note.id)] == ["the penalties for breach"]
    assert (await bob.corpus(corpus.id)).document_count == 1
    assert [each.id for each in (await bob.collections()).items] == [corpus.id]
    for verb in (
        bob.remove(note.id), bob.edit(note.id, DocumentEdit(title="x")), bob.update_note(note.id, "x"),
        bob.add(NewNote(text="mine", collection=corpus.id)), bob.remove_collection(corpus.id),
        bob.edit_collection(corpus.id, CollectionEdit(title="x")), bob.remove_corpus(corpus.id),
        bob.edit_corpus(corpus.id, CorpusEdit(title="x")), bob.grant(corpus.id, "eve", Permission.READ),
        bob.revoke_grant(corpus.id, "bob"), bob.grants(corpus.id),
    ):  # fmt: skip
        with pytest.raises(InsufficientPermissions):
            await verb
    assert await found(eve, "penalties") == []
    with pytest.raises(CorpusNotFound):
        await eve.corpus(corpus.id)


async def test_who_is_granted_writing_adds_for_the_owner_of_the_corpus(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    corpus = await a_corpus(ada)
    await lend(ada, corpus, "bob", "write")
    note = await add_note(bob, "a clause by bob", collection=corpus.id)
    assert note.owner == corpus.owner
    assert await found(ada, "clause") == await found(bob, "clause") == [note.id]
    assert [job.status for job in (await bob.jobs(JobFilter())).items] == [JobStatus.COMPLETED]
    assert (await ada.jobs(JobFilter())).total == 0, "a job is seen by whoever started it"
    with pytest.raises(Duplicate):
        await bob.add(NewNote(text="a clause by bob", collection=corpus.id))
    assert (await bob.update_note(note.id, "a better clause")).owner == corpus.owner
    assert (await bob.edit(note.id, DocumentEdit(title="Clause", add_tags=("new",)))).title == "Clause"
    for job in (await bob.jobs(JobFilter())).items:
        await done(bob, job)
    assert await found(ada, "better clause") == [note.id]
    assert (await bob.remove(note.id)).documents == 1
    with pytest.raises(InsufficientPermissions):
        await bob.remove_corpus(corpus.id)


async def test_a_grant_that_is_revoked_ends_at_once(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    corpus = await a_corpus(ada)
    note = await add_note(ada, "the penalties for breach", collection=corpus.id)
    await lend(ada, corpus, "bob", "write")
    await lend(ada, corpus, "bob", "read")
    assert [(each.username, each.permission) for each in await ada.grants(corpus.id)] == [("bob", Permission.READ)]
    with pytest.raises(InsufficientPermissions):
        await bob.remove(note.id)
    await ada.revoke_grant(corpus.id, "bob")
    assert await found(bob, "penalties") == []
    with pytest.raises(DocumentNotFound):
        await bob.document(note.id)


async def test_a_job_does_not_outlive_the_right_to_write(local: LocalEngine) -> None:
    ada, bob = await joined(local, "ada"), await joined(local, "bob")
    corpus = await a_corpus(ada)
    await lend(ada, corpus, "bob", "write")
    parts = local._parts
    parts.workers.close()
    await bob.add(NewNote(text="a clause by bob", collection=corpus.id))
    await lend(ada, corpus, "bob", "read")
    claim = parts.jobs.claim(most_urgent_only=False)
    assert claim is not None
    with pytest.raises(InsufficientPermissions):
        parts.ingest.run(claim, lambda *_: None, lambda: False)
    assert await found(ada, "clause") == []


async def test_a_document_that_moves_changes_hands(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    corpus = await a_corpus(ada)
    await lend(ada, corpus, "bob", "write")
    note = await add_note(bob, "a clause by bob")
    moved = await bob.edit(note.id, DocumentEdit(collection=corpus.id))
    assert (moved.owner, moved.collection_id) == (corpus.owner, corpus.id)
    assert await found(ada, "clause") == [note.id]
    await ada.revoke_grant(corpus.id, "bob")
    assert await found(bob, "clause") == []


async def test_a_name_is_ones_own_before_it_is_anothers(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    corpus = await a_corpus(ada, "memory")
    await lend(ada, corpus, "bob", "write")
    assert (await bob.collection("memory")).id == corpus.id
    note = await add_note(bob, "a secret of bob", collection="memory")
    assert note.owner != corpus.owner, "who shares a collection cannot have others write into it unawares"
    assert await found(ada, "secret") == []
    assert (await bob.collection("memory")).id == note.collection_id


# -- approval -----------------------------------------------------------------------------------


async def test_a_corpus_is_everybodys_to_read_once_it_is_public_and_approved(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    corpus = await a_corpus(ada)
    note = await add_note(ada, "the penalties for breach", collection=corpus.id)
    with pytest.raises(CorpusNotFound):
        await bob.corpus(corpus.id)
    with pytest.raises(CorpusNotFound):
        await engine.approve_corpus(corpus.id)
    await ada.edit_corpus(corpus.id, CorpusEdit(is_public=True))
    with pytest.raises(CorpusNotApproved):
        await bob.corpus(corpus.id)
    assert await found(bob, "penalties") == []
    assert [each.id for each in await engine.pending_corpora()] == [corpus.id]
    assert (await engine.approve_corpus(corpus.id)).curation is not None
    assert await engine.pending_corpora() == []
    for reader in (bob, engine):
        assert await found(reader, "penalties") == [note.id]
        assert (await reader.corpus(corpus.id)).curation == (await ada.corpus(corpus.id)).curation
        assert [each.id for each in (await reader.corpora()).items] == [corpus.id]
        with pytest.raises(InsufficientPermissions):
            await reader.remove(note.id)
    await ada.edit_corpus(corpus.id, CorpusEdit(title="Contracts", is_public=False))
    assert await found(bob, "penalties") == []
    with pytest.raises(CorpusNotFound):
        await bob.corpus(corpus.id)
    await ada.edit_corpus(corpus.id, CorpusEdit(is_public=True))
    assert await found(bob, "penalties") == [note.id], "what was approved stays approved"
    await engine.revoke_approval(corpus.id)
    assert await found(bob, "penalties") == []
    with pytest.raises(CorpusNotApproved):
        await bob.corpus(corpus.id)


async def test_admins_approve(engine: Engine) -> None:
    ada, root = await joined(engine, "ada"), await joined(engine, "root")
    corpus = await a_corpus(ada, public=True)
    curation = (await root.approve_corpus(corpus.id)).curation
    assert curation is not None
    assert (curation.is_approved, curation.owner_name) == (True, "ada")


async def test_corpora_are_listed_by_category_and_approval(engine: Engine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    law = await a_corpus(ada, "Law", public=True)
    await ada.create_corpus(NewCorpus(title="Cells", category="medical", version="2"))
    await add_note(ada, "no corpus at all", collection="garden")
    await engine.approve_corpus(law.id)
    assert [each.title for each in (await ada.corpora()).items] == ["Law", "Cells"]
    assert [each.title for each in (await ada.corpora("medical")).items] == ["Cells"]
    assert [each.title for each in (await ada.corpora(approved_only=True)).items] == ["Law"]
    page = await ada.corpora(page=2, per_page=1)
    assert (page.total, [each.title for each in page.items]) == (2, ["Cells"])
    assert [each.title for each in (await bob.corpora()).items] == ["Law"]
    with pytest.raises(InvalidParameter):
        await ada.corpora("cooking")


# -- corpora themselves -------------------------------------------------------------------------


async def test_a_corpus_is_a_collection_with_more_to_say(engine: Engine) -> None:
    ada = await joined(engine, "ada")
    new = NewCorpus(title="US Contract Law", name="us_law", description="Reference", category="legal", version="1.0")
    corpus = await ada.create_corpus(new)
    assert (await ada.create_corpus(new)).id == corpus.id, "to ask twice makes one"
    assert (corpus.name, corpus.title, corpus.description) == ("us_law", "US Contract Law", "Reference")
    edited = await ada.edit_corpus(corpus.id, CorpusEdit(title="Law", category="technical", version="2"))
    assert edited.curation is not None
    assert (edited.title, edited.curation.category, edited.curation.version) == ("Law", "technical", "2")
    assert (await ada.collection("us_law")).curation == edited.curation
    with pytest.raises(NameTaken):
        await ada.create_corpus(NewCorpus(title="x", name="us_law"))
    for wrong in (NewCorpus(title="x", category="cooking"), NewCorpus(title="x", version="v" * 1000)):
        with pytest.raises(InvalidParameter):
            await ada.create_corpus(wrong)


async def test_a_collection_that_is_no_corpus_is_none(engine: Engine) -> None:
    ada = await joined(engine, "ada")
    plain = await ada.create_collection(NewCollection(title="Garden"))
    for verb in (ada.corpus(plain.id), ada.remove_corpus(plain.id), ada.grant(plain.id, "ada", Permission.READ)):
        with pytest.raises(CorpusNotFound):
            await verb
    assert (await ada.collection(plain.id)).curation is None


async def test_a_corpus_goes_with_its_documents_and_grants(engine: Engine, local: LocalEngine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    corpus = await a_corpus(ada)
    await lend(ada, corpus, "bob", "write")
    await add_note(bob, "a clause by bob", collection=corpus.id)
    assert (await ada.remove_corpus(corpus.id)).documents == 1
    assert (await bob.corpora()).total == 0
    with pytest.raises(CollectionNotFound):
        await bob.collection(corpus.id)
    assert await local.verify() == []


async def test_a_grant_is_to_somebody(engine: Engine) -> None:
    ada = await joined(engine, "ada")
    corpus = await a_corpus(ada)
    for name in ("nobody", "'; DROP TABLE grants; --", "x" * 100_000):
        with pytest.raises(AccountNotFound):
            await ada.grant(corpus.id, name, Permission.READ)
    assert await ada.grants(corpus.id) == []


async def test_who_leaves_leaves_the_corpora_of_others_alone(engine: Engine, local: LocalEngine) -> None:
    ada, bob = await joined(engine, "ada"), await joined(engine, "bob")
    corpus, his = await a_corpus(ada), await a_corpus(bob, "Bob's")
    await lend(ada, corpus, "bob", "write")
    await lend(bob, his, "ada", "write")
    kept = await add_note(bob, "a clause by bob", collection=corpus.id)
    gone = await add_note(ada, "a clause by ada", collection=his.id)
    await bob.delete_account(PASSWORD)
    assert await found(ada, "clause") == [kept.id]
    assert await ada.grants(corpus.id) == []
    with pytest.raises(DocumentNotFound):
        await ada.document(gone.id)
    with pytest.raises(JobNotFound):
        await ada.job((await ada.jobs(JobFilter())).total + 1000)
    assert await local.verify() == []
