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
from tests.journeys.kill_driver import CANCELLED_KEY, LONG_TEXT, make_word, wait_for_all_jobs
from tests.support.old_folders import DUMPS, NOTE_TEXT, get_schema, restore_dump

OLD_DUMPS = [dump for dump in DUMPS if get_schema(dump) != SCHEMA_VERSION]
DRIVER = Path(__file__).with_name("kill_driver.py")
SEED = int(os.environ.get("KNOWLEDGE_TEST_SEED", "20261116"))
FAILPOINTS = [
    "files.placed",
    "store.uncommitted",
    "store.committed",
    "ingest.staged",
    "words.published",
    "words.embedded",
    "words.completed",
    "add.dropped",
    "index.entered",
    "index.applied",
    "jobs.finished",
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
"""Failpoints at which the process kills itself; in the other rounds it is killed from outside after some lines."""
JOB_FAILPOINTS = [
    "store.uncommitted",
    "store.committed",
    "ingest.staged",
    "words.published",
    "words.embedded",
    "words.completed",
    "index.entered",
    "index.applied",
    "jobs.finished",
]
"""Failpoints that the jobs of new documents reach."""
BACKGROUND_LOADS = {"index.built": "reindex", "index.swapped": "reindex", "backup": "backup", "vectors": "model"}
"""The background load that reaches a failpoint, by the failpoint or the part before its dot."""
FAILPOINT_SHARE = 0.75
"""Share of the rounds that end at a failpoint."""


@dataclass
class DriverLog:
    """The changes that the driver printed, by key: those acknowledged and those in progress when it was killed."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    tried: set[tuple[int, int]] = field(default_factory=set)
    """Every key and version of the last run."""
    attempted: dict[int, int] = field(default_factory=dict)
    highest_version: int = 0

    def read_line(self, text: str) -> None:
        words = text.split()
        if len(words) != 3:
            return
        key, version = int(words[1]), int(words[2])
        self.highest_version = max(self.highest_version, version)
        self.tried.add((key, version))
        if words[0] == "try":
            self.attempted[key] = version
        else:
            self.acknowledged[key] = version
            self.attempted.pop(key, None)

    def list_possible_versions(self, key: int) -> set[int]:
        """Return the versions that may be stored: the last one acknowledged, or the one in progress."""
        states = {self.acknowledged.get(key, 0)}
        if key in self.attempted:
            states.add(self.attempted[key])
        return states


@dataclass(frozen=True)
class Kill:
    """When one run of the driver is killed: at a failpoint, or from outside after a number of lines."""

    failpoint: str | None
    times: int
    lines: int
    load: str

    @classmethod
    def draw(cls, rng: random.Random, number: int) -> Kill:
        failpoint = FAILPOINTS[number % len(FAILPOINTS)] if rng.random() < FAILPOINT_SHARE else None
        times, lines = rng.randint(1, 12), rng.randint(2, 40)
        if failpoint is None:
            return cls(None, 0, lines, rng.choice(["nothing", *sorted(set(BACKGROUND_LOADS.values()))]))
        part = failpoint.partition(".")[0]
        load = BACKGROUND_LOADS.get(failpoint) or BACKGROUND_LOADS.get(part, "nothing")
        return cls(failpoint, 1 if part == "migrate" else times, 400, load)

    @property
    def is_during_migration(self) -> bool:
        return bool(self.failpoint and self.failpoint.startswith("migrate."))

    def __str__(self) -> str:
        return (
            f"{self.failpoint}:{self.times}" if self.failpoint else f"killed after {self.lines} lines, load {self.load}"
        )


def run_until_killed(data: Path, log: DriverLog, kill: Kill, number: int, *arguments: str) -> None:
    """Run the driver until it is killed, and read the lines that it prints."""
    environment = dict(os.environ)
    environment.pop("KNOWLEDGE_FAILPOINT", None)
    if kill.failpoint is not None:
        environment["KNOWLEDGE_FAILPOINT"] = f"{kill.failpoint}:{kill.times}"
    lines = kill.lines
    position = [str(data), str(SEED + number), str(log.highest_version)]
    command = [sys.executable, str(DRIVER), *position, kill.load, *arguments]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        errors: list[str] = []
        assert process.stderr is not None and process.stdout is not None
        drain = threading.Thread(target=lambda: errors.append(process.stderr.read() if process.stderr else ""))
        drain.start()
        for line in process.stdout:
            log.read_line(line)
            lines -= 1
            if lines == 0:
                process.send_signal(signal.SIGKILL)
        process.wait(120)
        drain.join()
    assert process.returncode in (-signal.SIGKILL, 137), f"{kill}: {errors[0][-2000:]}"


async def check_engine(engine: LocalEngine, log: DriverLog, label: str) -> None:
    """Check that the engine stores what the driver printed, and nothing else."""
    while (await engine.status()).queued + (await engine.status()).processing:
        for job in (await engine.jobs(JobFilter(status=JobStatus.PROCESSING))).items:
            await engine.wait(job.id, 60)
        for job in (await engine.jobs(JobFilter(status=JobStatus.QUEUED))).items:
            await engine.wait(job.id, 60)
    assert await engine.verify() == [], label
    failed = (await engine.jobs(JobFilter(status=JobStatus.FAILED))).items
    assert not failed, f"{label}: an interrupted job was failed: {failed}"
    for key in range(CANCELLED_KEY + 1):
        version = await find_version(engine, key)
        assert version in log.list_possible_versions(key), (
            f"{label}: key {key} is at {version}, not {log.list_possible_versions(key)}"
        )
        log.acknowledged[key] = version
    for key, version in log.tried:
        if version and version != log.acknowledged[key]:
            word = make_word(key, version)  # the search may find a similar word of another version
            answer = await engine.search(Query(text=word, mode=SearchMode.TEXT))
            texts = [hit.text for hit in answer.hits if word in hit.text]
            assert not texts, f"{label}: version {version} of key {key} is still found"
    log.attempted.clear()
    log.tried.clear()


async def require_scores_of_rebuilt_index(engine: LocalEngine, label: str) -> None:
    """Check that the index has followed the store so well that building it again changes no score."""
    before = await find_scores(engine)
    await engine.reindex()
    for found, rebuilt in zip(before, await find_scores(engine), strict=True):
        assert found == pytest.approx(rebuilt, abs=1e-4), label


async def find_scores(engine: LocalEngine) -> list[list[float]]:
    questions = [Query(text=text, mode=SearchMode.TEXT) for text in ("rivers", "version", "number 1", "note 2")]
    return [[hit.score for hit in (await engine.search(question)).hits] for question in questions]


async def find_version(engine: LocalEngine, key: int) -> int:
    """Return the stored version of a key, the same in list, chunks and searches; 0 if there is none."""
    documents = (await engine.documents(DocumentFilter(source_path=f"/kill/{key}"))).items
    if not documents:
        return 0
    (document,) = documents
    (first, *_) = await engine.chunks(document.id)
    version = int(first.text.split(" version ")[1].split(".")[0])
    answer = await engine.search(Query(text=make_word(key, version), mode=SearchMode.TEXT, limit=100))
    assert {hit.document.id for hit in answer.hits} == {document.id}
    await wait_for_vectors(engine, document.id)
    assert first.text.startswith(make_word(key, version))
    return version


async def wait_for_vectors(engine: LocalEngine, document: int) -> None:
    """Wait until vector search finds the document; after a change of the model its vectors may still be computed."""
    wanted = Query(text="rivers", mode=SearchMode.VECTOR, filter=SearchFilter(documents=(document,)))
    async with asyncio.timeout(60):
        while not (await engine.search(wanted)).hits:
            await asyncio.sleep(0.05)


async def kill_repeatedly(data: Path, parsers: SharedParsers, rounds: int) -> None:
    """Run and kill the driver, and check the data folder after each round."""
    rng, log = random.Random(SEED), DriverLog()
    print(f"seed {SEED} (KNOWLEDGE_TEST_SEED)")
    for number in range(rounds):
        kill = Kill.draw(rng, number)
        label = f"round {number}, {kill}, seed {SEED}"
        if kill.is_during_migration:
            await kill_during_migration(
                data.with_name(f"old-{number}"), rng.choice(OLD_DUMPS), kill, number, parsers, label
            )
            continue
        await asyncio.to_thread(run_until_killed, data, log, kill, number)
        async with open_engine(data, parsers) as engine:
            await check_engine(engine, log, label)
    async with open_engine(data, parsers) as engine:  # in the end only, so that each round follows an older index
        await require_scores_of_rebuilt_index(engine, f"seed {SEED}")
    assert log.highest_version > 0, "no document was ever changed"


async def kill_during_migration(
    data: Path, dump: Path, kill: Kill, number: int, parsers: SharedParsers, label: str
) -> None:
    """Kill a process while it migrates an older data folder, and check the folder."""
    restore_dump(dump, data)
    log = DriverLog()
    await asyncio.to_thread(run_until_killed, data, log, kill, number)
    async with open_engine(data, parsers) as engine:
        await check_engine(engine, log, label)
        assert [hit.document.id for hit in (await engine.search(Query(text=NOTE_TEXT))).hits] == [1], label
    copies = [sqlite3.connect(path) for path in data.glob("*-before-*.db")]
    for copy in copies:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchone() == (get_schema(dump),), label
        copy.close()
    assert copies and not list(data.glob("*.part"))


@asynccontextmanager
async def open_engine(data: Path, parsers: SharedParsers) -> AsyncIterator[LocalEngine]:
    engine = make_test_engine(Settings(data=data, workers=2), parsers=parsers)
    engine.start()
    try:
        yield engine
    finally:
        await asyncio.to_thread(engine.close)


def drain_until_killed(data: Path, failpoint: str) -> bool:
    """Run the queued jobs in a process; return whether they ended before it was killed."""
    environment = {**os.environ, "KNOWLEDGE_FAILPOINT": failpoint}
    command = [sys.executable, str(DRIVER), str(data), "0", "0", "drain"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in (0, -signal.SIGKILL, 137), ended.stderr[-2000:]
    return ended.returncode == 0


async def interrupt_jobs_repeatedly(data: Path, parsers: SharedParsers, seed: int) -> int:
    """Kill the process of some jobs, once less than the limit that fails a job, and return the number of kills."""
    rng, engine = random.Random(seed), make_test_engine(Settings(data=data, workers=2), parsers=parsers)
    for number in range(3):  # this engine is not started: the killed processes run the jobs
        content = Content.from_bytes(f"number {number}\n\n{LONG_TEXT}".encode())
        await engine.add(NewFile(filename=f"{number}.txt", content=content))
        await engine.add(NewNote(text=f"note {number}\n\n{LONG_TEXT}"))
    await asyncio.to_thread(engine.close)
    kills = 0
    for _ in range(MAX_UNCLEAN_STARTS + MAX_UNCLEAN_STARTS_ALONE - 1):
        failpoint = rng.choice(JOB_FAILPOINTS)
        kills += not await asyncio.to_thread(drain_until_killed, data, f"{failpoint}:{rng.randint(1, 4)}")
    async with open_engine(data, parsers) as engine:
        await wait_for_all_jobs(engine)
        states = [job.status for job in (await engine.jobs(JobFilter())).items]
        assert states == [JobStatus.COMPLETED] * 6, f"seed {seed}"
        assert await engine.verify() == []
        await require_scores_of_rebuilt_index(engine, f"seed {seed}")
    return kills


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_jobs_that_are_interrupted_again_and_again_are_done_in_the_end(
    tmp_path: Path, parsers: SharedParsers
) -> None:
    assert await interrupt_jobs_repeatedly(tmp_path / "data", parsers, SEED) > 0


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_jobs_that_are_interrupted_at_many_places_are_done_in_the_end(
    tmp_path: Path, parsers: SharedParsers
) -> None:
    folders = {SEED + number: tmp_path / f"data-{number}" for number in range(20)}
    kills = [await interrupt_jobs_repeatedly(folder, parsers, seed) for seed, folder in folders.items()]
    assert sum(kills) >= len(folders)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_two_dozen_killed_processes_lose_nothing(tmp_path: Path, parsers: SharedParsers) -> None:
    await kill_repeatedly(tmp_path / "data", parsers, 24)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_two_hundred_killed_processes_lose_nothing(tmp_path: Path, parsers: SharedParsers) -> None:
    await kill_repeatedly(tmp_path / "data", parsers, 200)
