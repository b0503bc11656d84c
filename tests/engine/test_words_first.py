"""A new document is found by words as soon as it is split, and by meaning when it is embedded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import httpx
import numpy as np
import pytest
from sqlalchemy import text, update

from knowledge.config import Settings
from knowledge.embed.loading import ModelChoice, ModelLoader
from knowledge.engine.api import Engine
from knowledge.engine.ingest.staging import digest_text
from knowledge.engine.jobs.workers import MAX_READING_SECONDS, ClaimScheduler
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.errors import DocumentNotFound
from knowledge.model import (
    Caller,
    DocumentEdit,
    DocumentFilter,
    DocumentStatus,
    Job,
    JobFilter,
    JobKind,
    JobStatus,
    NewCollection,
    NewNote,
    Query,
    Scope,
    SearchMode,
)
from knowledge.split import build_embedding_text
from knowledge.store import schema
from knowledge.store.jobs.claim_queues import (
    PRIORITY_BULK,
    PRIORITY_BULK_VECTORS,
    PRIORITY_INTERACTIVE,
    PRIORITY_INTERACTIVE_VECTORS,
    find_vector_priority,
)
from knowledge.store.jobs.rows import JobClaim
from knowledge.surfaces.http.auth import Authenticator
from knowledge.surfaces.http.guard import wrap_in_guard
from knowledge.surfaces.rest import make_rest_app
from knowledge.testing import BagOfWordsEmbedder, SharedParsers, make_test_engine
from tests.support.engines import WAIT_SECONDS, add_file, make_file, wait_until_done
from tests.support.gated_models import Engines, find_texts, wait_for, wait_until_found

MANY_PARAGRAPHS = "\n\n".join(
    f"Paragraph {number} of the manual. " + "Tea and biscuits. " * 60 for number in range(200)
)
"""More than two batches of chunks."""


@pytest.fixture
def engines(settings: Settings, parsers: SharedParsers) -> Iterator[Engines]:
    made = Engines(settings, parsers)
    yield made
    made.close()


@pytest.fixture
def gated(engines: Engines) -> LocalEngine:
    return engines.open()


@pytest.fixture(params=["local", "remote"])
async def engine(request: pytest.FixtureRequest, gated: LocalEngine, settings: Settings) -> AsyncIterator[Engine]:
    if request.param == "local":
        yield gated.as_caller(Caller())
        return
    authenticator = Authenticator.from_settings(settings, gated.accounts.find_by_key)
    transport = httpx.ASGITransport(app=wrap_in_guard(make_rest_app(gated), settings, authenticator))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        yield RemoteEngine(http)


async def require_nothing_left(engine: Engine, job: Job, status: JobStatus) -> None:
    """Assert that nothing but the ended job is left of an add."""
    assert (await engine.job(job.id)).status is status
    assert (await engine.documents(DocumentFilter())).total == 0
    assert await engine.verify() == []


# -- while it is processing -----------------------------------------------------------------------


async def test_a_new_document_is_found_by_words_before_it_is_embedded(engine: Engine, engines: Engines) -> None:
    job = await engine.add(make_file("tea.txt", "Assam tea from the north"))
    document = await wait_until_found(engine, "assam")
    assert document.status is DocumentStatus.PROCESSING
    (hit,) = (await engine.search(Query(text="assam tea"))).hits
    assert hit.matched_by == "words" and hit.document.status is DocumentStatus.PROCESSING
    assert await find_texts(engine, "assam", SearchMode.VECTOR) == []
    now = await engine.job(job.id)
    assert (now.status, now.document_id, now.chunk_count) == (JobStatus.PROCESSING, document.id, 1)
    engines.model.gate.open()
    assert (await wait_until_done(engine, job)).document_id == document.id
    assert (await engine.document(document.id)).status is DocumentStatus.COMPLETED
    (hit,) = (await engine.search(Query(text="assam tea"))).hits
    assert hit.matched_by == "both" and hit.document.status is DocumentStatus.COMPLETED
    assert len(await find_texts(engine, "assam", SearchMode.VECTOR)) == 1
    assert await engine.verify() == []


async def test_a_processing_document_is_listed_and_not_counted(engine: Engine, engines: Engines) -> None:
    job = await engine.add(make_file("tea.txt", "Assam tea from the north"))
    document = await wait_until_found(engine, "assam")
    assert [each.id for each in (await engine.documents(DocumentFilter())).items] == [document.id]
    assert (await engine.documents(DocumentFilter(finished=True))).total == 0
    assert [chunk.text for chunk in await engine.chunks(document.id)] == ["Assam tea from the north"]
    status = await engine.status()
    assert (status.documents, status.chunks, status.files_bytes, status.processing) == (0, 0, 0, 1)
    collection = await engine.collection("documents")
    assert (collection.document_count, collection.chunk_count) == (0, 0)
    assert await engine.verify() == []
    engines.model.gate.open()
    await wait_until_done(engine, job)
    status = await engine.status()
    assert (status.documents, status.chunks, status.files_bytes) == (1, 1, 24)
    assert (await engine.documents(DocumentFilter(finished=True))).total == 1
    assert (await engine.collection("documents")).document_count == 1


async def find_scores(engine: Engine) -> list[list[tuple[int, float]]]:
    """Return the passages of several questions in each mode, with their scores."""
    answers = [
        await engine.search(Query(text=text, mode=mode, limit=50))
        for text in ("tea", "leaflet about tea", "volume of the manual", "biscuits paragraph 17")
        for mode in (SearchMode.TEXT, SearchMode.VECTOR, SearchMode.HYBRID)
    ]
    return [[(hit.chunk.id, hit.score) for hit in answer.hits] for answer in answers]


async def add_leaflets(engines: Engines) -> LocalEngine:
    """Add documents that are all published by words before the first of them is embedded."""
    engine = engines.open(start=False)
    texts = [f"leaflet {number} about tea\n\n" + "Tea and biscuits. " * number for number in range(1, 30)]
    jobs = [await engine.add(make_file(f"{number}.txt", text)) for number, text in enumerate([*texts, MANY_PARAGRAPHS])]
    engine.start()  # reading goes before embedding, but a worker that waits for the next document would embed
    async with asyncio.timeout(WAIT_SECONDS):
        while (await engine.documents(DocumentFilter())).total < len(jobs):
            await asyncio.sleep(0.01)
    engines.model.gate.open()
    for job in jobs:
        await wait_until_done(engine, job)
    return engine


async def test_documents_added_words_first_have_the_scores_and_order_of_a_rebuilt_index(engines: Engines) -> None:
    engine = await add_leaflets(engines)
    added = await find_scores(engine)
    await engine.reindex()
    assert await find_scores(engine) == added and all(added)


async def test_removed_and_edited_documents_do_not_change_the_scores_of_the_others(engines: Engines) -> None:
    engine = await add_leaflets(engines)
    first, second, *_ = (await engine.documents(DocumentFilter())).items
    await engine.remove(first.id)
    await engine.edit(second.id, DocumentEdit(add_tags=("edited",)))
    found = await find_scores(engine)
    await engine.reindex()
    for mine, rebuilt in zip(found, await find_scores(engine), strict=True):
        assert [chunk for chunk, _ in mine] == [chunk for chunk, _ in rebuilt]
        assert [score for _, score in mine] == pytest.approx([score for _, score in rebuilt], abs=1e-4)


async def test_the_words_of_a_new_document_are_entered_once(gated: LocalEngine, engines: Engines) -> None:
    job = await gated.add(make_file("tea.txt", "Assam tea"))
    await wait_until_found(gated, "assam")
    engines.model.gate.open()
    await wait_until_done(gated, job)
    assert gated._parts.indexer.index.count_unpurged() == 0


async def test_a_half_embedded_document_is_verified_and_rebuilt(gated: LocalEngine, engines: Engines) -> None:
    engines.model.gate.let_pass(1)
    job = await gated.add(make_file("manual.txt", MANY_PARAGRAPHS))
    await wait_until_found(gated, "biscuits")
    await wait_for(lambda: bool(engines.model.embedded))
    await gated.reindex()
    assert await gated.verify() == []
    assert (await gated.job(job.id)).step == "Generating embeddings"
    engines.model.gate.open()
    ended = await wait_until_done(gated, job)
    assert len(engines.model.embedded) == ended.chunk_count > 128
    assert await gated.verify() == []


async def test_without_a_model_a_document_is_published_once(settings: Settings, parsers: SharedParsers) -> None:
    settings = settings.model_copy(update={"embedding": "none"})
    engine = make_test_engine(settings, parsers=parsers, open_model=lambda spec: _open_unloaded(settings, spec))
    engine.start()
    try:
        document = await add_file(engine, "tea.txt", "Assam tea")
        assert document.status is DocumentStatus.COMPLETED and engine._parts.changes.newest_seq() == 1
    finally:
        await asyncio.to_thread(engine.close)


def _open_unloaded(settings: Settings, spec: str) -> ModelLoader:
    return ModelLoader(ModelChoice(spec=spec, cache_folder=settings.data))


async def test_a_document_in_a_language_that_the_model_does_not_read_is_published_once(
    gated: LocalEngine, engines: Engines
) -> None:
    engines.model.languages = frozenset({"en"})
    text = "Der Tee wird um fünf Uhr serviert, und danach gehen alle gemeinsam im Garten spazieren."
    document = await add_file(gated, "tee.txt", text)
    assert document.language == "de" and gated._parts.changes.newest_seq() == 1
    assert not engines.model.asked.is_set()


# -- order ----------------------------------------------------------------------------------------


def test_interactive_documents_are_embedded_first_then_small_ones() -> None:
    assert find_vector_priority(PRIORITY_INTERACTIVE, 10_000) == PRIORITY_INTERACTIVE_VECTORS < PRIORITY_BULK
    sizes = [find_vector_priority(PRIORITY_BULK, chunks) for chunks in (1, 64, 65, 128, 129, 1000, 10**9)]
    assert sizes == [11, 11, 12, 12, 13, 15, 19] and sizes[0] == PRIORITY_BULK_VECTORS > PRIORITY_BULK


async def test_all_documents_are_found_by_words_before_more_than_two_are_embedded(
    gated: LocalEngine, engines: Engines
) -> None:
    """Two workers are embedding documents when the others arrive: between two batches these are read first."""
    large = [await gated.add(make_file(f"{number}.txt", f"volume {number}\n\n{MANY_PARAGRAPHS}")) for number in (1, 2)]
    await wait_for(lambda: engines.model.asked.is_set())
    await wait_until_found(gated, "biscuits")
    others = [await gated.add(make_file(f"s{number}.txt", f"leaflet {number}")) for number in range(5)]
    note = await gated.add(NewNote(text="postcard from the coast"))
    engines.model.gate.let_pass(2)
    await wait_until_found(gated, "postcard")
    async with asyncio.timeout(WAIT_SECONDS):
        while len(await find_texts(gated, "leaflet")) < 5:
            await asyncio.sleep(0.01)
    assert [(await gated.job(job.id)).status for job in others] == [JobStatus.PROCESSING] * 5
    engines.model.gate.open()
    for job in (*large, *others, note):
        await wait_until_done(gated, job)
    order = [engines.model.embedded.index(text) for text in engines.model.embedded if "leaflet" in text]
    assert max(order) < len(engines.model.embedded) - 1, "the large documents were embedded before the small ones"
    assert await gated.verify() == []


class EndlessQueue:
    """A queue in which documents wait both to be read and to be embedded."""

    def __init__(self) -> None:
        self.claimed: list[str] = []

    def claim(self, most_urgent_only: bool) -> JobClaim | None:
        return self._make_claim("read", None)

    def claim_without_vectors(self) -> JobClaim | None:
        return self._make_claim("embed", 1)

    def claim_alone(self) -> JobClaim | None:
        raise AssertionError("no job is quarantined")

    def _make_claim(self, what: str, document_id: int | None) -> JobClaim:
        self.claimed.append(what)
        return JobClaim(
            id=1,
            uid=uuid4(),
            token="",
            kind=JobKind.ADD,
            owner=0,
            collection_id=1,
            filename="",
            payload={},
            sha256=None,
            priority=PRIORITY_BULK,
            deaths=0,
            unclean_starts=0,
            document_id=document_id,
        )


def test_an_endless_stream_of_new_documents_does_not_stop_embedding() -> None:
    now, queue = 0.0, EndlessQueue()
    scheduler = ClaimScheduler(queue, clock=lambda: now)
    for _ in range(3):
        scheduler.claim(False)
    now = MAX_READING_SECONDS
    for _ in range(4):
        scheduler.claim(False)
    assert queue.claimed == ["read"] * 3 + ["embed", "read", "embed", "read"]


# -- cancelled and failed -------------------------------------------------------------------------


async def test_a_cancelled_add_disappears_from_words_at_once(engine: Engine, engines: Engines) -> None:
    job = await engine.add(make_file("tea.txt", "Assam tea from the north"))
    document = await wait_until_found(engine, "assam")
    await engine.cancel(job.id)  # the worker, which waits for its model, loses the job
    engines.model.gate.open()
    assert await find_texts(engine, "assam") == []
    with pytest.raises(DocumentNotFound):
        await engine.document(document.id)
    await require_nothing_left(engine, job, JobStatus.CANCELLED)
    assert not [path for path in (engines.settings.data / "files").rglob("*") if path.is_file()]


async def test_a_job_that_waits_to_be_embedded_can_be_cancelled(gated: LocalEngine, engines: Engines) -> None:
    job = await gated.add(make_file("tea.txt", "Assam tea"))
    await wait_until_found(gated, "assam")
    release_claim_of(gated, job)
    ended = await gated.cancel(job.id)
    assert ended.status is JobStatus.CANCELLED and ended.document_id is None
    assert await find_texts(gated, "assam") == []
    engines.model.gate.open()
    await require_nothing_left(gated, job, JobStatus.CANCELLED)


def release_claim_of(engine: LocalEngine, job: Job) -> None:
    """Do what a worker does when it leaves the embedding to another one."""
    assert engine._parts.progress.suspend(job.id)
    release = update(schema.jobs).where(schema.jobs.c.id == job.id).values(token=None)
    engine._parts.database.write(lambda connection: connection.execute(release))


async def test_a_failed_add_disappears_from_words_and_can_be_retried(engine: Engine, engines: Engines) -> None:
    job = await engine.add(make_file("tea.txt", "Assam tea from the north"))
    await wait_until_found(engine, "assam")
    engines.model.broken = True
    engines.model.gate.open()
    ended = await engine.wait(job.id, WAIT_SECONDS)
    assert ended.error is not None and ended.retryable and ended.document_id is None and ended.chunk_count == 0
    assert await find_texts(engine, "assam") == []
    await require_nothing_left(engine, job, JobStatus.FAILED)
    engines.model.broken = False
    await wait_until_done(engine, await engine.retry(job.id))
    assert len(await find_texts(engine, "assam", SearchMode.VECTOR)) == 1


# -- changed while it is processing ---------------------------------------------------------------


async def test_a_replaced_document_keeps_its_old_version_until_the_new_one_is_complete(
    engine: Engine, engines: Engines
) -> None:
    engines.model.gate.open()
    document = await add_file(engine, "tea.txt", "Assam tea", source_path="/tea")
    engines.model.gate.close()
    engines.model.asked.clear()
    job = await engine.add(make_file("tea.txt", "Darjeeling tea", source_path="/tea"))
    await wait_for(engines.model.asked.is_set)
    assert await find_texts(engine, "tea") == await find_texts(engine, "tea", SearchMode.VECTOR) == ["Assam tea"]
    assert (await engine.document(document.id)).status is DocumentStatus.COMPLETED
    assert (await engine.status()).documents == 1
    engines.model.gate.open()
    assert (await wait_until_done(engine, job)).document_id == document.id
    assert await find_texts(engine, "tea") == await find_texts(engine, "tea", SearchMode.VECTOR) == ["Darjeeling tea"]


async def test_a_new_version_replaces_a_document_that_is_still_processing(engine: Engine, engines: Engines) -> None:
    first = await engine.add(make_file("tea.txt", "Assam tea", source_path="/tea"))
    document = await wait_until_found(engine, "assam")
    second = await engine.add(make_file("tea.txt", "Darjeeling tea", source_path="/tea"))
    await asyncio.sleep(0.05)
    assert await find_texts(engine, "tea") == ["Assam tea"]
    engines.model.gate.open()
    assert (await wait_until_done(engine, second)).document_id == document.id
    assert (await wait_until_done(engine, first)).document_id == document.id
    assert await find_texts(engine, "tea") == await find_texts(engine, "tea", SearchMode.VECTOR) == ["Darjeeling tea"]
    assert (await engine.document(document.id)).status is DocumentStatus.COMPLETED
    assert (await engine.documents(DocumentFilter())).total == 1
    assert await engine.verify() == []


async def test_a_note_can_be_updated_while_it_is_processing(engine: Engine, engines: Engines) -> None:
    job = await engine.add(NewNote(text="Assam tea"))
    note = await wait_until_found(engine, "assam")
    updating = asyncio.create_task(engine.update_note(note.id, "Darjeeling tea"))
    await asyncio.sleep(0.05)
    engines.model.gate.open()
    updated = await updating
    assert updated.id == note.id and updated.status is DocumentStatus.COMPLETED
    await wait_until_done(engine, job)
    assert await find_texts(engine, "tea") == ["Darjeeling tea"]
    assert await engine.verify() == []


async def test_removing_a_processing_document_ends_its_job(engine: Engine, engines: Engines) -> None:
    job = await engine.add(make_file("tea.txt", "Assam tea"))
    document = await wait_until_found(engine, "assam")
    removed = await engine.remove(document.id)
    assert (removed.documents, removed.chunks) == (1, 1)
    assert await find_texts(engine, "assam") == []
    ended = await engine.wait(job.id, WAIT_SECONDS)
    assert ended.status is JobStatus.CANCELLED
    engines.model.gate.open()
    again = await add_file(engine, "tea.txt", "Assam tea")
    assert again.id != document.id
    await engine.remove(again.id)
    await require_nothing_left(engine, job, JobStatus.CANCELLED)


async def test_clearing_removes_processing_documents(engine: Engine, engines: Engines) -> None:
    job = await engine.add(make_file("tea.txt", "Assam tea"))
    await wait_until_found(engine, "assam")
    await engine.clear()
    assert (await engine.wait(job.id, WAIT_SECONDS)).status is JobStatus.CANCELLED
    engines.model.gate.open()
    await require_nothing_left(engine, job, JobStatus.CANCELLED)


async def test_a_document_that_is_moved_while_processing_stays_in_its_new_collection(
    engine: Engine, engines: Engines
) -> None:
    for title in ("old", "new"):
        await engine.create_collection(NewCollection(title=title))
    job = await engine.add(make_file("tea.txt", "Assam tea", collection="old"))
    document = await wait_until_found(engine, "assam")
    await engine.edit(document.id, DocumentEdit(collection="new", add_tags=("moved",)))
    await engine.remove_collection("old")
    engines.model.gate.open()
    await wait_until_done(engine, job)
    moved = await engine.document(document.id)
    assert (moved.collection, moved.status, moved.tags) == ("new", DocumentStatus.COMPLETED, ("moved",))
    assert len(await find_texts(engine, "assam", SearchMode.VECTOR)) == 1
    assert await engine.verify() == []


async def test_removing_a_collection_removes_what_is_processing_in_it(engine: Engine, engines: Engines) -> None:
    await engine.create_collection(NewCollection(title="old"))
    job = await engine.add(make_file("tea.txt", "Assam tea", collection="old"))
    await wait_until_found(engine, "assam")
    await engine.remove_collection("old")  # the worker, which waits for its model, loses the job
    engines.model.gate.open()
    assert await find_texts(engine, "assam") == []
    await require_nothing_left(engine, job, JobStatus.CANCELLED)


async def test_a_document_that_is_renamed_while_processing_is_embedded_with_its_new_title(
    engine: Engine, engines: Engines
) -> None:
    job = await engine.add(make_file("tea.txt", "Assam leaves"))
    document = await wait_until_found(engine, "assam")
    await engine.edit(document.id, DocumentEdit(title="Breakfast"))
    assert len(await find_texts(engine, "breakfast")) == 1
    engines.model.gate.open()
    await wait_until_done(engine, job)
    for other in (await engine.jobs(JobFilter(kind=JobKind.EMBED))).items:
        await wait_until_done(engine, other)
    assert (await engine.document(document.id)).title == "Breakfast"
    assert len(await find_texts(engine, "breakfast")) == 1
    select_vectors = text(
        "SELECT data FROM vectors JOIN chunks ON chunks.id = vectors.chunk_id"
        " JOIN documents ON documents.content_id = chunks.content_id"
    )
    with engines._opened[-1]._parts.database.read() as connection:
        ((stored,),) = connection.execute(select_vectors).all()
    expected = BagOfWordsEmbedder().embed([build_embedding_text("Breakfast", (), "Assam leaves")])[0]
    assert np.frombuffer(stored, np.float16).astype(np.float32) @ expected > 0.99
    assert await engine.verify() == []


async def test_a_vector_is_never_reused_for_another_title(gated: LocalEngine, engines: Engines) -> None:
    """The digest by which vectors are reused belongs to the text that was embedded, even after a rename."""
    job = await gated.add(make_file("tea.txt", "Assam leaves"))
    document = await wait_until_found(gated, "assam")
    parts = gated._parts
    parts.documents.edit(document.id, DocumentEdit(title="Breakfast"), Scope(), parts.options.quota)
    release_claim_of(gated, job)
    engines.model.gate.open()
    await wait_until_done(gated, job)
    digests = [digest_text(build_embedding_text(title, (), "Assam leaves")) for title in ("tea", "Breakfast")]
    stored = parts.stored_models.get_active()
    assert stored is not None
    known = parts.chunks.find_known_vectors(stored.id, digests)
    assert set(known) == {digests[1]} and await gated.verify() == []


async def test_the_model_can_be_changed_while_a_document_is_processing(gated: LocalEngine, engines: Engines) -> None:
    job = await gated.add(make_file("tea.txt", "Assam tea"))
    document = await wait_until_found(gated, "assam")
    engines.models["next"].gate.open()
    await gated.reindex("next")
    async with asyncio.timeout(WAIT_SECONDS):
        while (await gated.status()).model.next is not None:
            await asyncio.sleep(0.01)
    assert (await gated.document(document.id)).status is DocumentStatus.PROCESSING
    assert len(await find_texts(gated, "assam")) == 1
    engines.model.gate.open()
    await wait_until_done(gated, job)
    async with asyncio.timeout(WAIT_SECONDS):
        while not await find_texts(gated, "assam", SearchMode.VECTOR):
            await asyncio.sleep(0.01)
    assert await gated.verify() == []


async def test_two_adds_of_the_same_bytes_leave_one_document(engine: Engine, engines: Engines) -> None:
    first = await engine.add(make_file("one.txt", "Assam tea"))
    await wait_until_found(engine, "assam")
    second = await engine.add(make_file("two.txt", "Assam tea"))
    async with asyncio.timeout(WAIT_SECONDS):
        while (await engine.job(second.id)).document_id is None:
            await asyncio.sleep(0.005)
    engines.model.gate.open()
    ended = [await wait_until_done(engine, job) for job in (first, second)]
    assert len({job.document_id for job in ended}) == 1
    assert (await engine.documents(DocumentFilter())).total == 1
    assert await find_texts(engine, "assam") == ["Assam tea"]
    assert await engine.verify() == []


async def test_the_second_of_two_adds_of_the_same_bytes_stays_if_the_first_is_cancelled(
    engine: Engine, engines: Engines
) -> None:
    first = await engine.add(make_file("one.txt", "Assam tea"))
    await wait_until_found(engine, "assam")
    second = await engine.add(make_file("two.txt", "Assam tea"))
    async with asyncio.timeout(WAIT_SECONDS):
        while (document := (await engine.job(second.id)).document_id) is None:
            await asyncio.sleep(0.005)
    await engine.cancel(first.id)  # the worker, which waits for its model, loses the job
    engines.model.gate.open()
    assert (await wait_until_done(engine, second)).document_id == document
    assert [each.id for each in (await engine.documents(DocumentFilter())).items] == [document]
    assert await engine.verify() == []


# -- restarts -------------------------------------------------------------------------------------


async def test_a_processing_document_survives_a_restart(engines: Engines) -> None:
    engine = engines.open()
    engines.model.gate.let_pass(1)
    job = await engine.add(make_file("manual.txt", MANY_PARAGRAPHS))
    document = await wait_until_found(engine, "biscuits")
    await wait_for(lambda: bool(engines.model.embedded))
    closing = asyncio.create_task(asyncio.to_thread(engine.close))
    await asyncio.sleep(0.05)
    engines.model.gate.let_pass(1)
    engines.model.gate.open()
    await closing
    engines._opened.clear()
    engines.model.gate.close()
    before = len(engines.model.embedded)
    engine = engines.open()
    assert (await wait_until_found(engine, "biscuits")).status is DocumentStatus.PROCESSING
    assert await engine.verify() == []
    engines.model.gate.open()
    ended = await wait_until_done(engine, job)
    assert ended.document_id == document.id
    assert before >= 64 and len(engines.model.embedded) <= ended.chunk_count + 64, "vectors were made again"
    assert await engine.verify() == []


async def test_accounts_see_their_own_processing_documents_like_any_other(gated: LocalEngine) -> None:
    await gated.add(make_file("tea.txt", "Assam tea"))
    await wait_until_found(gated, "assam")
    stranger = gated.as_caller(Caller(owner=7))
    assert await find_texts(stranger, "assam") == []
    assert (await stranger.documents(DocumentFilter())).total == 0
