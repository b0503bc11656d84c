"""Imports, replacements, deletions and crawls that go on while the clients search."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.data.extract import documents
from tests.soak.record import Acknowledged, make_text, make_word
from tests.soak.server import RestartedServer
from tests.support.pdfs import place_lines
from tests.support.web_site import WebSite

POLL_SECONDS = 0.25
DOCUMENTS_PER_WRITER = 25
REMOVED_SHARE = 0.3
CRAWLED_PAGES = 8
CHANGED_PAGES = 2
"""Pages that have a new text in each crawl."""


class ChangeFailure(Exception):
    """A change was refused, or its job failed."""


@dataclass
class Writer:
    """Changes documents over REST and repeats every request that the end of a server has interrupted."""

    server: RestartedServer
    acknowledged: Acknowledged
    http: httpx.AsyncClient
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Shared by all writers, so that each text has a word of its own."""

    async def send(self, method: str, path: str, **body: Any) -> httpx.Response:
        """Send a request until it is answered; the server may be stopped in between."""
        while True:
            await self.server.ready.wait()
            epoch = self.server.epoch
            try:
                answer = await self.http.request(method, path, **body)
            except httpx.TransportError as error:
                if self.server.epoch == epoch and epoch % 2 == 0:
                    raise ChangeFailure(f"{method} {path}: {type(error).__name__}: {error}") from error
                continue
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and self.server.epoch != epoch:
                continue
            return answer

    async def send_expecting(self, status: int, method: str, path: str, **body: Any) -> dict[str, Any]:
        answer = await self.send(method, path, **body)
        if answer.status_code != status:
            raise ChangeFailure(f"{method} {path}: HTTP {answer.status_code}: {answer.text[:500]}")
        found: dict[str, Any] = answer.json()
        return found

    async def wait_for_job(self, job: int) -> dict[str, Any]:
        while True:
            found = await self.send_expecting(200, "GET", f"/jobs/{job}")
            if found["status"] not in ("queued", "processing"):
                if found["status"] != "completed":
                    raise ChangeFailure(f"job {job}: {found}")
                return found
            await asyncio.sleep(POLL_SECONDS)

    async def change_documents(self, number: int, rng: random.Random, pause_seconds: float) -> None:
        """Add, replace and delete the documents of one writer until it is cancelled."""
        while True:
            path = f"/soak/{number}/{rng.randrange(DOCUMENTS_PER_WRITER)}"
            if path in self.acknowledged.stored and rng.random() < REMOVED_SHARE:
                await self.remove(path)
            else:
                await self.add(path, rng)
            await asyncio.sleep(rng.uniform(0.5, 1.5) * pause_seconds)

    async def add(self, path: str, rng: random.Random) -> None:
        word = make_word(next(self.numbers))
        fields = {"source_path": path, "job_uid": str(uuid.UUID(int=rng.getrandbits(128), version=4))}
        self.acknowledged.begin(path)
        text, kind = make_text(word, rng), rng.choice(["note", "md", "txt", "html", "pdf"])
        if kind == "note":
            accepted = await self.send_expecting(202, "POST", "/jobs", json={"note": text, **fields})
        else:
            upload = {"file": (f"{word}.{kind}", make_file(kind, text))}
            accepted = await self.send_expecting(202, "POST", "/jobs", data=fields, files=upload)
        await self.wait_for_job(accepted["job_id"])
        change = "replaced" if path in self.acknowledged.stored else "added"
        self.acknowledged.finish(path, word, change)

    async def remove(self, path: str) -> None:
        self.acknowledged.begin(path)
        found = await self.send_expecting(200, "GET", "/documents", params={"source_path": path})
        if len(found["documents"]) != 1:
            raise ChangeFailure(f"{path} is acknowledged and has {len(found['documents'])} documents")
        epoch = self.server.epoch
        answer = await self.send("DELETE", f"/documents/{found['documents'][0]['id']}")
        if answer.status_code == httpx.codes.NOT_FOUND and self.server.epoch == epoch:
            raise ChangeFailure(f"{path} is acknowledged and was not there to be deleted")
        if answer.status_code not in (httpx.codes.OK, httpx.codes.NOT_FOUND):
            raise ChangeFailure(f"DELETE {path}: HTTP {answer.status_code}: {answer.text[:500]}")
        self.acknowledged.finish(path, None, "deleted")

    async def crawl_repeatedly(self, site: WebSite, rng: random.Random, pause_seconds: float) -> None:
        """Crawl a site into the same collection until cancelled; some of its pages change before each crawl."""
        source: str | None = None
        pages = [f"/page{number}" for number in range(CRAWLED_PAGES)]
        while True:
            changed = pages if source is None else rng.sample(pages, CHANGED_PAGES)
            words = {page: make_word(next(self.numbers)) for page in changed}
            for page, word in words.items():
                self.acknowledged.begin(page)
                site.put_page(page, *pages, title=f"Page {word}", text=make_text(word, rng))
            body = {"url": site.url + pages[0], "recursive": True, "max_pages": 2 * CRAWLED_PAGES}
            uid = str(uuid.UUID(int=rng.getrandbits(128), version=4))
            chosen = {} if source is None else {"source_id": source}
            accepted = await self.send_expecting(202, "POST", "/crawls", json={**body, **chosen, "job_uid": uid})
            await self.wait_for_job(accepted["id"])
            source = accepted["source_id"]
            for page, word in words.items():
                self.acknowledged.finish(page, word, "crawled")
            await asyncio.sleep(rng.uniform(0.5, 1.5) * pause_seconds)


def make_file(kind: str, text: str) -> bytes:
    """Return a text as a file of some format."""
    if kind == "pdf":
        pdf = documents.Pdf()
        pdf.text(*place_lines(60, 80, [line for line in text.splitlines() if line][:40]))
        return pdf.to_bytes()
    if kind == "html":
        paragraphs = "".join(f"<p>{line}</p>" for line in text.splitlines() if line)
        return f"<!doctype html><title>Register</title><main>{paragraphs}</main>".encode()
    return text.encode()
