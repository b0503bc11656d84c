"""The crawl's side of what a child reads for it. What comes back may be the word of a child that a page has taken over:
every address is checked before it is used."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from knowledge.engine.crawl.addresses import is_address
from knowledge.engine.crawl.html_scan import MOST_LINKS, Sight
from knowledge.engine.crawl.sitemaps import MOST_ADDRESSES
from knowledge.extract.base import Source
from knowledge.extract.process import frames
from knowledge.extract.process.exchange import Exchange
from knowledge.extract.process.frames import BrokenFrame, Mark
from knowledge.extract.process.parsers import Call, Parsers
from knowledge.model import Json
from knowledge.model.crawls import LONGEST_URL
from knowledge.store.files import FileStore

TASKS = "knowledge.engine.crawl.child_tasks"
SECONDS = 30.0
"""What reading one page, one list or one rule may take."""
MOST_BYTES = 200 << 20
CHARSET = re.compile(r"[\w.:-]{1,40}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    fields: Json
    urls: tuple[str, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class PageSeen:
    sight: Sight
    charset: str | None
    """The encoding, where the page itself does not tell it or tells it wrongly."""


@dataclass(frozen=True, slots=True)
class RobotsRead:
    delay: float | None
    sitemaps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SitemapRead:
    index: bool
    """Whether it lists other sitemaps."""
    urls: tuple[str, ...]


class SiteReader:
    """Each call is one child; it is killed when the caller is cancelled."""

    def __init__(self, parsers: Parsers, files: FileStore) -> None:
        self._parsers, self._files = parsers, files
        self._limits = replace(parsers.limits, seconds=min(parsers.limits.seconds, SECONDS), text_bytes=MOST_BYTES)

    async def page(self, body: bytes, url: str, charset: str | None, wishes: str) -> PageSeen:
        return await self._ask("read_page", {"url": url, "charset": charset, "wishes": wishes}, body, _load_page)

    async def plain_text(self, body: bytes, charset: str | None) -> bytes:
        """The text in UTF-8, as far as the site knows its encoding."""

        def load(answer: Answer) -> bytes:
            return answer.data if frames.flag_of(answer.fields, "rewritten") else body

        return await self._ask("rewrite_text", {"charset": charset}, body, load)

    async def robots(self, text: str, base: str, agent: str) -> RobotsRead:
        return await self._ask("read_robots", {"text": text, "base": base, "agent": agent}, None, _load_robots)

    async def may_fetch(self, text: str, url: str, agent: str) -> bool:
        arguments: Json = {"text": text, "url": url, "agent": agent}
        return await self._ask("check_robots", arguments, None, lambda answer: frames.flag_of(answer.fields, "allowed"))

    async def sitemap(self, body: bytes, place: str) -> SitemapRead:
        return await self._ask("read_sitemap", {"place": place}, body, _load_sitemap)

    async def llms(self, body: bytes, place: str) -> tuple[str, ...]:
        return await self._ask("read_llms", {"place": place}, body, lambda answer: answer.urls)

    async def _ask(self, task: str, arguments: Json, body: bytes | None, load: Callable[[Answer], T]) -> T:
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(self._run, Call(f"{TASKS}:{task}", arguments), body, load, cancelled.is_set)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _run(self, call: Call, body: bytes | None, load: Callable[[Answer], T], cancelled: Callable[[], bool]) -> T:
        with (
            self._kept(body) as source,
            self._parsers.run(Exchange, call, source, cancelled=cancelled, limits=self._limits) as exchange,
        ):
            try:
                return load(_receive(exchange))
            except BrokenFrame as error:
                raise exchange.broken(error) from error

    @contextmanager
    def _kept(self, body: bytes | None) -> Iterator[Source | None]:
        """What was fetched, as a file that the child can open."""
        if body is None:
            yield None
            return
        file = self._files.incoming(len(body))
        try:
            file.write(body)
            yield Source(file.path, "page")
        finally:
            file.discard()


def _receive(exchange: Exchange) -> Answer:
    mark, first = exchange.next()
    if mark is not Mark.ANSWER:
        raise BrokenFrame(f"{mark.name} where an answer was due")
    urls: list[str] = []
    data = bytearray()
    for mark, payload in exchange.receive():
        if mark is Mark.LINES and len(urls) <= MOST_ADDRESSES:
            urls += payload.text.split("\n")
        elif mark is Mark.DATA:
            data += payload.data
        else:
            raise BrokenFrame(f"{mark.name} where an address was due")
    if not all(map(is_address, urls)):
        raise BrokenFrame("an address is none")
    return Answer(first.head, tuple(urls[:MOST_ADDRESSES]), bytes(data))


def _load_page(answer: Answer) -> PageSeen:
    said = answer.fields
    canonical, charset = frames.text_of(said, "canonical", LONGEST_URL), frames.text_of(said, "charset", 40)
    if (canonical is not None and not is_address(canonical)) or (
        charset is not None and not CHARSET.fullmatch(charset)
    ):
        raise BrokenFrame("what the page says of itself cannot be")
    index, follow, scripted = (frames.flag_of(said, name) for name in ("index", "follow", "scripted"))
    return PageSeen(Sight(answer.urls[: MOST_LINKS + 1], canonical, index, follow, scripted), charset)


def _load_robots(answer: Answer) -> RobotsRead:
    delay = answer.fields.get("delay")
    if delay is not None and (not isinstance(delay, int | float) or not 0 <= delay < float("inf")):
        raise BrokenFrame("the delay is not a number")
    return RobotsRead(None if delay is None else float(delay), answer.urls)


def _load_sitemap(answer: Answer) -> SitemapRead:
    return SitemapRead(frames.flag_of(answer.fields, "index"), answer.urls)
