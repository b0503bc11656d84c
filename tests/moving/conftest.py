"""A data folder with documents, accounts and sessions, and what the engine answers about it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller, DocumentFilter, Query, SearchMode
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.accounts import PASSWORD, log_in
from tests.support.engines import add_file, add_note
from tests.support.postgres import PostgresServer

QUESTIONS = ("assam tea garden", "brew green leaves", "kettle", '"river boat"', "quokka zzz", "harvest in the hills")
NOTES = 40


@dataclass(frozen=True)
class FilledFolder:
    """A data folder without a server, the secrets that must stay valid, and the answers that must stay the same."""

    data: Path
    key: str
    session: str
    answers: dict[str, Any]


async def fill_folder(local: LocalEngine) -> tuple[str, str]:
    """Add notes, files, a removed document, an account with a key, and a session."""
    engine = local.as_caller(Caller())
    await engine.accounts.register("ada", PASSWORD)
    for number in range(NOTES):
        topics = ("Assam tea garden", "river boat harvest", "brew green leaves in a kettle", "hills and rain")
        text = f"{topics[number % 4]} {'very ' * (number % 7)}number {number} {topics[(number * 3 + 1) % 4]}"
        await add_note(engine, text, title=f"Note {number}", tags=("even",) if number % 2 == 0 else ())
    await add_file(engine, "kettle.md", "# Kettle\n\nA kettle boils water.\n\n## Lid\n\nThe lid is hot.")
    removed = await add_note(engine, "zebra crossing, removed again")
    await engine.remove(removed.id)
    ada = await log_in(engine, "ada")
    await add_note(ada, "the diary of ada about a river boat")
    key = (await engine.accounts.login("ada", PASSWORD)).secret
    return key, (await engine.sessions.open_by_password("ada", PASSWORD, True, "Browser 1.0")).token


async def read_answers(local: LocalEngine) -> dict[str, Any]:
    """Return the documents, and the hits, order and scores of all questions in every mode."""
    engine = local.as_caller(Caller())
    answers: dict[str, Any] = {}
    for text in QUESTIONS:
        for mode in (SearchMode.HYBRID, SearchMode.TEXT, SearchMode.VECTOR):
            found = await engine.search(Query(text=text, mode=mode, limit=20))
            answers[f"{mode} {text}"] = [
                (hit.document.id, hit.document.uid, hit.chunk.uid, hit.indexes, hit.score, hit.text)
                for hit in found.hits
            ]
    listed = await engine.documents(DocumentFilter(per_page=100))
    answers["documents"] = [(each.id, each.uid, each.title, each.tags, each.created_at) for each in listed.items]
    return answers


@contextmanager
def running(settings: Settings, parsers: SharedParsers) -> Iterator[LocalEngine]:
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="session")
def original_folder(tmp_path_factory: pytest.TempPathFactory, parsers: SharedParsers) -> FilledFolder:
    """Made once; tests get copies of it."""
    data = tmp_path_factory.mktemp("moving") / "data"
    with running(Settings(data=data, workers=2), parsers) as engine:
        key, session = asyncio.run(fill_folder(engine))
        asyncio.run(engine.as_caller(Caller()).reindex())
        answers = asyncio.run(read_answers(engine))
    assert any(answers[name] for name in answers)
    return FilledFolder(data, key, session, answers)


@pytest.fixture
def folder(original_folder: FilledFolder, tmp_path: Path) -> FilledFolder:
    data = tmp_path / "data"
    shutil.copytree(original_folder.data, data)
    return FilledFolder(data, original_folder.key, original_folder.session, original_folder.answers)


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database(empty=True) as made:
        yield made
