"""Deleted data is erased from the disk: every field, every format, replaced versions and removed documents."""

from __future__ import annotations

import asyncio
import io
import os
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from knowledge import app
from knowledge.config import Settings
from knowledge.engine.crawl.politeness import RetryPolicy
from knowledge.engine.data_folder import open_database
from knowledge.engine.local import LocalEngine
from knowledge.model import Content, DocumentEdit, DocumentFilter, JobFilter, JobKind, JobStatus, NewFile, NewNote
from knowledge.store import migrate, schema
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.knowledge import samples
from tests.support.crawls import run_crawl
from tests.support.engines import WAIT_SECONDS, add_file, add_note, make_file, search_ids, wait_until_done
from tests.support.gated_models import wait_until_found
from tests.support.originals import get_folder
from tests.support.postgres import read_all_rows
from tests.support.web_site import SiteReply, make_page, serve_site

FIELDS = ("title", "text", "heading", "tag", "key", "value", "name", "path", "address")
LIMIT = 30.0
LATER = ("remove.committed", "index.applied", "index.flushed")


def secret(kind: str, field: str) -> str:
    """Return a unique word; its stem is the word without its last letters."""
    return f"{field[:3]}{kind[:4]}zqxjkv"


def secrets_of(*kinds: str) -> list[str]:
    return [secret(kind, field) for kind in kinds for field in FIELDS]


def make_description(kind: str, suffix: str) -> dict[str, object]:
    """Return a description with a secret in every field."""
    return {
        "title": f"About {secret(kind, 'title')}",
        "tags": (secret(kind, "tag"), "shared"),
        "metadata": {secret(kind, "key"): secret(kind, "value")},
        "source_path": f"/home/{secret(kind, 'path')}/{secret(kind, 'name')}.{suffix}",
        "url": f"https://example.com/{secret(kind, 'address')}",
    }


def make_text(kind: str) -> str:
    return f"# {secret(kind, 'heading')}\n\nThe kettle says {secret(kind, 'text')} at noon, and the tea is ready.\n"


def find_traces(data: Path, words: list[str]) -> dict[str, list[str]]:
    """Return the files that contain one of these words, in any encoding or as a stem, with the words found."""
    needles = {
        word: [form.encode(coding) for form in (word, word[:-2]) for coding in ("utf-8", "utf-16-le", "utf-16-be")]
        for word in words
    }
    found: dict[str, list[str]] = {}
    for path in sorted(data.rglob("*")):
        if path.is_file():
            content = path.read_bytes().lower() + str(path.relative_to(data)).lower().encode()
            held = [word for word, forms in needles.items() if any(form in content for form in forms)]
            if held:
                found[str(path.relative_to(data))] = held
    return found


def get_url(settings: Settings) -> str:
    return settings.database_url.get_secret_value() if settings.database_url else ""


def find_all_traces(settings: Settings, words: list[str]) -> dict[str, list[str]]:
    """Return the files of the data folder, and the rows of PostgreSQL, that contain one of these words."""
    rows = read_all_rows(get_url(settings)).lower()
    held = [word for word in words if word.encode() in rows]
    return find_traces(settings.data, words) | ({"PostgreSQL": held} if held else {})


@pytest.fixture
def opened(settings: Settings, parsers: SharedParsers) -> Iterator[Callable[[], LocalEngine]]:
    """A function that opens the engine; the test closes it before it opens the next one."""
    engines: list[LocalEngine] = []

    def open_next() -> LocalEngine:
        engine = make_test_engine(settings, parsers=parsers)
        engine.start()
        engines.append(engine)
        return engine

    yield open_next
    for engine in engines:
        if not engine.is_closed:
            engine.close()


async def close(engine: LocalEngine) -> None:
    await asyncio.to_thread(engine.close)


