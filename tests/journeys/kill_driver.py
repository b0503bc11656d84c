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
from knowledge.testing import make_test_engine

POLL_SECONDS = 0.01
WAIT_SECONDS = 600.0
"""How long a job or an update may take. On a busy machine the usual 50 seconds of an update are not always enough, and
the driver would end with DeadlineExceeded instead of being killed."""
DIGITS = str.maketrans("0123456789", "abcdfghjkl")
LONG_TEXT = "\n\n".join(f"Paragraph {number} about rivers, hills and boats on the water." for number in range(400))


def print_line(*words: object) -> None:
    print(*words, flush=True)


def word_of(key: int, version: int) -> str:
    """A word of letters alone, for each version of each key its own."""
    return f"{key}n{version}q".translate(DIGITS)


def text_of(key: int, version: int, long: bool) -> str:
    return f"{word_of(key, version)} stands here as version {version}." + (f"\n\n{LONG_TEXT}" if long else "")


async def change_document_forever(engine: LocalEngine, key: int, seed: int, first: int) -> None:
    """Add, replace, update and remove one document for ever."""
    rng = random.Random(f"{seed}-{key}")
    path, note = f"/kill/{key}", key % 2 == 0
    version = first
    while True:
        version += 1
        found = (await engine.documents(DocumentFilter(source_path=path))).items
        if found and rng.random() < 0.3:
            print_line("try", key, 0)
            await engine.remove(found[0].id)
            print_line("ack", key, 0)
            continue
        text = text_of(key, version, long=rng.random() < 0.3)
        print_line("try", key, version)
        try:
            if found and note and rng.random() < 0.5:
                await engine.update_note(found[0].id, text)
            elif note:
                await wait_for_job(engine, (await engine.add(NewNote(text=text, source_path=path))).id)
            else:
                content = Content.from_bytes(text.encode())
                await wait_for_job(
                    engine, (await engine.add(NewFile(filename="k.txt", content=content, source_path=path))).id
                )
        except Duplicate:
            continue
        print_line("ack", key, version)


async def wait_for_job(engine: LocalEngine, job: int) -> None:
    state = await engine.wait(job, WAIT_SECONDS)
    assert state.status.value == "completed", state


async def run_background_load(engine: LocalEngine, what: str) -> None:
    """Something big beside the small steps."""
    while what == "reindex":
        await engine.reindex()
    for number in count() if what == "model" else ():
        await engine.reindex(f"model-{number % 2}")
        while (await engine.status()).model.next is not None:
            await asyncio.sleep(POLL_SECONDS)
    while what == "backup":
        archive = await engine.backup()
        async for _ in archive.pieces:
            pass


async def wait_for_all_jobs(engine: LocalEngine) -> None:
    """Wait until every job has ended."""
    while (status := await engine.status()).queued + status.processing:
        for job in (await engine.jobs(JobFilter(per_page=200))).items:
            await engine.wait(job.id, WAIT_SECONDS)


async def main() -> None:
    data, seed, first, what = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    engine = make_test_engine(Settings(data=data, workers=2, wait_s=WAIT_SECONDS))
    engine.start()
    print_line("ready")
    if what == "drain":
        await wait_for_all_jobs(engine)
        engine.close()
        return
    await asyncio.gather(
        *(change_document_forever(engine, key, seed, first) for key in range(4)), run_background_load(engine, what)
    )


if __name__ == "__main__":
    asyncio.run(main())
