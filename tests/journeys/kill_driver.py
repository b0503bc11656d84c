"""Changes documents until it is killed, and prints each change before it starts and after it is acknowledged.

Each key is one document. The text of each version has a unique word, so a search shows which version is stored.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.errors import Duplicate, NotNow
from knowledge.model import Content, DocumentFilter, JobFilter, JobStatus, NewFile, NewNote
from knowledge.model.crawls import NewCrawl
from knowledge.testing import make_test_engine

POLL_SECONDS = 0.01
WAIT_SECONDS = 600.0
"""Limit for a job or an update: on a busy machine the default of 50 seconds would end the driver with DeadlineExceeded
before it is killed."""
CANCELLED_KEY = 4
"""The key whose adds are cancelled."""
DIGITS_TO_LETTERS = str.maketrans("0123456789", "abcdfghjkl")
REMOVED_SHARES = {"ingest": 0.5, "replace": 0.05, "delete": 0.5}
"""How often a stored document is removed instead of replaced, by task."""
CRAWLED_PAGES = 20
LONG_TEXT = "\n\n".join(f"Paragraph {number} about rivers, hills and boats on the water." for number in range(400))


def print_line(*words: object) -> None:
    print(*words, flush=True)


def make_word(key: int, version: int) -> str:
    """Return the unique word of a version, which has letters only."""
    return f"{key}n{version}q".translate(DIGITS_TO_LETTERS)


def make_text(key: int, version: int, long: bool) -> str:
    return f"{make_word(key, version)} is version {version}." + (f"\n\n{LONG_TEXT}" if long else "")


async def change_document_forever(
    engine: LocalEngine, key: int, seed: int, first_version: int, removed_share: float = 0.3
) -> None:
    """Add, replace, update and remove one document in an endless loop."""
    rng = random.Random(f"{seed}-{key}")
    path, is_note = f"/kill/{key}", key % 2 == 0
    version = first_version
    while True:
        version += 1
        found = (await engine.documents(DocumentFilter(source_path=path))).items
        if found and rng.random() < removed_share:
            print_line("try", key, 0)
            await engine.remove(found[0].id)
            print_line("ack", key, 0)
            continue
        text = make_text(key, version, long=rng.random() < 0.3)
        print_line("try", key, version)
        try:
            if found and is_note and rng.random() < 0.5:
                await engine.update_note(found[0].id, text)
            elif is_note:
                await wait_for_job(engine, (await engine.add(NewNote(text=text, source_path=path))).id)
            else:
                content = Content.from_bytes(text.encode())
                await wait_for_job(
                    engine, (await engine.add(NewFile(filename="k.txt", content=content, source_path=path))).id
                )
        except Duplicate:
            continue
        print_line("ack", key, version)


async def cancel_adds_forever(engine: LocalEngine, seed: int, first: int) -> None:
    """Add a new document, cancel the job at any moment, and remove the document if that was too late; for ever."""
    rng = random.Random(f"{seed}-cancel")
    path = f"/kill/{CANCELLED_KEY}"
    for version in count(first + 1):
        for document in (await engine.documents(DocumentFilter(source_path=path))).items:
            print_line("try", CANCELLED_KEY, 0)
            await engine.remove(document.id)
            print_line("ack", CANCELLED_KEY, 0)
        print_line("try", CANCELLED_KEY, version)
        text = make_text(CANCELLED_KEY, version, long=rng.random() < 0.5)
        job = await engine.add(NewNote(text=text, source_path=path))
        await asyncio.sleep(rng.random() * 0.2)
        with suppress(NotNow):  # it has ended
            await engine.cancel(job.id)
        ended = await engine.wait(job.id, WAIT_SECONDS)
        assert ended.status in (JobStatus.COMPLETED, JobStatus.CANCELLED), ended
        print_line("ack", CANCELLED_KEY, version if ended.status is JobStatus.COMPLETED else 0)


async def wait_for_job(engine: LocalEngine, job: int) -> None:
    state = await engine.wait(job, WAIT_SECONDS)
    assert state.status.value == "completed", state


async def run_background_load(engine: LocalEngine, load: str) -> None:
    """Reindex, change the model or make backups in an endless loop."""
    while load == "reindex":
        await engine.reindex()
    for number in count() if load == "model" else ():
        await engine.reindex(f"model-{number % 2}")
        while (await engine.status()).model.next is not None:
            await asyncio.sleep(POLL_SECONDS)
    while load == "backup":
        archive = await engine.backup()
        async for _ in archive.pieces:
            pass


async def crawl_forever(engine: LocalEngine, url: str, collection: str) -> None:
    """Crawl a site into one collection in an endless loop, and print each crawl that was accepted."""
    for number in count(1):
        new = NewCrawl(url=url, recursive=True, max_pages=CRAWLED_PAGES, title=collection)
        print_line("try", 0, number)
        job = await engine.crawl(new)
        print_line("ack", 0, number)
        await engine.wait(job.id, WAIT_SECONDS)


async def wait_for_all_jobs(engine: LocalEngine) -> None:
    while (status := await engine.status()).queued + status.processing:
        for job in (await engine.jobs(JobFilter(per_page=200))).items:
            await engine.wait(job.id, WAIT_SECONDS)


async def main() -> None:
    data, seed, first_version, task = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    settings = Settings(data=data, workers=2, wait_s=WAIT_SECONDS, crawl_delay=0, crawl_allow="127.0.0.1")
    engine = make_test_engine(settings)
    engine.start()
    print_line("ready")
    if task == "drain":
        await wait_for_all_jobs(engine)
        engine.close()
        return
    if task == "crawl":
        await crawl_forever(engine, sys.argv[5], "site")
    share = REMOVED_SHARES.get(task, 0.3)
    await asyncio.gather(
        *(change_document_forever(engine, key, seed, first_version, share) for key in range(CANCELLED_KEY)),
        cancel_adds_forever(engine, seed, first_version),
        run_background_load(engine, task),
    )


if __name__ == "__main__":
    asyncio.run(main())
