"""Watching: events of jobs, documents and collections, in process and over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from uuid import uuid4

import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.events import broadcaster, watch
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.engine.remote.http import open_http_client
from knowledge.errors import Unauthenticated
from knowledge.model import (
    Caller,
    CallerKind,
    CollectionEdit,
    DocumentEdit,
    Job,
    JobStatus,
    NewCollection,
    NewCorpus,
    NewNote,
    Permission,
)
from knowledge.model.crawls import NewCrawl
from knowledge.model.events import ChangeKind, CollectionChange, DocumentChange, Event, EventKind, Hello
from knowledge.model.jobs import JobPhase
from knowledge.store.events import StoredEvent
from tests.support.command_line import serve_engine
from tests.support.engines import add_note, make_file, wait_until_done
from tests.support.watching import WATCH_SECONDS, EventReader, watching

CLOCK_SECONDS = 0.02
"""Precision of waiting."""
PASSWORD = "a long and unusual password"


@pytest.fixture(params=["local", "remote"])
async def engine(request: pytest.FixtureRequest, local: LocalEngine, settings: Settings) -> AsyncIterator[Engine]:
    """The engine in this process, and over a real HTTP connection, because others do not stream."""
    if request.param == "local":
        yield local.as_caller(Caller())
        return
    with serve_engine(local.as_caller(Caller()), settings) as url:
        async with open_http_client(url) as http:
            yield RemoteEngine(http)


def is_ended(event: Event, job_id: int) -> bool:
    return isinstance(event.data, Job) and event.data.id == job_id and event.data.status.has_ended


async def read_document_change(reader: EventReader) -> DocumentChange:
    event = await reader.read_kind(EventKind.DOCUMENT)
    assert isinstance(event.data, DocumentChange)
    return event.data


async def test_the_first_event_has_the_unfinished_jobs(engine: Engine) -> None:
    await add_note(engine, "the kettle boils")
    async with watching(engine) as reader:
        hello = await reader.read()
    assert hello.kind is EventKind.HELLO and isinstance(hello.data, Hello)
    assert hello.data.jobs == () and hello.data.seq == hello.seq and hello.data.unfinished == 0


async def test_an_added_document_is_told_and_its_job_until_it_has_ended(engine: Engine) -> None:
    async with watching(engine) as reader:
        await reader.read()
        job = await engine.add(make_file("tea.txt", "the kettle boils water"))
        ended = await reader.read_until(lambda event: is_ended(event, job.id))
        assert isinstance(ended.data, Job) and ended.data == await engine.job(job.id)
        changes = [event.data for event in reader.seen if event.kind is EventKind.DOCUMENT]
        assert isinstance(changes[0], DocumentChange)
        assert (changes[0].id, changes[0].change) == (ended.data.document_id, ChangeKind.ADDED)
        assert changes[0].collection == "documents" and changes[0].uid == ended.data.document_uid
        numbers = [event.seq for event in reader.seen if event.seq is not None]
        assert numbers == sorted(set(numbers))


async def test_edits_moves_and_removals_are_told(engine: Engine) -> None:
    document = await add_note(engine, "the kettle boils")
    async with watching(engine) as reader:
        await reader.read()
        await engine.edit(document.id, DocumentEdit(add_tags=("tea",)))
        assert (await read_document_change(reader)).change is ChangeKind.CHANGED
        await engine.create_collection(NewCollection(name="brewing", title="Brewing"))
        await engine.edit(document.id, DocumentEdit(collection="brewing"))
        moved = [await read_document_change(reader), await read_document_change(reader)]
        assert [(each.change, each.collection) for each in moved] == [
            (ChangeKind.REMOVED, "documents"),
            (ChangeKind.ADDED, "brewing"),
        ]
        await engine.remove(document.id)
        removed = await read_document_change(reader)
        assert removed == DocumentChange(document.id, document.uid, ChangeKind.REMOVED, "brewing")


async def test_collections_are_told(engine: Engine) -> None:
    async with watching(engine) as reader:
        await reader.read()
        made = await engine.create_collection(NewCollection(name="brewing", title="Brewing"))
        await engine.edit_collection("brewing", CollectionEdit(title="Brewing at home"))
        await engine.remove_collection("brewing")
        events = [(await reader.read_kind(EventKind.COLLECTION)).data for _ in range(3)]
    assert all(isinstance(each, CollectionChange) and (each.id, each.uid) == (made.id, made.uid) for each in events)
    assert [each.change for each in events if isinstance(each, CollectionChange)] == [*ChangeKind]


async def test_a_collection_that_is_made_by_moving_a_document_is_told(engine: Engine) -> None:
    document = await add_note(engine, "the kettle boils")
    async with watching(engine) as reader:
        await reader.read()
        await engine.edit(document.id, DocumentEdit(collection="brewing"))
        made = (await reader.read_kind(EventKind.COLLECTION)).data
        assert isinstance(made, CollectionChange) and (made.name, made.change) == ("brewing", ChangeKind.ADDED)
    await engine.remove_collection("brewing")


async def test_a_failed_job_is_told_with_its_reason(engine: Engine) -> None:
    async with watching(engine) as reader:
        await reader.read()
        job = await engine.add(make_file("empty.txt", "   "))
        ended = await reader.read_until(lambda event: is_ended(event, job.id))
        assert isinstance(ended.data, Job) and ended.data.status is JobStatus.FAILED and ended.data.error


async def test_a_cancelled_and_a_retried_job_are_told(local: LocalEngine) -> None:
    engine = local.as_caller(Caller())
    local._parts.workers.close()  # jobs stay queued
    async with watching(engine) as reader:
        await reader.read()
        job = await engine.add(make_file("tea.txt", "the kettle boils"))
        await engine.cancel(job.id)
        cancelled = await reader.read_until(lambda event: is_ended(event, job.id))
        assert isinstance(cancelled.data, Job) and cancelled.data.status is JobStatus.CANCELLED
        crawl = await engine.crawl(NewCrawl(url="http://nowhere.invalid/"))
        await reader.read_until(lambda event: is_ended(event, crawl.id))
        await engine.retry(crawl.id)
        again = await reader.read_until(lambda event: isinstance(event.data, Job) and not is_ended(event, crawl.id))
        assert isinstance(again.data, Job) and again.data.id == crawl.id and again.data.error is None


def is_told(reader: EventReader, job_id: int, removed_id: int) -> bool:
    """Return whether the end of a job and the removal of a document were read."""
    removals = {
        event.data.id
        for event in reader.seen
        if isinstance(event.data, DocumentChange) and event.data.change is ChangeKind.REMOVED
    }
    return removed_id in removals and any(is_ended(event, job_id) for event in reader.seen)


async def test_what_was_missed_is_sent_again_after_a_lost_connection(engine: Engine) -> None:
    async with watching(engine) as reader:
        hello = await reader.read()
    first, second = await add_note(engine, "the kettle boils"), await add_note(engine, "a boat on the lake")
    await engine.remove(first.id)
    job = await engine.add(make_file("empty.txt", "  "))
    await engine.wait(job.id, 30)
    async with watching(engine, hello.seq) as reader:
        # The end of a job is told at once, a removal when the index has applied it, so their order is open.
        await reader.read_until(lambda _: is_told(reader, job.id, first.id))
        kinds = [event.kind for event in reader.seen]
        changes = [event.data for event in reader.seen if isinstance(event.data, DocumentChange)]
    assert kinds[0] is EventKind.HELLO and EventKind.RESET not in kinds
    assert reader.seen[0].seq is None, "a connection that is lost during the replay must not skip it"
    assert [(each.id, each.change) for each in changes if each.change is not ChangeKind.CHANGED] == [
        (first.id, ChangeKind.ADDED),
        (second.id, ChangeKind.ADDED),
        (first.id, ChangeKind.REMOVED),
    ]


@pytest.mark.parametrize("after", [10_000_000, 1])
async def test_a_position_that_is_not_in_the_log_is_reset(
    local: LocalEngine, engine: Engine, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await add_note(engine, f"note {number}")
    local._parts.events.trim(kept=1)
    async with watching(engine, after) as reader:
        events = [await reader.read(), await reader.read()]
    assert [event.kind for event in events] == [EventKind.HELLO, EventKind.RESET]
    async with watching(engine, events[1].seq) as reader:
        assert (await reader.read()).seq == events[1].seq
    monkeypatch.setattr(watch, "MAX_REPLAYED_EVENTS", 0)
    await add_note(engine, "one more")
    async with watching(engine, events[1].seq) as reader:
        assert [(await reader.read()).kind, (await reader.read()).kind] == [EventKind.HELLO, EventKind.RESET]


async def test_a_slow_reader_is_reset_and_goes_on(local: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster, "MAX_PENDING", 3)
    engine = local.as_caller(Caller())
    async with watching(engine) as reader:
        await reader.read()
        for number in range(5):
            await add_note(engine, f"note {number}")
        reset = await reader.read_kind(EventKind.RESET)
        monkeypatch.undo()
        document = await add_note(engine, "after the reset")
        found = await reader.read_until(
            lambda event: isinstance(event.data, DocumentChange) and event.data.id == document.id
        )
    assert reset.seq is not None and found.seq is not None and found.seq > reset.seq


async def test_a_heartbeat_carries_the_position(local: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "JUDGE_SECONDS", 0.01)
    async with watching(local.as_caller(Caller())) as reader:
        hello = await reader.read()
        assert (await reader.read_kind(EventKind.HEARTBEAT)).seq == hello.seq


# -- who sees what --------------------------------------------------------------------------------


async def make_account(local: LocalEngine, name: str) -> Engine:
    await local.accounts.add(name, PASSWORD)
    issued = await local.accounts.issue_key(name, "laptop")
    found = await local.accounts.find_by_key(issued.secret)
    assert found is not None
    return local.as_caller(found)


async def test_events_of_others_are_not_seen(local: LocalEngine) -> None:
    ada, bob = await make_account(local, "ada"), await make_account(local, "bob")
    async with watching(bob) as reader:
        await reader.read()
        await add_note(ada, "the secret of ada")
        await ada.create_collection(NewCollection(name="hidden", title="Hidden"))
        mine = await add_note(bob, "the note of bob")
        await reader.read_until(lambda event: is_ended(event, 0) or isinstance(event.data, DocumentChange))
        seen = [event.data for event in reader.seen[1:]]
    owners = {each.owner for each in seen if isinstance(each, Job)}
    documents = {each.id for each in seen if isinstance(each, DocumentChange)}
    assert documents == {mine.id} and owners <= {mine.owner}
    assert {each.name for each in seen if isinstance(each, CollectionChange)} <= {"documents"}


async def test_a_grant_shows_and_its_end_hides_events_at_once(local: LocalEngine) -> None:
    ada, bob = await make_account(local, "ada"), await make_account(local, "bob")
    corpus = await ada.corpora.create(NewCorpus(title="Tea", category="general", name="tea", uid=uuid4()))
    await ada.corpora.grant(corpus.id, "bob", Permission.READ)
    async with watching(bob) as reader:
        await reader.read()
        shown = await add_note(ada, "seen by bob", collection="tea")
        assert (await read_document_change(reader)).id == shown.id
        await ada.corpora.revoke_grant(corpus.id, "bob")
        hidden = await add_note(ada, "not seen by bob", collection="tea")
        await reader.read_kind(EventKind.RESET)
        own = await add_note(bob, "the note of bob")
        await reader.read_until(lambda event: isinstance(event.data, DocumentChange) and event.data.id == own.id)
        told = {event.data.id for event in reader.seen if isinstance(event.data, DocumentChange)}
    assert hidden.id not in told


@pytest.mark.parametrize("how", ["key", "account"])
async def test_a_watch_ends_when_the_key_or_the_account_does(
    local: LocalEngine, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "JUDGE_SECONDS", 0.05)
    ada = await make_account(local, "ada")
    async with watching(ada) as reader:
        await reader.read()
        if how == "key":
            [key] = await ada.accounts.list_keys()
            await ada.accounts.revoke_key(key.id)
        else:
            await local.accounts.disable("ada")
        with pytest.raises(Unauthenticated):
            await reader.read_to_end()


async def test_a_wrong_key_cannot_watch(local: LocalEngine) -> None:
    with pytest.raises(Unauthenticated):
        await local.as_caller(Caller(CallerKind.ACCOUNT, 1, "ada", "kb_wrong")).watch()


async def test_a_watch_that_was_never_begun_is_forgotten(local: LocalEngine) -> None:
    engine = local.as_caller(Caller())
    events = await engine.watch()
    assert len(local._parts.broadcaster._subscriptions) == 1
    del events
    async with asyncio.timeout(WATCH_SECONDS):
        while len(local._parts.broadcaster._subscriptions):  # the thread may be passing something on to it
            await asyncio.sleep(0.01)


async def test_reports_of_a_job_are_joined_and_the_last_one_is_told(local: LocalEngine) -> None:
    engine = local.as_caller(Caller())
    job = await wait_until_done(engine, await engine.add(NewNote(text="the kettle boils")))
    async with watching(engine) as reader:
        await reader.read()
        job = await engine.add(make_file("tea.md", "\n\n".join(f"# Part {n}\n\ntea {n}" for n in range(300))))
        await reader.read_until(lambda event: is_ended(event, job.id))
        told = [event.data for event in reader.seen if isinstance(event.data, Job) and event.data.id == job.id]
    assert sum(each.status.has_ended for each in told) == 1
    assert len(told) == len(set(map(repr, told))), "no state is told twice"


class OfferTimes(broadcaster.Subscription):
    """A subscription that notes when it was told of a job."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self.progress: list[float] = []

    def offer(self, events: Sequence[StoredEvent], jobs: Sequence[Job], *, closed: bool = False) -> None:
        self.times += [time.monotonic()] if jobs else []
        self.progress += [job.progress for job in jobs]
        super().offer(events, jobs, closed=closed)


async def test_a_job_is_told_at_most_four_times_a_second_and_in_its_last_state(local: LocalEngine) -> None:
    parts = local._parts
    parts.workers.close()  # the test reports in place of a worker
    job = await local.add(make_file("tea.txt", "the kettle boils"))
    claim = parts.jobs.claim(most_urgent_only=False)
    assert claim is not None and claim.id == job.id
    told = OfferTimes()
    await asyncio.to_thread(parts.broadcaster.subscribe, told)
    parts.progress.begin(job.id)
    last, done = JobPhase.EMBED.compute_progress(1, 1), 0
    async with asyncio.timeout(WATCH_SECONDS):
        while len(told.times) < 4:
            done += 1
            parts.progress.report(job.id, "Embedding", done, done + 1000, JobPhase.EMBED)
            await asyncio.sleep(0.001)
        parts.progress.report(job.id, "Embedding", 1, 1, JobPhase.EMBED)
        while told.progress[-1] != last:
            await asyncio.sleep(0.001)
    assert done > 2 * len(told.times), "reports were joined"
    gaps = [after - before for before, after in pairwise(told.times)]
    assert min(gaps) >= broadcaster.MIN_INTERVAL_SECONDS - CLOCK_SECONDS and told.progress == sorted(told.progress)
