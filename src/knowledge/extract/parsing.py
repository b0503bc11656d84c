"""One document on its way through a child: first its facts, then its pages, at the reader's own pace."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from types import TracebackType

from knowledge import errors
from knowledge.extract import frames, memory
from knowledge.extract.base import Facts, PageText
from knowledge.extract.children import Child, Ending
from knowledge.extract.frames import Mark
from knowledge.extract.limits import Limits
from knowledge.extract.verdict import verdict
from knowledge.model import Json

log = logging.getLogger(__name__)

GLANCE = 0.2
"""Seconds between two looks at the caller's wish to stop and at the child's memory."""


class Parsing:
    """A context manager: inside it `facts` is known, and iterating yields the pages as the child sends them."""

    def __init__(
        self, start: Callable[[], Child], size: int, limits: Limits, cancelled: Callable[[], bool], watch_memory: bool
    ) -> None:
        self._start = start
        self._size = size
        self._limits = limits
        self._cancelled = cancelled
        self._watch_memory = watch_memory
        self._child: Child | None = None
        self._reader = frames.FrameReader()
        self._frames: deque[tuple[Mark, Json]] = deque()
        self._waited = 0.0
        """Only the time that we wait counts: a child that waits for us costs nobody anything."""
        self._pages = 0
        self._received = 0
        self._facts: Facts | None = None
        self.missing: dict[str, str] = {}
        """What of the sandbox this machine does not have, each with its reason."""

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            raise RuntimeError("The facts are known inside the with block")
        return self._facts

    def __enter__(self) -> Parsing:
        self._child = self._start()
        try:
            mark, body = self._next()
            if mark is Mark.SANDBOX:
                self.missing = frames.load_missing(body)
                _warn(tuple(self.missing.values()))
                mark, body = self._next()
            if mark is not Mark.FACTS:
                raise frames.BrokenFrame("pages came before facts")
            self._facts = frames.load_facts(body)
        except frames.BrokenFrame as error:
            raise self._broken(error) from error
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._frames.clear()
        self._stop()

    def __iter__(self) -> Iterator[PageText]:
        while True:
            try:
                mark, body = self._next()
                if mark is Mark.END:
                    return
                page = frames.load_page(body)
            except frames.BrokenFrame as error:
                raise self._broken(error) from error
            self._pages += 1
            yield page

    def _next(self) -> tuple[Mark, Json]:
        while not self._frames:
            piece = self._wait()
            if not piece:
                raise self._died()
            self._received += len(piece)
            if self._received > 2 * self._limits.text_bytes:
                raise errors.ParserTooBig("Its text is longer than is allowed", limit_bytes=self._limits.text_bytes)
            self._frames.extend(self._reader.feed(piece))
            if not self._frames:  # a page in crumbs earns no time
                self._check_time()
        mark, body = self._frames.popleft()
        if mark is Mark.ERROR:
            raise frames.load_error(body)
        return mark, body

    def _wait(self) -> bytes:
        child = self._running()
        while True:
            if self._cancelled():
                raise errors.Cancelled("The job was cancelled")
            started = time.monotonic()
            piece = child.read(GLANCE)
            self._waited += time.monotonic() - started
            if piece is not None:
                return piece
            self._judge(child)

    def _judge(self, child: Child) -> None:
        self._check_time()
        if self._watch_memory and child.pid and memory.resident(child.pid) > self._limits.memory_bytes:
            raise errors.ParserTooBig(
                "Reading it takes more memory than is allowed", limit_bytes=self._limits.memory_bytes
            )

    def _check_time(self) -> None:
        allowed = self._limits.seconds_for(self._size, self._pages)
        if self._waited > allowed:
            raise errors.ParserTooSlow(
                f"Reading it took longer than {allowed:.0f} seconds", seconds=round(allowed), pages=self._pages
            )

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("Pages can be read inside the with block only")
        return self._child

    def _died(self) -> errors.KnowledgeError:
        ending = self._stop(kill=False)
        return verdict(ending, self._limits, self._pages)

    def _broken(self, error: frames.BrokenFrame) -> errors.KnowledgeError:
        self._stop()
        return errors.ParserDied(f"The parser sent something that is no page: {error}", pages=self._pages)

    def _stop(self, kill: bool = True) -> Ending:
        child, self._child = self._child, None
        if child is None:
            return Ending(0)
        if kill:
            child.kill()
        return child.ending()


@cache  # once for each reason, not for each document
def _warn(reasons: tuple[str, ...]) -> None:
    if reasons and sys.platform == "linux":
        log.warning("Parsers are not fully contained: %s", "; ".join(reasons))
