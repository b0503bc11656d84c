"""The parent's side of one child: its frames, one after the other, under limits that really interrupt it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from types import TracebackType
from typing import Self

from knowledge import errors
from knowledge.extract.process import frames, rss
from knowledge.extract.process.exit_reason import verdict
from knowledge.extract.process.frames import Mark, Payload
from knowledge.extract.process.protocol import Child, Ending, Limits

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
"""Between two looks at the caller's wish to stop and at the child's memory."""
MAX_FRAMES = 5_000_000


class Exchange:
    """A context manager: inside it, the child runs. What it sends waits in the pipe until it is asked for."""

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
        self._waited = 0.0
        """Only the time that we wait counts: a child that waits for us costs nobody anything."""
        self._progress = 0
        self._frames = 0
        self._received = 0
        self.missing: dict[str, str] = {}
        """What of the sandbox this machine does not have, each with its reason; the child says so first."""

    def __enter__(self) -> Self:
        self._child = self._start()
        try:
            self.begin()
        except BaseException:
            self._stop()
            raise
        return self

    def begin(self) -> None:
        """Read what stands at the beginning of the answer, if something does."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def receive(self) -> Iterator[tuple[Mark, Payload]]:
        """The frames up to the end; raises what the child raised, or why it ended without one."""
        while True:
            mark, payload = self.next()
            if mark is Mark.END:
                return
            yield mark, payload

    def next(self) -> tuple[Mark, Payload]:
        try:
            mark, payload = self._next()
            if mark is Mark.SANDBOX:
                self.missing = frames.load_missing(payload)
                _warn(tuple(self.missing.values()))
                mark, payload = self._next()
            if mark is Mark.ERROR:
                raise frames.load_error(payload)
        except frames.BrokenFrame as error:
            raise self.broken(error) from error
        if mark in frames.PROGRESS:
            self._progress += 1
        return mark, payload

    def broken(self, error: frames.BrokenFrame) -> errors.KnowledgeError:
        self._stop()
        return errors.ParserDied(f"The parser sent something that is no page: {error}", pages=self._progress)

    def _next(self) -> tuple[Mark, Payload]:
        while (frame := self._reader.pop()) is None:
            self._check_time()  # a page that comes in crumbs earns no time
            piece = self._wait()
            if not piece:
                raise self._died()
            self._received += len(piece)
            if self._received > 2 * self._limits.text_bytes:
                raise errors.ParserTooBig("Its text is longer than is allowed", limit_bytes=self._limits.text_bytes)
            self._reader.push(piece)
        self._frames += 1
        if self._frames > MAX_FRAMES:
            raise errors.ParserTooBig("It has more passages than are allowed", limit=MAX_FRAMES)
        return frame

    def _wait(self) -> bytes:
        child = self._running()
        while True:
            if self._cancelled():
                raise errors.Cancelled("The job was cancelled")
            started = time.monotonic()
            piece = child.read(POLL_SECONDS)
            self._waited += time.monotonic() - started
            if piece is not None:
                return piece
            self._judge(child)

    def _judge(self, child: Child) -> None:
        self._check_time()
        if self._watch_memory and child.pid and rss.resident(child.pid) > self._limits.memory_bytes:
            raise errors.ParserTooBig(
                "Reading it takes more memory than is allowed", limit_bytes=self._limits.memory_bytes
            )

    def _check_time(self) -> None:
        allowed = self._limits.seconds_for(self._size, self._progress)
        if self._waited > allowed:
            raise errors.ParserTooSlow(
                f"Reading it took longer than {allowed:.0f} seconds", seconds=round(allowed), pages=self._progress
            )

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("A child answers inside the with block only")
        return self._child

    def _died(self) -> errors.KnowledgeError:
        ending = self._stop(kill=False)
        return verdict(ending, self._limits, self._progress)

    def _stop(self, kill: bool = True) -> Ending:
        child, self._child = self._child, None
        self._reader = frames.FrameReader()
        if child is None:
            return Ending(0)
        if kill:
            child.kill()
        return child.ending()


@cache  # once for each reason, not for each document
def _warn(reasons: tuple[str, ...]) -> None:
    if reasons and sys.platform == "linux":
        log.warning("Parsers are not fully contained: %s", "; ".join(reasons))
