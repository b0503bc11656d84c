"""What the web page uses, on two servers of one database: sessions, events, pages, suggestions and retries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import delete, select, update

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.cluster import member
from knowledge.engine.events import broadcaster, watch
from knowledge.engine.local import LocalEngine
from knowledge.errors import DocumentNotFound, SessionEnded
from knowledge.extract.process.parsers import Parsers
from knowledge.model import (
    Caller,
    Content,
    Document,
    DocumentFilter,
    FacetName,
    FacetValue,
    Job,
    JobFilter,
    JobKind,
    JobStatus,
    NewCollection,
    NewFile,
    Query,
    now,
)
from knowledge.model.agents import Agent, AgentSighting, NewRefusal, RefusalReason
from knowledge.model.events import ChangeKind, CollectionChange, DocumentChange, Event, EventKind, Hello
from knowledge.model.jobs import JobPhase
from knowledge.store import schema
from knowledge.store.jobs.job_leases import JobLeases, StoredProgress
from knowledge.store.row_mapping import make_timestamp
from knowledge.surfaces.http.app import make_http_app
from knowledge.testing import SharedParsers
from tests.cluster.conftest import OpenMember
from tests.cluster.test_members import wait_until, wait_until_ready
from tests.contracts.app_server import serve_app
from tests.data.extract import documents
from tests.support import pdfs
from tests.support.accounts import PASSWORD
from tests.support.engines import WAIT_SECONDS, add_file, add_note, make_file, wait_until_done
from tests.support.watching import EventReader, watching

COOKIE = "knowledge_session"
BROWSER = "Browser 1.0"
J = schema.jobs.c


async def open_two(open_member: OpenMember, **given: object) -> tuple[LocalEngine, LocalEngine]:
    first, second = open_member("first", **given), open_member("second", **given)
    await wait_until_ready(first, second)
    return first, second


def act(engine: LocalEngine) -> Engine:
    """Return the engine of the local owner."""
    return engine.as_caller(Caller())


def is_ended(event: Event, job_id: int) -> bool:
    return isinstance(event.data, Job) and event.data.id == job_id and event.data.status.has_ended


# -- sessions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["logout", "revocation", "password", "disabled", "deleted"])
async def test_a_session_opened_on_one_server_is_valid_on_the_other_and_refused_at_once_when_it_has_ended(
    open_member: OpenMember, how: str
) -> None:
    first, second = open_member("first"), open_member("second")
    await first.accounts.register("ada", PASSWORD)
    issued = await first.sessions.open_by_password("ada", PASSWORD, False, BROWSER)
    found = await second.sessions.find(issued.token)
    assert found is not None and found.caller.name == "ada"
    here, there = first.as_caller(issued.caller), second.as_caller(found.caller)
    assert (await there.accounts.me()).username == "ada"
    match how:
        case "logout":
            await first.sessions.end(issued.token)
        case "revocation":
            await here.sessions.revoke((await there.sessions.list_own())[0].id)
        case "password":
            await here.accounts.change_password(PASSWORD, "another good horse")
        case "disabled":
            await first.accounts.disable("ada")
        case "deleted":
            await here.accounts.delete_me(PASSWORD)
    with pytest.raises(SessionEnded):
        await there.documents(DocumentFilter())
    assert await second.sessions.find(issued.token) is None


async def test_a_stream_ends_when_its_session_is_ended_on_another_server(
    open_member: OpenMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "JUDGE_SECONDS", 0.05)
    first, second = await open_two(open_member)
    await first.accounts.register("ada", PASSWORD)
    issued = await first.sessions.open_by_password("ada", PASSWORD, False, BROWSER)
    async with watching(second.as_caller(issued.caller)) as reader:
        await reader.read()
        await first.sessions.end(issued.token)
        with pytest.raises(SessionEnded):
            await reader.read_to_end()


@asynccontextmanager
async def open_browser(engine: LocalEngine, settings: Settings, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """A browser with the cookie of a session in front of one of the servers."""
    async with serve_app(make_http_app(engine, settings)) as url:
        sent = {"origin": url, "sec-fetch-site": "same-origin", "user-agent": BROWSER}
        async with httpx.AsyncClient(base_url=f"{url}/api/v1", headers=sent, cookies={COOKIE: token}) as http:
            yield http


async def test_typing_and_uploads_of_a_session_draw_on_one_allowance_of_all_servers(
    open_member: OpenMember, shared_url: str, tmp_path: Path
) -> None:
    first, second = await open_two(open_member)
    limits = {"typing_rate_limit": "5/minute", "session_upload_rate_limit": "3/minute"}
    settings = Settings(data=tmp_path, database_url=SecretStr(shared_url), api_key=SecretStr("operator-key"), **limits)  # type: ignore[arg-type]
    await first.accounts.register("ada", PASSWORD)
    token = (await first.sessions.open_by_password("ada", PASSWORD, False, BROWSER)).token
    async with open_browser(first, settings, token) as one, open_browser(second, settings, token) as other:
        turns = [one, other]
        typed = [
            (await turns[number % 2].post("/search", json={"query": "te", "typing": True})).status_code
            for number in range(6)
        ]
        assert typed == [200] * 5 + [429]
        sent = [
            (await turns[number % 2].post("/jobs", json={"note": f"Note {number} of Ada."})).status_code
            for number in range(4)
        ]
        assert sent == [202] * 3 + [429]


async def test_a_stream_does_not_move_the_end_of_its_session_when_a_browser_opens_it_again(
    open_member: OpenMember, shared_url: str, tmp_path: Path
) -> None:
    first = open_member("first")
    settings = Settings(data=tmp_path, database_url=SecretStr(shared_url), api_key=SecretStr("operator-key"))
    await first.accounts.register("ada", PASSWORD)
    token = (await first.sessions.open_by_password("ada", PASSWORD, False, BROWSER)).token
    times = {
        "last_used_at": make_timestamp(now() - timedelta(hours=11)),
        "expires_at": make_timestamp(now() + timedelta(hours=1)),
    }
    database, sessions = first._parts.database, schema.browser_sessions
    database.write(lambda connection: connection.execute(update(sessions).values(**times)))

    def read_end() -> int:
        with database.read() as connection:
            return int(connection.execute(select(sessions.c.expires_at)).scalar_one())

    async with open_browser(first, settings, token) as http:
        for _ in range(2):
            async with http.stream("GET", "/events") as stream:
                assert stream.status_code == 200 and await read_id(stream) is not None
        assert read_end() == times["expires_at"]
        assert (await http.get("/documents")).status_code == 200
        assert read_end() > times["expires_at"], "any other request is a use"


async def read_id(stream: httpx.Response) -> str | None:
    """Return the id of the first event that has one."""
    async with asyncio.timeout(WAIT_SECONDS):
        async for line in stream.aiter_lines():
            if line.startswith("id: "):
                return line.removeprefix("id: ")
    return None


async def test_a_browser_goes_on_at_another_server_with_its_last_event_id(
    open_member: OpenMember, shared_url: str, tmp_path: Path
) -> None:
    first, second = await open_two(open_member)
    settings = Settings(data=tmp_path, database_url=SecretStr(shared_url), api_key=SecretStr("operator-key"))
    await first.accounts.register("ada", PASSWORD)
    issued = await first.sessions.open_by_password("ada", PASSWORD, False, BROWSER)
    async with open_browser(first, settings, issued.token) as http, http.stream("GET", "/events") as stream:
        last = await read_id(stream)
    assert last is not None
    note = await add_note(first.as_caller(issued.caller), "the kettle boils")
    headers = {"last-event-id": last}
    names: list[str] = []
    async with (
        open_browser(second, settings, issued.token) as http,
        http.stream("GET", "/events", headers=headers) as stream,
        asyncio.timeout(WAIT_SECONDS),
    ):
        async for line in stream.aiter_lines():
            names += [line.removeprefix("event: ")] if line.startswith("event: ") else []
            if names[-1:] == ["document"] and line.startswith("data: "):
                assert json.loads(line.removeprefix("data: "))["id"] == note.id
                break
    assert names[0] == "hello" and "reset" not in names


# -- events -------------------------------------------------------------------------------------


async def test_what_happens_on_one_server_is_told_on_the_other(open_member: OpenMember) -> None:
    first, second = await open_two(open_member)
    here, there = act(first), act(second)
    async with watching(there) as reader:
        await reader.read()
        made = await here.create_collection(NewCollection(name="brewing", title="Brewing"))
        told = await reader.read_kind(EventKind.COLLECTION)
        assert told.data == CollectionChange(made.id, made.uid, "brewing", ChangeKind.ADDED)
        job = await here.add(make_file("tea.txt", "the kettle boils water", collection="brewing"))
        ended = await reader.read_until(lambda event: is_ended(event, job.id))
        assert isinstance(ended.data, Job) and ended.data.status is JobStatus.COMPLETED
        document = await there.document(ended.data.document_id or 0)
        assert list_changes(reader)[0] == (document.id, ChangeKind.ADDED)
        await here.remove(document.id)
        await reader.read_until(lambda _: list_changes(reader)[-1] == (document.id, ChangeKind.REMOVED))
        await here.remove_collection("brewing")
        gone = await reader.read_kind(EventKind.COLLECTION)
        assert gone.data == CollectionChange(made.id, made.uid, None, ChangeKind.REMOVED)
    numbers = [event.seq for event in reader.seen if event.seq is not None]
    assert numbers == sorted(set(numbers))


def list_changes(reader: EventReader) -> list[tuple[int, ChangeKind]]:
    return [(event.data.id, event.data.change) for event in reader.seen if isinstance(event.data, DocumentChange)]


async def test_the_progress_of_a_job_on_another_server_is_told_and_never_goes_back(open_member: OpenMember) -> None:
    """The job runs there, `here` has no workers."""
    here = open_member("here", server_role="no-workers")
    there = open_member("there", workers=1)
    await wait_until_ready(here, there)
    async with watching(act(here)) as reader:
        await reader.read()
        text = "\n\n".join(f"# Part {n}\n\nThe kettle number {n} boils." for n in range(1500))
        job = await act(here).add(make_file("tea.md", text))
        await reader.read_until(lambda event: is_ended(event, job.id))
    told = [event.data for event in reader.seen if isinstance(event.data, Job) and event.data.id == job.id]
    progress = [each.progress for each in told]
    assert progress == sorted(progress) and progress[-1] == 1.0


async def test_the_progress_of_a_killed_server_is_kept_when_another_one_begins_the_job_again(
    open_member: OpenMember,
) -> None:
    engine = open_member("first", start=False)
    parts = engine._parts
    job = await engine.add(make_file("tea.txt", "the kettle boils"))
    claim = parts.jobs.claim(most_urgent_only=False)
    assert claim is not None and claim.id == job.id
    embedding = JobPhase.EMBED.compute_progress(1, 2)
    leases = JobLeases(parts.database, "first")
    leases.write_progress([StoredProgress(claim.token, "Embedding", 1, 2, None, embedding)])
    parts.database.write(  # as if the lease had expired
        lambda connection: connection.execute(update(schema.jobs).values(status=JobStatus.QUEUED, token=None))
    )
    assert (await engine.job(job.id)).progress == embedding
    again = parts.jobs.claim(most_urgent_only=False)
    assert again is not None and again.token != claim.token
    parts.progress.begin(job.id, again.token)
    parts.progress.report(job.id, "Reading", 0, 1, JobPhase.READ)
    reported = dict(parts.progress.take_unstored())[again.token]
    leases.write_progress([StoredProgress(again.token, "Reading", 0, 1, None, reported.progress)])
    found = await engine.job(job.id)
    assert (found.step, found.progress) == ("Reading", embedding)


async def test_a_watch_goes_on_at_another_server_without_a_gap_or_doubles(open_member: OpenMember) -> None:
    first, second = await open_two(open_member)
    async with watching(act(first)) as reader:
        await reader.read()
        known = await add_note(act(first), "the kettle boils")
        await reader.read_until(lambda _: (known.id, ChangeKind.CHANGED) in list_changes(reader))
        last = max(event.seq for event in reader.seen if event.seq is not None)
    missed = [await add_note(act(each), f"missed {number}") for number, each in enumerate((first, second, first))]
    failed = await act(first).wait((await act(first).add(make_file("empty.txt", "  "))).id, WAIT_SECONDS)
    await act(first).remove(missed[0].id)
    async with watching(act(second), last) as reader:
        await reader.read_until(lambda event: is_ended(event, failed.id))
        later = await add_note(act(first), "after the watch went on")
        await reader.read_until(lambda _: (later.id, ChangeKind.CHANGED) in list_changes(reader))
        kinds = {event.kind for event in reader.seen}
        numbers = [event.seq for event in reader.seen if event.seq is not None and event.kind is EventKind.DOCUMENT]
    assert EventKind.RESET not in kinds and numbers == sorted(set(numbers)) and numbers[0] > last
    added = [identity for identity, change in list_changes(reader) if change is ChangeKind.ADDED]
    assert added == [*(document.id for document in missed), later.id]
    assert [identity for identity, change in list_changes(reader) if change is ChangeKind.REMOVED] == [missed[0].id]


async def test_a_watch_goes_on_at_a_server_whose_index_is_behind(
    open_member: OpenMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await open_two(open_member)
    monkeypatch.setattr(second._parts.broadcaster, "_find_indexed", lambda: 0)
    async with watching(act(first)) as reader:
        await reader.read()
        known = await add_note(act(first), "the kettle boils")
        await reader.read_until(lambda _: (known.id, ChangeKind.CHANGED) in list_changes(reader))
        last = max(event.seq for event in reader.seen if event.seq is not None)
    async with watching(act(second), last) as reader:
        hello = await reader.read()
        assert isinstance(hello.data, Hello) and hello.seq == hello.data.seq == last
        later = await add_note(act(first), "a boat on the lake")
        monkeypatch.undo()
        await reader.read_until(lambda _: (later.id, ChangeKind.CHANGED) in list_changes(reader))
    assert {identity for identity, _ in list_changes(reader)} == {later.id}
    assert EventKind.RESET not in {event.kind for event in reader.seen}


async def test_the_end_of_a_job_is_told_although_its_signal_was_lost(
    open_member: OpenMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcaster, "POLL_SECONDS", 0.5)
    here = open_member("here", server_role="no-workers")
    await wait_until_ready(here)
    here._parts.signals._subscribers.clear()  # as if the connection that listens were lost
    async with watching(act(here)) as reader:
        await reader.read()
        job = await act(here).add(make_file("empty.txt", "  "))
        queued = await reader.read_kind(EventKind.JOB)
        assert isinstance(queued.data, Job) and queued.data.status is JobStatus.QUEUED
        open_member("there", server_role="workers-only")
        async with asyncio.timeout(WAIT_SECONDS):
            await reader.read_until(lambda event: is_ended(event, job.id))


# -- pages, lists and jobs ----------------------------------------------------------------------


async def add_bytes(engine: Engine, name: str, data: bytes) -> Document:
    job = await wait_until_done(engine, await engine.add(NewFile(filename=name, content=Content.from_bytes(data))))
    assert job.document_id is not None
    return await engine.document(job.document_id)


async def test_pages_and_places_are_the_same_on_both_servers_and_gone_from_both_at_once(
    open_member: OpenMember,
) -> None:
    first, second = await open_two(open_member)
    here, there = act(first), act(second)
    document = await add_bytes(here, "harbour.pdf", pdfs.make_columns(1)[0])
    last = document.chunk_count - 1
    drawn = [await engine.pages.image(document.id, 1, 900) for engine in (here, there)]
    assert drawn[0] == drawn[1]
    places = [await engine.pages.places(document.id, 0, last) for engine in (here, there)]
    assert places[0] == places[1] and all(place.boxes for place in places[0].places)
    assert await there.pages.words(document.id, 1) == await here.pages.words(document.id, 1)
    await here.remove(document.id)
    for refused in (
        there.pages.image(document.id, 1, 900),
        there.pages.thumbnail(document.id),
        there.pages.words(document.id, 1),
        there.pages.places(document.id, 0, last),
        there.pages.sizes(document.id),
        there.original(document.id),
    ):
        with pytest.raises(DocumentNotFound):
            await refused


async def test_drawn_pages_are_deleted_from_the_disk_of_every_server(
    open_member: OpenMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "SWEEP_SECONDS", 0.0)
    first, second = await open_two(open_member)
    document = await add_bytes(act(first), "harbour.pdf", pdfs.make_columns(1)[0])
    await act(second).pages.thumbnail(document.id)
    assert second._parts.page_cache.total_bytes > 0
    await act(first).remove(document.id)
    await wait_until(lambda: second._parts.page_cache.total_bytes == 0)


async def test_suggestions_and_facets_are_those_of_all_servers(open_member: OpenMember) -> None:
    first, second = await open_two(open_member)
    await add_file(act(first), "tea.md", "# Kettles\n\nThe kettle boils.", title="Kettle book", collection="brewing")
    assert {each.text for each in await act(second).suggest("ket")} == {"Kettle book", "Kettles"}
    listed = await act(second).documents(DocumentFilter(facets=(FacetName.COLLECTION,)))
    assert listed.facets == {FacetName.COLLECTION: (FacetValue("brewing", 1, "brewing"),)}


async def test_jobs_that_failed_on_one_server_are_retried_by_another(
    open_member: OpenMember, parsers: SharedParsers
) -> None:
    first = open_member("first", parsers=Parsers(parser="tests.data.extract.hostile_parsers:crashes"))
    jobs = [await act(first).add(make_file(f"tea{number}.md", f"# Tea {number}")) for number in range(2)]
    for job in jobs:
        assert (await first.wait(job.id, WAIT_SECONDS)).status is JobStatus.FAILED
    first._parts.workers.close()  # what is queued now runs on the other server
    second = open_member("second")
    await wait_until_ready(second)
    result = await act(second).retry_all()
    assert (result.retried, result.refused) == (2, ())
    for job in jobs:
        assert (await act(first).wait(job.id, WAIT_SECONDS)).status is JobStatus.COMPLETED
    assert (await act(first).documents(DocumentFilter())).total == 2


async def test_a_retried_job_begins_at_zero_on_every_server(open_member: OpenMember) -> None:
    first = open_member("first", parsers=Parsers(parser="tests.data.extract.hostile_parsers:crashes"))
    second = open_member("second", server_role="no-workers")
    job = await act(first).add(make_file("tea.md", "# Tea"))
    assert (await first.wait(job.id, WAIT_SECONDS)).status is JobStatus.FAILED
    first._parts.workers.close()
    first._parts.progress._reached[job.id] = 0.5
    assert (await act(second).retry(job.id)).progress == 0.0

    def is_forgotten() -> bool:
        return job.id not in first._parts.progress._reached

    await wait_until(is_forgotten)
    assert [(await engine.job(job.id)).progress for engine in (first, second)] == [0.0, 0.0]


async def test_a_document_is_read_again_once_although_two_servers_are_asked(open_member: OpenMember) -> None:
    first, second = await open_two(open_member)
    scan = documents.encode_image(pdfs.draw_scan()[0], "PNG")
    document = await add_bytes(act(first), "scan.png", scan)
    first._parts.database.write(lambda connection: connection.execute(delete(schema.page_words)))
    asked = await asyncio.gather(*(act(engine).reread() for engine in (first, second)))
    assert sum(each.queued for each in asked) == 1
    [job] = (await act(second).jobs(JobFilter(kind=JobKind.REREAD))).items
    await wait_until_done(act(second), job)
    for engine in (first, second):
        places = await act(engine).pages.places(document.id, 0, document.chunk_count - 1)
        assert places.note is None and all(place.boxes for place in places.places)
        assert (await act(engine).reread()).queued == 0
    assert (await act(first).jobs(JobFilter(kind=JobKind.REREAD))).total == 1


# -- agents and insight -------------------------------------------------------------------------


async def test_an_agent_and_a_refusal_on_one_server_are_told_and_listed_on_the_other(open_member: OpenMember) -> None:
    first, second = await open_two(open_member)
    async with watching(act(second)) as reader:
        await reader.read()
        await act(first).agents.record(AgentSighting(client="claude-code", calls=1, last_tool="knowledge-search"))
        told = await reader.read_kind(EventKind.AGENT)
        await act(second).agents.record(AgentSighting(client="claude-code", calls=1, last_tool="knowledge-status"))
        await act(first).agents.record_refusals([NewRefusal(reason=RefusalReason.NO_KEY, path="/mcp")])
        assert (await reader.read_kind(EventKind.REFUSAL)).data == (await act(second).agents.list_refused(""))[0]
    (agent,) = await act(first).agents.list_seen()
    assert [agent] == await act(second).agents.list_seen()
    assert isinstance(told.data, Agent) and told.data.id == agent.id
    assert (agent.calls, agent.last_tool) == (2, "knowledge-status")


async def test_questions_ratings_and_history_of_two_servers_are_one(open_member: OpenMember) -> None:
    first, second = await open_two(open_member, query_log=True)
    await add_note(act(first), "the kettle is descaled with vinegar")
    for engine in (first, second):
        hit = (await act(engine).search(Query(text="descale the kettle"))).hits[0]
        await act(engine).insight.queries()  # writes what this server has collected
    (asked,) = (await act(first).insight.queries()).queries
    assert asked.count == 2
    await act(first).insight.rate("descale the kettle", hit.chunk.uid, True)
    assert [each.good for each in await act(second).insight.ratings()] == [True]
    points = await asyncio.gather(act(first).insight.history(), act(second).insight.history())
    assert points[0][-1].documents == points[1][-1].documents == 1
    assert (await act(first).insight.history())[-1].searches == 2
