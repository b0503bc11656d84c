"""An engine on a disk that fills up: it says so, keeps what it acknowledged, and goes on when there is room again."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine, raise_failure
from knowledge.errors import DiskFull
from knowledge.model import Job, JobStatus, Mode, NewNote, Query
from knowledge.testing import small_engine

BALLAST = 3 << 20
MOST = 2000
GLANCE, PATIENCE = 0.5, 120.0


def say(*words: object) -> None:
    print(*words, flush=True)


def a_note(number: int) -> tuple[str, str]:
    """A word of its own, and a text of a few passages around it."""
    letters = random.Random(number).choices("abcdefghijklmnop", k=12)
    word = "".join(letters)
    return word, f"{word} stands here.\n\n" + "\n\n".join(f"Line {line} of note {word}." * 8 for line in range(12))


async def add(engine: LocalEngine, number: int) -> tuple[str, Job]:
    """The word by which the note is found, and its job: ended, or waiting for an index that has no room."""
    word, text = a_note(number)
    job = await engine.add(NewNote(text=text))
    while not (job := await engine.wait(job.id, GLANCE)).status.ended:
        if not (await engine.status()).index_ok:
            break
    raise_failure(job)
    return word, job


async def fill(engine: LocalEngine) -> tuple[dict[str, Job], DiskFull]:
    """Everything that was accepted, and the refusal in the end."""
    accepted: dict[str, Job] = {}
    for number in range(MOST):
        try:
            word, job = await add(engine, number)
        except DiskFull as error:
            return accepted, error
        accepted[word] = job
    raise AssertionError("the disk never filled up")


async def lost(engine: LocalEngine, words: list[str]) -> list[str]:
    missing = []
    for word in words:
        answer = await engine.search(Query(text=word, mode=Mode.TEXT))
        if not any(word in hit.chunk.text for hit in answer.hits):
            missing.append(word)
    return missing


async def main() -> None:
    disk = Path(sys.argv[1])
    (disk / "ballast").write_bytes(b"\1" * BALLAST)
    engine = small_engine(Settings(data=disk / "data", workers=1))
    engine.start()
    accepted, error = await fill(engine)
    say("refused:", error, error.hint)
    say("issues:", *(await engine.status()).issues)
    completed = [word for word, job in accepted.items() if job.status.ended]
    assert await lost(engine, completed) == [], "full, and something is lost"
    (disk / "ballast").unlink()
    for job in accepted.values():
        assert (await engine.wait(job.id, PATIENCE)).status is JobStatus.COMPLETED
    late = [(await add(engine, MOST + number))[0] for number in range(3)]
    await check(engine, [*accepted, *late])
    await asyncio.to_thread(engine.close)
    again = small_engine(Settings(data=disk / "data", workers=1))
    again.start()
    await check(again, [*accepted, *late])
    await asyncio.to_thread(again.close)
    say("kept:", len(accepted), "before and", len(late), "after")


async def check(engine: LocalEngine, words: list[str]) -> None:
    assert await lost(engine, words) == []
    assert await engine.verify() == []
    assert (await engine.status()).index_ok


if __name__ == "__main__":
    asyncio.run(main())
