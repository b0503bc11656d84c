"""Documents that are found by words and not embedded yet: cancelling them, quotas, and crashes of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from knowledge.config import Settings
from knowledge.embed.loading import ModelLoader
from knowledge.engine import runtime
from knowledge.engine.ingest.pipeline import Handover
from knowledge.engine.jobs import workers
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.local import LocalEngine
from knowledge.errors import Cancelled, QuotaExceeded
from knowledge.model import DocumentFilter, DocumentStatus, Job, JobStatus, NewNote, SearchMode
from knowledge.model.jobs import JobPhase
from knowledge.store.jobs import recovery as job_recovery
from knowledge.store.jobs.rows import MAX_UNCLEAN_STARTS, MAX_UNCLEAN_STARTS_ALONE
from knowledge.testing import PreloadedModel, SharedParsers, make_test_engine
from tests.support.accounts import register
from tests.support.engines import WAIT_SECONDS, add_file, make_file, wait_until_done
from tests.support.gated_models import Engines, find_texts, wait_for, wait_until_found
from tests.support.hostile_models import DEADLY_WORD, HostileModel


@pytest.fixture
def engines(settings: Settings, parsers: SharedParsers) -> Iterator[Engines]:
    made = Engines(settings, parsers)
    yield made
    made.close()


@pytest.fixture
def gated(engines: Engines) -> LocalEngine:
    return engines.open()


# -- cancelling -------------------------------------------------------------------------------------


async def require_cancelled_completely(engine: LocalEngine, engines: Engines, job: Job) -> None:
    """Let the model go on and check that the worker of a cancelled job brings nothing back."""
    engines.model.gate.open()
    other = await engine.add(make_file("other.txt", "Another text"))
    await wait_until_done(engine, other)
    await wait_for(lambda: not engine._parts.progress.is_cancelled(job.id))
    assert (await engine.job(job.id)).status is JobStatus.CANCELLED
    assert await engine.verify() == []


async def test_a_job_is_cancelled_although_its_model_does_not_return(gated: LocalEngine, engines: Engines) -> None:
    job = await gated.add(make_file("tea.txt", "Assam tea"))
    await wait_until_found(gated, "assam")
    await wait_for(engines.model.asked.is_set)
    ended = await gated.cancel(job.id)
    assert (ended.status, ended.document_id, ended.chunk_count) == (JobStatus.CANCELLED, None, 0)
    assert await find_texts(gated, "assam") == [] and (await gated.documents(DocumentFilter())).total == 0
    await require_cancelled_completely(gated, engines, job)
    assert await find_texts(gated, "assam") == []


async def test_a_new_version_is_cancelled_although_its_model_does_not_return(
    gated: LocalEngine, engines: Engines
) -> None:
    engines.model.gate.open()
    await add_file(gated, "tea.txt", "Assam tea", source_path="/tea")
    engines.model.gate.close()
    engines.model.asked.clear()
    job = await gated.add(make_file("tea.txt", "Darjeeling tea", source_path="/tea"))
    await wait_for(engines.model.asked.is_set)
    assert (await gated.cancel(job.id)).status is JobStatus.CANCELLED
    await require_cancelled_completely(gated, engines, job)
    for mode in (SearchMode.TEXT, SearchMode.VECTOR):
        assert "Assam tea" in await find_texts(gated, "tea", mode)
        assert "Darjeeling tea" not in await find_texts(gated, "tea", mode)


async def test_a_cancel_is_not_lost_when_the_child_of_the_job_dies(gated: LocalEngine, engines: Engines) -> None:
    job = await gated.add(make_file("tea.txt", "Assam tea"))
    await wait_until_found(gated, "assam")
    await wait_for(engines.model.asked.is_set)
    cancelling = asyncio.create_task(gated.cancel(job.id))
    await wait_for(lambda: gated._parts.progress.is_cancelled(job.id))
    engines.model.crashes = True
    engines.model.gate.open()
    assert (await cancelling).status is JobStatus.CANCELLED
    engines.model.crashes = False
    await require_cancelled_completely(gated, engines, job)


class LoadingModel(PreloadedModel):
    """A model that is still being loaded."""

    def __init__(self, engines: Engines) -> None:
        super().__init__(engines.model, engines.settings.data)
        self._loaded, self.embedder = self.embedder, None

    def start(self) -> None:
        """Load nothing."""

    def finish(self) -> None:
        self.embedder = self._loaded
        self._settled.set()


async def test_a_job_is_cancelled_while_the_model_is_loading(
    engines: Engines, settings: Settings, parsers: SharedParsers
) -> None:
    engines.model.gate.open()
    model = LoadingModel(engines)
    engine = make_test_engine(settings.model_copy(update={"workers": 1}), parsers=parsers, model=model)
    engine.start()
    try:
        with pytest.raises(Cancelled):
            await asyncio.to_thread(engine._parts.ingest.load_vector_model, lambda: True)
        job = await engine.add(make_file("tea.txt", "Assam tea"))
        await wait_until_found(engine, "assam")
        assert (await engine.cancel(job.id)).status is JobStatus.CANCELLED
        second = await engine.add(make_file("milk.txt", "Cold milk"))
        await wait_until_found(engine, "milk")  # the only worker does not wait for the model of the cancelled job
        model.finish()
        assert (await wait_until_done(engine, second)).status is JobStatus.COMPLETED
    finally:
        model.finish()
        await asyncio.to_thread(engine.close)


async def test_no_change_of_a_job_is_missed_by_a_caller_that_waits() -> None:
    """Each change is reported between two reads of the job: the wait after the read that missed it returns at once."""
    tracker, seen = ProgressTracker(), 0
    with tracker.watch(1) as watch:
        for number in range(200):
            await asyncio.to_thread(tracker.report, 1, "Reading", number, 200, JobPhase.READ)
            assert await watch.wait_for_change(WAIT_SECONDS)
            seen += 1
            tracker.end(1)
            assert await watch.wait_for_change(WAIT_SECONDS)
    assert seen == 200


# -- quotas -----------------------------------------------------------------------------------------


async def test_a_processing_document_counts_once_in_the_quota(
    engines: Engines, settings: Settings, parsers: SharedParsers
) -> None:
    engines.settings = settings.model_copy(update={"account_max_documents": 2})
    ada = await register(engines.open(), "ada")
    first = await ada.add(make_file("tea.txt", "Assam tea"))
    await wait_until_found(ada, "assam")
    second = await ada.add(make_file("milk.txt", "Cold milk"))
    await wait_until_found(ada, "milk")
    assert (await ada.status()).documents == 0
    with pytest.raises(QuotaExceeded):
        await ada.add(NewNote(text="One too many"))
    await ada.cancel(first.id)
    third = await ada.add(NewNote(text="In place of the cancelled one"))
    await wait_until_found(ada, "cancelled")
    with pytest.raises(QuotaExceeded):
        await ada.add(NewNote(text="One too many"))
    engines.model.gate.open()
    for job in (second, third):
        await wait_until_done(ada, job)
    assert (await ada.status()).documents == 2
    with pytest.raises(QuotaExceeded):
        await ada.add(NewNote(text="One too many"))


# -- jobs that crash the server ---------------------------------------------------------------------


async def publish_by_words(engine: LocalEngine, text: str) -> Job:
    """Do what workers do until the document is found by words, in an engine that is not started."""
    parts = engine._parts
    parts.models.start()
    job = await engine.add(make_file("poison.txt", text))
    claim = parts.jobs.claim(most_urgent_only=False)
    assert claim is not None
    leave_embedding = Handover(release=lambda priority, is_running: True)
    assert parts.ingest.run(claim, lambda *_: None, lambda: False, leave_embedding) is None
    parts.indexer.catch_up()
    return job


def crash_while_embedding(engine: LocalEngine, times: int) -> job_recovery.Recovery:
    """Simulate in the store that a server embeds the document and is killed, and the recovery at the next start."""
    store, recovery = engine._parts.jobs, job_recovery.Recovery(0, (), ())
    for _ in range(times):
        claim = store.claim_without_vectors() or store.claim(most_urgent_only=False) or store.claim_alone()
        assert claim is not None and claim.document_id is not None
        recovery = job_recovery.recover_jobs(engine._parts.database)
    return recovery


@pytest.fixture
def stopped(settings: Settings, parsers: SharedParsers) -> Iterator[LocalEngine]:
    """An engine whose workers are not started, with a model that kills the process that embeds one word."""
    engine = make_test_engine(settings, parsers=parsers, model=make_deadly_model(settings))
    yield engine
    if not engine.is_closed:
        engine.close()


def make_deadly_model(settings: Settings) -> ModelLoader:
    return HostileModel("end", settings.data)


async def test_a_document_stays_found_by_words_while_its_job_crashes_the_server(stopped: LocalEngine) -> None:
    job = await publish_by_words(stopped, f"{DEADLY_WORD} in it")
    for crashes in range(1, MAX_UNCLEAN_STARTS + MAX_UNCLEAN_STARTS_ALONE):
        assert crash_while_embedding(stopped, 1).failed == ()
        (document,) = (await stopped.documents(DocumentFilter())).items
        assert document.status is DocumentStatus.PROCESSING, f"after {crashes} crashes"
        assert len(await find_texts(stopped, DEADLY_WORD)) == 1
    assert (await stopped.job(job.id)).document_id == document.id


async def test_a_job_that_always_crashes_the_server_loses_its_document_when_it_is_failed(
    stopped: LocalEngine,
) -> None:
    job = await publish_by_words(stopped, f"{DEADLY_WORD} in it")
    recovery = crash_while_embedding(stopped, MAX_UNCLEAN_STARTS + MAX_UNCLEAN_STARTS_ALONE)
    assert [named.id for named in recovery.failed] == [job.id]
    stopped._parts.indexer.catch_up()
    failed = await stopped.job(job.id)
    assert (failed.status, failed.document_id) == (JobStatus.FAILED, None)
    assert failed.error is not None and failed.error.code == "job_crashed"
    assert await find_texts(stopped, DEADLY_WORD) == []
    assert (await stopped.documents(DocumentFilter())).total == 0 and await stopped.verify() == []


async def test_a_quarantined_job_embeds_its_document_in_a_child_and_takes_it_along_when_that_dies(
    stopped: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await publish_by_words(stopped, f"{DEADLY_WORD} in it")
    crash_while_embedding(stopped, MAX_UNCLEAN_STARTS)
    assert len(await find_texts(stopped, DEADLY_WORD)) == 1
    monkeypatch.setattr(runtime, "ALONE_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(workers, "OUTSIDE_KILL_SECONDS", 0.0)
    stopped.start()
    ended = await stopped.wait(job.id, WAIT_SECONDS)
    assert ended.status is JobStatus.FAILED and ended.error is not None and ended.error.code == "job_crashed"
    await wait_for(lambda: not stopped._parts.indexer.changes_behind)
    assert await find_texts(stopped, DEADLY_WORD) == []
    assert (await stopped.documents(DocumentFilter())).total == 0
    other = await stopped.add(NewNote(text="The server lives on"))
    assert (await wait_until_done(stopped, other)).status is JobStatus.COMPLETED
    assert await stopped.verify() == []
