"""Two engines on one PostgreSQL database, each with its own data folder, as two servers have them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.indexing import backfill as backfill_module
from knowledge.engine.indexing.backfill import VectorBackfill
from knowledge.engine.local import LocalEngine
from knowledge.errors import CorpusNotFound, InvalidKey, KnowledgeError
from knowledge.model import Caller, JobStatus, NewNote, Permission
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.accounts import create_corpus, get_engine_for_key
from tests.support.engines import add_note, wait_until_done

PASSWORD = "correct horse battery"
LIMIT_SECONDS = 60.0


@pytest.fixture
def engines(database_url: str, tmp_path: Path, parsers: SharedParsers) -> Iterator[tuple[LocalEngine, LocalEngine]]:
    made = []
    for name in ("one", "two"):
        settings = Settings(
            data=tmp_path / name, originals=tmp_path / "originals", workers=1, database_url=database_url
        )
        made.append(make_test_engine(settings, parsers=parsers))
        made[-1].start()
    yield made[0], made[1]
    for engine in made:
        engine.close()


async def sign_in(engine: Engine, name: str) -> str:
    """Register an account and return a key of it."""
    await engine.accounts.register(name, PASSWORD)
    return (await engine.accounts.login(name, PASSWORD)).secret


async def test_a_grant_that_is_revoked_on_one_server_is_refused_at_once_by_the_other(
    engines: tuple[LocalEngine, LocalEngine],
) -> None:
    one, two = engines[0].as_caller(Caller()), engines[1].as_caller(Caller())
    ada = await get_engine_for_key(one, await sign_in(one, "ada"))
    bob = await get_engine_for_key(two, await sign_in(one, "bob"))
    corpus = await create_corpus(ada)
    for _ in range(3):
        await ada.corpora.grant(corpus.id, "bob", Permission.READ)
        assert (await bob.corpora.get(corpus.id)).title == corpus.title
        await ada.corpora.revoke_grant(corpus.id, "bob")
        with pytest.raises(CorpusNotFound):
            await bob.corpora.get(corpus.id)


async def test_a_key_that_is_revoked_on_one_server_is_refused_at_once_by_the_other(
    engines: tuple[LocalEngine, LocalEngine],
) -> None:
    one, two = engines[0].as_caller(Caller()), engines[1].as_caller(Caller())
    key = await sign_in(one, "ada")
    here, there = await get_engine_for_key(one, key), await get_engine_for_key(two, key)
    assert (await there.status()).documents == 0
    (listed,) = await here.accounts.list_keys()
    await here.accounts.revoke_key(listed.id)
    with pytest.raises(InvalidKey):
        await there.status()


async def test_a_document_that_is_removed_on_one_server_is_in_no_answer_of_the_other(
    engines: tuple[LocalEngine, LocalEngine],
) -> None:
    one, two = engines[0].as_caller(Caller()), engines[1].as_caller(Caller())
    note = await add_note(one, "tea is green")
    assert (await two.document(note.id)).title == note.title
    await one.remove(note.id)
    with pytest.raises(KnowledgeError, match="not found"):
        await two.document(note.id)


async def test_a_note_added_with_one_uid_on_both_servers_is_one_job(engines: tuple[LocalEngine, LocalEngine]) -> None:
    one, two = engines[0].as_caller(Caller()), engines[1].as_caller(Caller())
    new = NewNote(text="tea is green")
    first, second = await one.add(new), await two.add(new)
    assert (first.id, first.uid) == (second.id, second.uid)


async def test_a_job_is_not_completed_before_its_vectors_are_searched(
    database_url: str, tmp_path: Path, parsers: SharedParsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first model of a database comes into the index a moment after it has embedded the first documents."""
    may_activate = threading.Event()
    activate = VectorBackfill._activate_together

    def activate_later(backfill: VectorBackfill, *arguments: Any) -> float | None:
        may_activate.wait(LIMIT_SECONDS)
        return activate(backfill, *arguments)

    monkeypatch.setattr(VectorBackfill, "_activate_together", activate_later)
    monkeypatch.setattr(backfill_module, "FIRST_MODEL_SECONDS", LIMIT_SECONDS)
    engine = make_test_engine(Settings(data=tmp_path / "one", workers=1, database_url=database_url), parsers=parsers)
    engine.start()
    try:
        job = await engine.add(NewNote(text="the kettle is descaled with vinegar"))
        async with asyncio.timeout(LIMIT_SECONDS):
            while job.id not in engine._parts.progress.list_published():
                await asyncio.sleep(0.05)
        engine._parts._finish_jobs_of_all()  # what each tick does
        assert (await engine.job(job.id)).status is JobStatus.PROCESSING
        assert engine._parts.indexer.model is None
        may_activate.set()
        assert (await wait_until_done(engine, job)).status is JobStatus.COMPLETED
        assert engine._parts.indexer.model is not None
    finally:
        may_activate.set()
        engine.close()