def make_zip(kind: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{secret(kind, 'name')}.md", make_text(kind))
        archive.writestr("other.txt", f"also {secret(kind, 'text')}")
    return out.getvalue()


async def wait_until_idle(engine: LocalEngine) -> None:
    while active := [job for job in (await engine.jobs(JobFilter())).items if not job.status.has_ended]:
        await engine.wait(active[0].id, WAIT_SECONDS)


async def add_bytes(engine: LocalEngine, kind: str, suffix: str, data: bytes) -> None:
    more = make_description(kind, suffix)
    name = f"{secret(kind, 'name')}.{suffix}"
    await wait_until_done(engine, await engine.add(NewFile(filename=name, content=Content.from_bytes(data), **more)))  # type: ignore[arg-type]
    await wait_until_idle(engine)


async def fill(engine: LocalEngine) -> list[str]:
    """Add documents of every format with secrets, and return the secrets."""
    body = f"<h1>{secret('html', 'heading')}</h1>{make_text('html')}"
    html = f"<html><head><title>x</title></head><body>{body}</body></html>"
    await add_bytes(engine, "text", "txt", make_text("text").encode())
    await add_bytes(engine, "mark", "md", make_text("mark").encode())
    await add_bytes(engine, "html", "html", html.encode())
    samples.write_docx(word := engine._parts.options.data.parent / "word.docx", make_text("word"))
    await add_bytes(engine, "word", "docx", word.read_bytes())
    await add_bytes(engine, "pack", "zip", make_zip("pack"))
    await add_note(
        engine, f"{secret('note', 'name')} is how it begins\n\n{make_text('note')}", **make_description("note", "txt")
    )
    return secrets_of("text", "mark", "html", "word", "pack", "note")


async def test_nothing_of_removed_documents_is_on_the_disk_after_a_clean_stop(
    settings: Settings, opened: Callable[[], LocalEngine]
) -> None:
    engine = opened()
    kept = await add_file(engine, "kept.md", "# Kept\n\nCoffee stays where it is.", tags=("shared",))
    words = await fill(engine)
    assert find_all_traces(settings, words), "find_traces must find them before the removal"
    for document in (await engine.documents(DocumentFilter(per_page=100))).items:
        if document.id != kept.id:
            await engine.remove(document.id)
    await close(engine)
    assert find_all_traces(settings, words) == {}
    again = opened()
    assert await search_ids(again, "coffee") == [kept.id] and await again.verify() == []
    assert {job.filename for job in (await again.jobs(JobFilter())).items} == {"kept.md", "(removed)"}


async def test_nothing_of_a_replaced_version_is_on_the_disk_after_a_clean_stop(
    settings: Settings, opened: Callable[[], LocalEngine]
) -> None:
    engine = opened()
    old = make_description("oldv", "md")
    await add_file(engine, f"{secret('oldv', 'name')}.md", make_text("oldv"), **{**old, "source_path": "/tea.md"})
    await add_file(engine, "tea.md", "# Tea\n\nNew leaves.", source_path="/tea.md", title="Tea")
    note = await add_note(engine, f"{secret('oldn', 'text')} begins it", title="Reminder")
    await engine.update_note(note.id, "Milk begins it")
    edited = await add_note(engine, "Sugar", title=f"A {secret('oldt', 'title')}", tags=(secret("oldt", "tag"),))
    await engine.edit(edited.id, DocumentEdit(title=f"B {secret('midt', 'title')}"))
    await wait_until_idle(engine)
    await engine.edit(edited.id, DocumentEdit(title="Plain", remove_tags=(secret("oldt", "tag"),)))
    await wait_until_idle(engine)
    await close(engine)
    words = [word for word in secrets_of("oldv", "oldn", "oldt", "midt") if word != secret("oldv", "path")]
    assert find_all_traces(settings, words) == {}


async def test_clearing_everything_erases_failed_jobs(settings: Settings, opened: Callable[[], LocalEngine]) -> None:
    engine = opened()
    await fill(engine)
    broken = make_file(f"{secret('fail', 'name')}.json", "   ", **make_description("fail", "json"))
    failed = await engine.wait((await engine.add(broken)).id, WAIT_SECONDS)
    assert failed.status is JobStatus.FAILED
    await engine.clear()
    await close(engine)
    assert find_all_traces(settings, secrets_of("text", "mark", "note", "pack", "fail")) == {}


async def test_a_cancelled_note_leaves_neither_text_nor_description(settings: Settings, parsers: SharedParsers) -> None:
    engine = make_test_engine(settings, parsers=parsers)  # not started: no worker claims the job
    job = await engine.add(NewNote(text=make_text("stop"), **make_description("stop", "txt")))  # type: ignore[arg-type]
    cancelled = await engine.cancel(job.id)
    assert (cancelled.status, cancelled.filename) == (JobStatus.CANCELLED, "Note")
    await close(engine)
    assert find_all_traces(settings, secrets_of("stop")) == {}


async def test_a_crawled_site_is_erased_with_its_collection(settings: Settings, parsers: SharedParsers) -> None:
    reaching = settings.model_copy(update={"crawl_delay": 0, "crawl_allow": "127.0.0.1"})
    quick = replace(
        app.build_crawl_options(reaching),
        retry_policy=RetryPolicy(attempts=1, first_wait_seconds=0.01, max_wait_seconds=0.1),
    )
    engine = make_test_engine(reaching, parsers=parsers, crawl=quick)
    engine.start()
    with serve_site() as site:
        start, other = f"/{secret('site', 'path')}", f"/{secret('site', 'name')}"
        site.pages[start] = SiteReply(make_page(secret("site", "title"), other, text=make_text("site")))
        site.pages[other] = SiteReply(make_page(secret("site", "heading"), text=make_text("site")))
        crawl = await run_crawl(engine, site.url + start, recursive=True)
        assert crawl.counts.chunks and crawl.collection is not None
        assert find_all_traces(settings, secrets_of("site"))
        await engine.remove_collection(crawl.collection.id)
    report = await engine.crawl_report(crawl.job.id)
    assert {each.url for each in report.pages} == {"(removed)"}
    await close(engine)
    assert find_all_traces(settings, secrets_of("site")) == {}


async def test_removed_documents_are_erased_while_the_server_runs(
    settings: Settings, opened: Callable[[], LocalEngine]
) -> None:
    engine = opened()
    kept = await add_file(engine, "kept.md", "# Kept\n\nCoffee stays.")
    await add_bytes(engine, "text", "txt", make_text("text").encode())
    assert await search_ids(engine, "kettle")
    (gone,) = [each for each in (await engine.documents(DocumentFilter())).items if each.id != kept.id]
    await engine.remove(gone.id)
    deadline = time.monotonic() + LIMIT
    while left := find_all_traces(settings, secrets_of("text")):
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.1)
    assert await search_ids(engine, "coffee") == [kept.id] and gone.id not in await search_ids(engine, "kettle")
    assert await engine.verify() == []


