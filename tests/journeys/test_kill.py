"""A killed process loses nothing that was acknowledged, and leaves nothing half done."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import (
    Content,
    DocumentFilter,
    JobFilter,
    JobStatus,
    NewFile,
    NewNote,
    Query,
    SearchFilter,
    SearchMode,
)
from knowledge.store.jobs.rows import MAX_UNCLEAN_STARTS, MAX_UNCLEAN_STARTS_ALONE
from knowledge.store.migrate import SCHEMA_VERSION
from knowledge.testing import SharedParsers, make_test_engine
from tests.journeys.kill_driver import LONG_TEXT, wait_for_all_jobs, word_of
from tests.support.old_folders import DUMPS, NOTE_TEXT, get_schema, restore_dump

OLD = [dump for dump in DUMPS if get_schema(dump) != SCHEMA_VERSION]
DRIVER = Path(__file__).with_name("kill_driver.py")
SEED = int(os.environ.get("KNOWLEDGE_TEST_SEED", "20261116"))
PLACES = [
    "files.placed",
    "store.uncommitted",
    "store.committed",
    "ingest.staged",
    "index.applied",
    "index.flushed",
    "index.built",
    "index.swapped",
    "remove.committed",
    "backup.member",
    "vectors.made",
    "vectors.swapped",
    "migrate.copying",
    "migrate.copied",
    "migrate.uncommitted",
    "migrate.done",
]
"""Exact moments at which the process ends itself; the other rounds are ended from outside, after so many lines."""
BESIDE = {"index.built": "reindex", "index.swapped": "reindex", "backup": "backup", "vectors": "model"}
"""What goes on beside the small steps, so that a place is reached."""
DEAL = 0.75
"""The share of rounds that end at an exact place."""


@dataclass
class Heard:
    """What the driver was told, and what it was doing when it ended."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    tried: set[tuple[int, int]] = field(default_factory=set)
    """Every key and version of this life."""
    attempted: dict[int, int] = field(default_factory=dict)
    highest: int = 0

    def line(self, text: str) -> None:
        words = text.split()
        if len(words) != 3:
            return
        key, version = int(words[1]), int(words[2])
        self.highest = max(self.highest, version)
        self.tried.add((key, version))
        if words[0] == "try":
            self.attempted[key] = version
        else:
            self.acknowledged[key] = version
            self.attempted.pop(key, None)

    def possible(self, key: int) -> set[int]:
        """The versions that may be there: the last one acknowledged, or the one that was under way."""
        states = {self.acknowledged.get(key, 0)}
        if key in self.attempted:
            states.add(self.attempted[key])
        return states


@dataclass(frozen=True)
class End:
    """How one life is to end: at a place, or from outside after so many lines."""

    place: str | None
    times: int
    lines: int
    beside: str

    @classmethod
    def draw(cls, rng: random.Random, number: int) -> End:
        place = PLACES[number % len(PLACES)] if rng.random() < DEAL else None
        times, lines = rng.randint(1, 12), rng.randint(2, 40)
        if place is None:
            return cls(None, 0, lines, rng.choice(["nothing", *sorted(set(BESIDE.values()))]))
        beside = BESIDE.get(place) or BESIDE.get(place.partition(".")[0], "nothing")
        return cls(place, 1 if place.startswith("migrate.") else times, 400, beside)

    @property
    def migrates(self) -> bool:
        return bool(self.place and self.place.startswith("migrate."))

    def __str__(self) -> str:
        return f"{self.place}:{self.times}" if self.place else f"killed after {self.lines} lines, {self.beside} beside"


def run_until_killed(data: Path, heard: Heard, end: End, number: int) -> None:
    """One life of the driver."""
    environment = dict(os.environ)
    environment.pop("KNOWLEDGE_FAILPOINT", None)
    if end.place is not None:
        environment["KNOWLEDGE_FAILPOINT"] = f"{end.place}:{end.times}"
    lines = end.lines
    command = [sys.executable, str(DRIVER), str(data), str(SEED + number), str(heard.highest), end.beside]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        errors: list[str] = []
        assert process.stderr is not None and process.stdout is not None
        drain = threading.Thread(target=lambda: errors.append(process.stderr.read() if process.stderr else ""))
        drain.start()
        for line in process.stdout:
            heard.line(line)
            lines -= 1
            if lines == 0:
                process.send_signal(signal.SIGKILL)
        process.wait(120)
        drain.join()
    assert process.returncode in (-signal.SIGKILL, 137), f"{end}: {errors[0][-2000:]}"


async def check(engine: LocalEngine, heard: Heard, story: str) -> None:
    while (await engine.status()).queued + (await engine.status()).processing:
        for job in (await engine.jobs(JobFilter(status=JobStatus.PROCESSING))).items:
            await engine.wait(job.id, 60)
        for job in (await engine.jobs(JobFilter(status=JobStatus.QUEUED))).items:
            await engine.wait(job.id, 60)
    assert await engine.verify() == [], story
    failed = (await engine.jobs(JobFilter(status=JobStatus.FAILED))).items
    assert not failed, f"{story}: a job was failed that only was interrupted: {failed}"
    for key in range(4):
        version = await version_of(engine, key)
        assert version in heard.possible(key), f"{story}: key {key} is at {version}, not {heard.possible(key)}"
        heard.acknowledged[key] = version
    for key, version in heard.tried:
        if version and version != heard.acknowledged[key]:
            word = word_of(key, version)  # one that is gone may find another that differs by a letter
            answer = await engine.search(Query(text=word, mode=SearchMode.TEXT))
            texts = [hit.text for hit in answer.hits if word in hit.text]
            assert not texts, f"{story}: version {version} of key {key} is still found"
    heard.attempted.clear()
    heard.tried.clear()


