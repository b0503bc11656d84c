"""Fills the disk of an engine: it reports the error, keeps every accepted note, and continues once there is space."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.error_codes import raise_job_error
from knowledge.errors import DiskFull
from knowledge.model import Job, JobStatus, NewNote, Query, SearchMode
from knowledge.testing import make_test_engine

BALLAST_BYTES = 3 << 20
MAX_NOTES = 2000
POLL_SECONDS, WAIT_SECONDS = 0.5, 120.0


def print_line(*words: object) -> None:
    print(*words, flush=True)


def make_note(number: int) -> tuple[str, str]:
    """Return a unique word and a text of several chunks that contains it."""
    letters = random.Random(number).choices("abcdefghijklmnop", k=12)
    word = "".join(letters)
    return word, f"{word} is in this note.\n\n" + "\n\n".join(f"Line {line} of note {word}." * 8 for line in range(12))


async def add_note(engine: LocalEngine, number: int) -> tuple[str, Job]:
    """Add a note and return its unique word and its job, which has ended or waits for an index without disk space."""
    word, text = make_note(number)
    job = await engine.add(NewNote(text=text))
    while not (job := await engine.wait(job.id, POLL_SECONDS)).status.has_ended:
        if not (await engine.status()).index_ok:
            break
    raise_job_error(job)
    return word, job


async def fill_disk(engine: LocalEngine) -> tuple[dict[str, Job], DiskFull]:
    """Add notes until the disk is full; return the accepted jobs by word, and the error."""
    accepted: dict[str, Job] = {}
    for number in range(MAX_NOTES):
        try:
            word, job = await add_note(engine, number)
        except DiskFull as error:
            return accepted, error
        accepted[word] = job
    raise AssertionError("the disk never filled up")


async def find_lost_words(engine: LocalEngine, words: list[str]) -> list[str]:
    missing = []
    for word in words:
        answer = await engine.search(Query(text=word, mode=SearchMode.TEXT))
        if not any(word in hit.chunk.text for hit in answer.hits):
            missing.append(word)
    return missing


async def main() -> None:
    disk = Path(sys.argv[1])
    (disk / "ballast").write_bytes(b"\1" * BALLAST_BYTES)
    engine = make_test_engine(Settings(data=disk / "data", workers=1))
    engine.start()
    accepted, error = await fill_disk(engine)
    print_line("refused:", error, error.hint)
    print_line("issues:", *(await engine.status()).issues)
    completed = [word for word, job in accepted.items() if job.status.has_ended]
    assert await find_lost_words(engine, completed) == [], "notes are lost on the full disk"
    (disk / "ballast").unlink()
    for job in accepted.values():
        assert (await engine.wait(job.id, WAIT_SECONDS)).status is JobStatus.COMPLETED
    late = [(await add_note(engine, MAX_NOTES + number))[0] for number in range(3)]
    await check_engine(engine, [*accepted, *late])
    await asyncio.to_thread(engine.close)
    again = make_test_engine(Settings(data=disk / "data", workers=1))
    again.start()
    await check_engine(again, [*accepted, *late])
    await asyncio.to_thread(again.close)
    print_line("kept:", len(accepted), "before and", len(late), "after")


async def check_engine(engine: LocalEngine, words: list[str]) -> None:
    assert await find_lost_words(engine, words) == []
    assert await engine.verify() == []
    assert (await engine.status()).index_ok


if __name__ == "__main__":
    asyncio.run(main())
