"""A process that works until it is killed, and says on standard output what it was told was done.

Each key is a document of its own; its texts carry a word that no other version has, so that a search tells which one
is there.
"""

from __future__ import annotations

import asyncio
import random
import sys
from itertools import count
from pathlib import Path

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.errors import Duplicate
from knowledge.model import Content, DocumentFilter, JobFilter, NewFile, NewNote
from knowledge.testing import small_engine

GLANCE = 0.01
DIGITS = str.maketrans("0123456789", "abcdfghjkl")
LONG = "\n\n".join(f"Paragraph {number} about rivers, hills and boats on the water." for number in range(400))


def say(*words: object) -> None:
    print(*words, flush=True)


def word_of(key: int, version: int) -> str:
    """A word of letters alone, for each version of each key its own."""
    return f"{key}n{version}q".translate(DIGITS)


def text_of(key: int, version: int, long: bool) -> str:
    return f"{word_of(key, version)} stands here as version {version}." + (f"\n\n{LONG}" if long else "")


async def work_on(engine: LocalEngine, key: int, seed: int, first: int) -> None:
    """Add, replace, update and remove one document for ever."""
    rng = random.Random(f"{seed}-{key}")
    path, note = f"/kill/{key}", key % 2 == 0
    version = first
    while True:
        version += 1
        found = (await engine.documents(DocumentFilter(source_path=path))).items
        if found and rng.random() < 0.3:
            say("try", key, 0)
            await engine.remove(found[0].id)
            say("ack", key, 0)
            continue
        text = text_of(key, version, long=rng.random() < 0.3)
        say("try", key, version)
        try:
            if found and note and rng.random() < 0.5:
                await engine.update_note(found[0].id, text)
            elif note:
                await ended(engine, (await engine.add(NewNote(text=text, source_path=path))).id)
            else:
                content = Content.of(text.encode())
                await ended(engine, (await engine.add(NewFile(filename="k.txt", content=content, source_path=path))).id)
        except Duplicate:
            continue
        say("ack", key, version)


async def ended(engine: LocalEngine, job: int) -> None:
    state = await engine.wait(job, 120)
    assert state.status.value == "completed", state


async def disturb(engine: LocalEngine, what: str) -> None:
    """Something big beside the small steps."""
    while what == "reindex":
        await engine.reindex()
    for number in count() if what == "model" else ():
        await engine.reindex(f"model-{number % 2}")
        while (await engine.status()).model.next is not None:
            await asyncio.sleep(GLANCE)
    while what == "backup":
        archive = await engine.backup()
        async for _ in archive.pieces:
            pass


async def drain(engine: LocalEngine) -> None:
    """Wait until every job has ended."""
    while (status := await engine.status()).queued + status.processing:
        for job in (await engine.jobs(JobFilter(per_page=200))).items:
            await engine.wait(job.id, 120)


async def main() -> None:
    data, seed, first, what = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    engine = small_engine(Settings(data=data, workers=2))
    engine.start()
    say("ready")
    if what == "drain":
        await drain(engine)
        engine.close()
        return
    await asyncio.gather(*(work_on(engine, key, seed, first) for key in range(4)), disturb(engine, what))


if __name__ == "__main__":
    asyncio.run(main())