async def version_of(engine: LocalEngine, key: int) -> int:
    """Which version stands at a key, as the list, the passages and the search all say; 0 when it is gone."""
    documents = (await engine.documents(DocumentFilter(source_path=f"/kill/{key}"))).items
    if not documents:
        return 0
    (document,) = documents
    (first, *_) = await engine.chunks(document.id)
    version = int(first.text.split(" version ")[1].split(".")[0])
    answer = await engine.search(Query(text=word_of(key, version), mode=SearchMode.TEXT, limit=100))
    assert {hit.document.id for hit in answer.hits} == {document.id}
    await near(engine, document.id)
    assert first.text.startswith(word_of(key, version))
    return version


async def near(engine: LocalEngine, document: int) -> None:
    """Return when it is found by meaning; a model that has just taken over may still be making its vectors."""
    wanted = Query(text="rivers", mode=SearchMode.VECTOR, filter=SearchFilter(documents=(document,)))
    async with asyncio.timeout(60):
        while not (await engine.search(wanted)).hits:
            await asyncio.sleep(0.05)


async def lives(data: Path, parsers: SharedParsers, rounds: int) -> None:
    rng, heard = random.Random(SEED), Heard()
    print(f"seed {SEED} (KNOWLEDGE_TEST_SEED)")
    for number in range(rounds):
        end = End.draw(rng, number)
        story = f"round {number}, {end}, seed {SEED}"
        if end.migrates:
            await migrated(data.with_name(f"old-{number}"), rng.choice(OLD), end, number, parsers, story)
            continue
        await asyncio.to_thread(run_until_killed, data, heard, end, number)
        async with opened(data, parsers) as engine:
            await check(engine, heard, story)


async def migrated(data: Path, dump: Path, end: End, number: int, parsers: SharedParsers, story: str) -> None:
    """An older folder whose process is killed while it is brought forward."""
    restore_dump(dump, data)
    heard = Heard()
    await asyncio.to_thread(run_until_killed, data, heard, end, number)
    async with opened(data, parsers) as engine:
        await check(engine, heard, story)
        assert [hit.document.id for hit in (await engine.search(Query(text=NOTE_TEXT))).hits] == [1], story
    copies = [sqlite3.connect(path) for path in data.glob("*-before-*.db")]
    for copy in copies:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchone() == (get_schema(dump),), story
        copy.close()
    assert copies and not list(data.glob("*.part"))


@asynccontextmanager
async def opened(data: Path, parsers: SharedParsers) -> AsyncIterator[LocalEngine]:
    engine = make_test_engine(Settings(data=data, workers=2), parsers=parsers)
    engine.start()
    try:
        yield engine
    finally:
        await asyncio.to_thread(engine.close)


def drain_until_killed(data: Path, failpoint: str) -> bool:
    """One life that does the jobs that are queued; whether it came to their end before it was killed."""
    environment = {**os.environ, "KNOWLEDGE_FAILPOINT": failpoint}
    command = [sys.executable, str(DRIVER), str(data), "0", "0", "drain"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in (0, -signal.SIGKILL, 137), ended.stderr[-2000:]
    return ended.returncode == 0


async def interrupted_again_and_again(data: Path, parsers: SharedParsers, seed: int) -> None:
    """Jobs that are innocent, and as many kills in a row as one of them may have."""
    rng, engine = random.Random(seed), make_test_engine(Settings(data=data, workers=2), parsers=parsers)
    for number in range(3):  # not started: the processes that are killed do the work
        content = Content.from_bytes(f"number {number}\n\n{LONG_TEXT}".encode())
        await engine.add(NewFile(filename=f"{number}.txt", content=content))
        await engine.add(NewNote(text=f"note {number}\n\n{LONG_TEXT}"))
    await asyncio.to_thread(engine.close)
    for _ in range(MAX_UNCLEAN_STARTS + MAX_UNCLEAN_STARTS_ALONE - 1):
        place = rng.choice(["store.uncommitted", "store.committed", "ingest.staged", "index.applied"])
        await asyncio.to_thread(drain_until_killed, data, f"{place}:{rng.randint(1, 4)}")
    async with opened(data, parsers) as engine:
        await wait_for_all_jobs(engine)
        states = [job.status for job in (await engine.jobs(JobFilter())).items]
        assert states == [JobStatus.COMPLETED] * 6, f"seed {seed}"
        assert await engine.verify() == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_jobs_that_are_interrupted_again_and_again_are_done_in_the_end(
    tmp_path: Path, parsers: SharedParsers
) -> None:
    await interrupted_again_and_again(tmp_path / "data", parsers, SEED)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_jobs_that_are_interrupted_at_many_places_are_done_in_the_end(
    tmp_path: Path, parsers: SharedParsers
) -> None:
    for number in range(20):
        await interrupted_again_and_again(tmp_path / f"data-{number}", parsers, SEED + number)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_twenty_killed_processes_lose_nothing(tmp_path: Path, parsers: SharedParsers) -> None:
    await lives(tmp_path / "data", parsers, 20)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_two_hundred_killed_processes_lose_nothing(tmp_path: Path, parsers: SharedParsers) -> None:
    await lives(tmp_path / "data", parsers, 200)