KILLED = """
import asyncio, sys
from pathlib import Path
from knowledge import failpoints
from knowledge.config import Settings
from knowledge.model import NewNote
from knowledge.testing import make_test_engine
engine = make_test_engine(Settings(data=Path(sys.argv[1]), workers=1, database_url=sys.argv[3] or None))
engine.start()
async def main():
    for text in ("coffee stays", sys.argv[2]):
        await engine.wait((await engine.add(NewNote(text=text))).id, 30)
    failpoints._remaining_hits[sys.argv[4]] = 1
    await engine.remove(2)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def make_originals_old(engine: LocalEngine) -> None:
    for path in get_folder(engine).iter_files():
        os.utime(path, (0, 0))


PLACES = ["index.purged", *(pytest.param(place, marks=pytest.mark.long) for place in LATER)]


@pytest.mark.parametrize("place", PLACES)
async def test_a_killed_purge_continues_at_the_next_start(
    settings: Settings, opened: Callable[[], LocalEngine], place: str
) -> None:
    command = [sys.executable, "-c", KILLED, str(settings.data), make_text("kill"), get_url(settings), place]
    ended = await asyncio.to_thread(subprocess.run, command, timeout=LIMIT, check=False)
    assert ended.returncode < 0, "it was not killed at the failpoint"
    engine = opened()
    await wait_until_found(engine, "coffee")  # the index is rebuilt in the background
    assert await search_ids(engine, "coffee") == [1] and await engine.verify() == []
    if settings.database_url is not None:  # a young original may be another server's work: it goes with a later sweep
        make_originals_old(engine)
        await asyncio.to_thread(engine._parts.sweep, 0.0)
    await close(engine)
    assert find_all_traces(settings, secrets_of("kill")) == {}


def test_an_upgrade_erases_what_older_versions_left(tmp_path: Path, parsers: SharedParsers) -> None:
    from tests.support.old_folders import DUMPS, restore_dump

    data = tmp_path / "data"
    (dump,) = (each for each in DUMPS if each.stem == "schema_0004")
    path = restore_dump(dump, data)
    word = secret("past", "text")
    old = sqlite3.connect(path)
    old.execute("PRAGMA secure_delete=OFF")
    with old:
        old.execute(
            "INSERT INTO jobs (id, uid, kind, owner_id, filename, payload, priority, status, step, deaths, warnings,"
            " document_id, chunk_count, created_at)"
            " VALUES (77, 'a', 'add', 0, ?, ?, 0, 'completed', '', 0, '[]', 99, 1, 0)",
            (f"{word}.md", f'{{"title": "{word}"}}'),
        )
        old.execute("CREATE TABLE waste (text TEXT)")
        old.executemany("INSERT INTO waste VALUES (?)", [(word * 200,)] * 400)
    with old:
        old.execute("DROP TABLE waste")
    old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    old.close()
    assert find_traces(data, [word])
    engine = make_test_engine(Settings(data=data, workers=1), parsers=parsers)
    engine.start()
    engine.close()
    copies = list(data.glob("knowledge-before-*.db"))
    assert set(find_traces(data, [word])) == {copy.name for copy in copies}, "the copy is kept for a week"
    for copy in copies:
        long_ago = time.time() - migrate.COPY_KEEP_SECONDS - 60
        os.utime(copy, (long_ago, long_ago))
    engine = make_test_engine(Settings(data=data, workers=1), parsers=parsers)
    engine.start()
    engine.close()
    assert find_traces(data, [word]) == {}


def test_jobs_keep_no_payload_once_they_have_ended(settings: Settings, opened: Callable[[], LocalEngine]) -> None:
    engine = opened()

    async def act() -> None:
        await fill(engine)
        await close(engine)

    asyncio.run(act())
    database = open_database(settings.data, get_url(settings) or None)
    with database.read() as connection:
        rows = connection.execute(select(schema.jobs.c.kind, schema.jobs.c.payload)).all()
    database.close()
    assert all(payload == {} for kind, payload in rows if kind != JobKind.UNPACK)
