"""A killed process loses nothing that was acknowledged, and leaves nothing half done."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import DocumentFilter, JobFilter, JobStatus, Mode, Query
from knowledge.testing import SharedParsers, small_engine
from tests.journeys.kill_driver import word_of

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
]
"""Exact moments at which the process ends itself; the other rounds are ended from outside, after so many lines."""


@dataclass
class Heard:
    """What the driver was told, and what it was doing when it ended."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    attempted: dict[int, int] = field(default_factory=dict)
    highest: int = 0

    def line(self, text: str) -> None:
        words = text.split()
        if len(words) != 3:
            return
        key, version = int(words[1]), int(words[2])
        self.highest = max(self.highest, version)
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


def run_until_killed(data: Path, heard: Heard, rng: random.Random, number: int) -> str:
    """One life of the driver; answers how it ended."""
    place = PLACES[number % len(PLACES)] if rng.random() < 0.7 else None
    what = {"index.built": "reindex", "index.swapped": "reindex", "backup.member": "backup"}.get(place or "", "nothing")
    environment = dict(os.environ)
    environment.pop("KNOWLEDGE_FAILPOINT", None)
    if place is not None:
        environment["KNOWLEDGE_FAILPOINT"] = f"{place}:{rng.randint(1, 12)}"
    lines = rng.randint(2, 40) if place is None else 400
    command = [sys.executable, str(DRIVER), str(data), str(SEED + number), str(heard.highest), what]
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
    assert process.returncode in (-signal.SIGKILL, 137), f"{place}: {errors[0][-2000:]}"
    return place or "killed from outside"


async def check(engine: LocalEngine, heard: Heard, story: str) -> None:
    while (await engine.status()).queued + (await engine.status()).processing:
        for job in (await engine.jobs(JobFilter(status=JobStatus.PROCESSING))).items:
            await engine.wait(job.id, 60)
        for job in (await engine.jobs(JobFilter(status=JobStatus.QUEUED))).items:
            await engine.wait(job.id, 60)
    assert await engine.verify() == [], story
    for key in range(4):
        version = await version_of(engine, key)
        assert version in heard.possible(key), f"{story}: key {key} is at {version}, not {heard.possible(key)}"
        heard.acknowledged[key] = version
    heard.attempted.clear()


async def version_of(engine: LocalEngine, key: int) -> int:
    """Which version stands at a key, as the list, the passages and the search all say; 0 when it is gone."""
    documents = (await engine.documents(DocumentFilter(source_path=f"/kill/{key}"))).items
    if not documents:
        return 0
    (document,) = documents
    (first, *_) = await engine.chunks(document.id)
    version = int(first.text.split(" version ")[1].split(".")[0])
    answer = await engine.search(Query(text=word_of(key, version), mode=Mode.TEXT, limit=100))
    assert {hit.document.id for hit in answer.hits} == {document.id}
    assert first.text.startswith(word_of(key, version))
    return version


async def lives(data: Path, parsers: SharedParsers, rounds: int) -> None:
    rng, heard = random.Random(SEED), Heard()
    print(f"seed {SEED}")
    for number in range(rounds):
        ended = await asyncio.to_thread(run_until_killed, data, heard, rng, number)
        engine = small_engine(Settings(data=data, workers=2), parsers=parsers)
        engine.start()
        try:
            await check(engine, heard, f"round {number}, {ended}, seed {SEED}")
        finally:
            await asyncio.to_thread(engine.close)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_twenty_killed_processes_lose_nothing(tmp_path: Path, parsers: SharedParsers) -> None:
    await lives(tmp_path / "data", parsers, 20)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
async def test_two_hundred_killed_processes_lose_nothing(tmp_path: Path, parsers: SharedParsers) -> None:
    await lives(tmp_path / "data", parsers, 200)
