"""Runs `child_tasks` in sandboxed child processes and validates their answers.

A hostile page may have compromised the child, so every URL that it returns is checked before use.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from knowledge.blobs.api import Blobs
from knowledge.engine.crawl.html_scan import MAX_LINKS, PageScan
from knowledge.engine.crawl.urls import MAX_URLS, is_normalized_url
from knowledge.extract.base import Source
from knowledge.extract.process import frames
from knowledge.extract.process.frames import BrokenFrame, FrameKind
from knowledge.extract.process.parsers import Parsers, TaskCall
from knowledge.extract.process.streams import FrameStream
from knowledge.model import Json
from knowledge.model.crawls import MAX_URL_CHARS

TASKS_MODULE = "knowledge.engine.crawl.child_tasks"
TASK_SECONDS = 30.0
MAX_ANSWER_BYTES = 200 << 20
CHARSET_NAME = re.compile(r"[\w.:-]{1,40}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    fields: Json
    urls: tuple[str, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class ScannedPage:
    scan: PageScan
    charset: str | None
    """The charset to use instead of the one that the page declares; None keeps the declared one."""


@dataclass(frozen=True, slots=True)
class RobotsFile:
    delay: float | None
    sitemaps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SitemapFile:
    is_index: bool
    """The URLs are those of other sitemaps."""
    urls: tuple[str, ...]


class SiteReader:
    """Parses site files, each call in a new child process that is killed when the call is cancelled."""

    def __init__(self, parsers: Parsers, files: Blobs) -> None:
        self._parsers, self._files = parsers, files
        self._limits = replace(
            parsers.limits, seconds=min(parsers.limits.seconds, TASK_SECONDS), text_bytes=MAX_ANSWER_BYTES
        )

    async def scan_page(self, body: bytes, url: str, charset: str | None, robots_header: str) -> ScannedPage:
        return await self._run_task(
            "read_page", {"url": url, "charset": charset, "robots_header": robots_header}, body, _load_page
        )

    async def decode_text(self, body: bytes, charset: str | None) -> bytes:
        """Return a plain text file in UTF-8, decoded with `charset` unless the text shows its own encoding."""

        def load(answer: ChildAnswer) -> bytes:
            return answer.data if frames.read_flag_field(answer.fields, "rewritten") else body

        return await self._run_task("rewrite_text", {"charset": charset}, body, load)

    async def parse_robots(self, text: str, base: str, agent: str) -> RobotsFile:
        return await self._run_task("read_robots", {"text": text, "base": base, "agent": agent}, None, _load_robots)

    async def may_fetch(self, text: str, url: str, agent: str) -> bool:
        arguments: Json = {"text": text, "url": url, "agent": agent}
        return await self._run_task(
            "check_robots", arguments, None, lambda answer: frames.read_flag_field(answer.fields, "allowed")
        )

    async def parse_sitemap(self, body: bytes, base_url: str) -> SitemapFile:
        return await self._run_task("read_sitemap", {"base_url": base_url}, body, _load_sitemap)

    async def parse_llms(self, body: bytes, base_url: str) -> tuple[str, ...]:
        return await self._run_task("read_llms", {"base_url": base_url}, body, lambda answer: answer.urls)

    async def _run_task(self, task: str, arguments: Json, body: bytes | None, load: Callable[[ChildAnswer], T]) -> T:
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(
                self._run_child, TaskCall(f"{TASKS_MODULE}:{task}", arguments), body, load, cancelled.is_set
            )
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _run_child(
        self, call: TaskCall, body: bytes | None, load: Callable[[ChildAnswer], T], cancelled: Callable[[], bool]
    ) -> T:
        with (
            self._spool_body(body) as source,
            self._parsers.run_task(FrameStream, call, source, cancelled=cancelled, limits=self._limits) as exchange,
        ):
            try:
                return load(_receive_answer(exchange))
            except BrokenFrame as error:
                raise exchange.stop_with_error(error) from error

    @contextmanager
    def _spool_body(self, body: bytes | None) -> Iterator[Source | None]:
        """Write a response body to a temporary file that the child can open."""
        if body is None:
            yield None
            return
        file = self._files.open_incoming(len(body))
        try:
            file.write(body)
            yield Source(file.path, "page")
        finally:
            file.discard()


def _receive_answer(exchange: FrameStream) -> ChildAnswer:
    kind, first = exchange.receive_frame()
    if kind is not FrameKind.ANSWER:
        raise BrokenFrame(f"expected an ANSWER frame, got {kind.name}")
    urls: list[str] = []
    data = bytearray()
    for kind, payload in exchange.receive_frames():
        if kind is FrameKind.LINES and len(urls) <= MAX_URLS:
            urls += payload.text.split("\n")
        elif kind is FrameKind.DATA:
            data += payload.data
        else:
            raise BrokenFrame(f"unexpected {kind.name} frame after {len(urls)} URLs")
    if not all(map(is_normalized_url, urls)):
        raise BrokenFrame("invalid URL")
    return ChildAnswer(first.head, tuple(urls[:MAX_URLS]), bytes(data))


def _load_page(answer: ChildAnswer) -> ScannedPage:
    fields = answer.fields
    canonical, charset = (
        frames.read_text_field(fields, "canonical", MAX_URL_CHARS),
        frames.read_text_field(fields, "charset", 40),
    )
    if (canonical is not None and not is_normalized_url(canonical)) or (
        charset is not None and not CHARSET_NAME.fullmatch(charset)
    ):
        raise BrokenFrame("invalid canonical URL or charset")
    index, follow, scripted = (frames.read_flag_field(fields, name) for name in ("index", "follow", "scripted"))
    return ScannedPage(PageScan(answer.urls[: MAX_LINKS + 1], canonical, index, follow, scripted), charset)


def _load_robots(answer: ChildAnswer) -> RobotsFile:
    delay = answer.fields.get("delay")
    if delay is not None and (not isinstance(delay, int | float) or not 0 <= delay < float("inf")):
        raise BrokenFrame("invalid crawl delay")
    return RobotsFile(None if delay is None else float(delay), answer.urls)


def _load_sitemap(answer: ChildAnswer) -> SitemapFile:
    return SitemapFile(frames.read_flag_field(answer.fields, "index"), answer.urls)
