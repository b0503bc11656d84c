"""The parent's side of one child: reads its frames and enforces limits of time, memory and size."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from types import TracebackType
from typing import Self

from knowledge import errors
from knowledge.extract.base import Facts, PageText
from knowledge.extract.process import frames
from knowledge.extract.process.child import ChildExit, ChildProcess, ParserLimits, explain_exit
from knowledge.extract.process.frames import FrameKind, Payload
from knowledge.extract.process.process_memory import read_resident_bytes
from knowledge.extract.zip_bundle import MAX_NAME_CHARS

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
"""Interval of the checks for cancellation, time and memory."""
MAX_FRAMES = 5_000_000


class FrameStream:
    """Reads the frames of one child; the child blocks on a full pipe while the caller is slow (backpressure)."""

    def __init__(
        self,
        start: Callable[[], ChildProcess],
        size: int,
        limits: ParserLimits,
        cancelled: Callable[[], bool],
        watch_memory: bool,
    ) -> None:
        self._start_child = start
        self._size = size
        self._limits = limits
        self._cancelled = cancelled
        self._watch_memory = watch_memory
        self._child: ChildProcess | None = None
        self._reader = frames.FrameDecoder()
        self._waited_seconds = 0.0
        """Time spent waiting for the child; a child that waits for its reader is not charged."""
        self._progress_frames = 0
        self._frame_count = 0
        self._received_bytes = 0
        self.missing_protections: dict[str, str] = {}
        """Protections that this machine lacks, each with the reason."""

    def __enter__(self) -> Self:
        self._child = self._start_child()
        try:
            self.read_start()
        except BaseException:
            self._stop()
            raise
        return self

    def read_start(self) -> None:
        """Read the frames that come before the iteration; overridden by streams that have such frames."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def receive_frames(self) -> Iterator[tuple[FrameKind, Payload]]:
        """Yield the frames up to END; raise the error that the child sent, or the reason of its early exit."""
        while True:
            kind, payload = self.receive_frame()
            if kind is FrameKind.END:
                return
            yield kind, payload

    def receive_frame(self) -> tuple[FrameKind, Payload]:
        try:
            kind, payload = self._read_frame()
            if kind is FrameKind.SANDBOX:
                self.missing_protections = frames.load_missing_protections(payload)
                _warn_missing_protections(tuple(self.missing_protections.values()))
                kind, payload = self._read_frame()
            if kind is FrameKind.ERROR:
                raise frames.load_error(payload)
        except frames.BrokenFrame as error:
            raise self.stop_with_error(error) from error
        if kind in frames.PROGRESS_KINDS:
            self._progress_frames += 1
        return kind, payload

    def stop_with_error(self, error: frames.BrokenFrame) -> errors.KnowledgeError:
        self._stop()
        return errors.ParserDied(f"The parser sent invalid data: {error}", pages=self._progress_frames)

    def _read_frame(self) -> tuple[FrameKind, Payload]:
        while (frame := self._reader.take_frame()) is None:
            self._check_time()  # also for a child that sends a frame byte by byte
            piece = self._wait_for_chunk()
            if not piece:
                raise self._stop_and_explain()
            self._received_bytes += len(piece)
            if self._received_bytes > 2 * self._limits.text_bytes:
                raise errors.ParserTooBig(
                    f"Its text is longer than {self._limits.text_bytes >> 20} MB", limit_bytes=self._limits.text_bytes
                )
            self._reader.add_bytes(piece)
        self._frame_count += 1
        if self._frame_count > MAX_FRAMES:
            raise errors.ParserTooBig(f"It has more than {MAX_FRAMES} pages and passages", limit=MAX_FRAMES)
        return frame

    def _wait_for_chunk(self) -> bytes:
        child = self._require_child()
        while True:
            if self._cancelled():
                raise errors.Cancelled("The job was cancelled")
            started = time.monotonic()
            piece = child.read(POLL_SECONDS)
            self._waited_seconds += time.monotonic() - started
            if piece is not None:
                return piece
            self._check_limits(child)

    def _check_limits(self, child: ChildProcess) -> None:
        self._check_time()
        if self._watch_memory and child.pid and read_resident_bytes(child.pid) > self._limits.memory_bytes:
            raise errors.ParserTooBig(
                f"Processing exceeded its memory limit of {self._limits.memory_bytes >> 20} MB",
                limit_bytes=self._limits.memory_bytes,
            )

    def _check_time(self) -> None:
        allowed = self._limits.seconds_for(self._size, self._progress_frames)
        if self._waited_seconds > allowed:
            raise errors.ParserTooSlow(
                f"Processing took longer than {allowed:.0f} seconds",
                seconds=round(allowed),
                pages=self._progress_frames,
            )

    def _require_child(self) -> ChildProcess:
        if self._child is None:
            raise RuntimeError("FrameStream was read outside its with block")
        return self._child

    def _stop_and_explain(self) -> errors.KnowledgeError:
        ending = self._stop(kill=False)
        return explain_exit(ending, self._limits, self._progress_frames)

    def _stop(self, kill: bool = True) -> ChildExit:
        child, self._child = self._child, None
        self._reader = frames.FrameDecoder()
        if child is None:
            return ChildExit(0)
        if kill:
            child.kill()
        return child.wait_for_exit()


@cache  # warns once per set of reasons, not once per document
def _warn_missing_protections(reasons: tuple[str, ...]) -> None:
    if reasons and sys.platform == "linux":
        log.warning("Parsers run without the full sandbox: %s", "; ".join(reasons))


class PageStream(FrameStream):
    """The facts and pages of a document; a context manager whose iteration yields pages as the child sends them."""

    _facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            raise RuntimeError("PageStream.facts was read outside its with block")
        return self._facts

    def read_start(self) -> None:
        kind, payload = self.receive_frame()
        try:
            if kind is not FrameKind.FACTS:
                raise frames.BrokenFrame(f"{kind.name} frame before the facts")
            self._facts = frames.load_facts(payload)
        except frames.BrokenFrame as error:
            raise self.stop_with_error(error) from error

    def __iter__(self) -> Iterator[PageText]:
        for kind, payload in self.receive_frames():
            try:
                if kind is not FrameKind.PAGE:
                    raise frames.BrokenFrame(f"{kind.name} instead of a page")
                page = frames.load_page(payload)
            except frames.BrokenFrame as error:
                raise self.stop_with_error(error) from error
            yield page


class MemberStream(FrameStream):
    """The members of an archive; iteration yields the name and bytes of each, to be read before the next."""

    def __iter__(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        kind, payload = self.receive_frame()
        while kind is not FrameKind.END:
            if kind is not FrameKind.MEMBER:
                raise self.stop_with_error(frames.BrokenFrame(f"{kind.name} instead of a member"))
            member = _MemberReader(self, self._read_name(payload))
            yield member.name, member.read_chunks()
            kind, payload = member.skip_to_next_frame()

    def _read_name(self, payload: Payload) -> str:
        try:
            name = frames.read_text_field(payload.head, "name", MAX_NAME_CHARS)
            if not name:
                raise frames.BrokenFrame("a member has no name")
        except frames.BrokenFrame as error:
            raise self.stop_with_error(error) from error
        return name


class _MemberReader:
    """Reads the DATA frames of one member, up to the first frame of another kind."""

    def __init__(self, stream: FrameStream, name: str) -> None:
        self.name = name
        self._stream = stream
        self._following_frame: tuple[FrameKind, Payload] | None = None

    def read_chunks(self) -> Iterator[bytes]:
        while self._following_frame is None:
            kind, payload = self._stream.receive_frame()
            if kind is FrameKind.DATA:
                yield payload.data
            elif kind is FrameKind.DAMAGED:
                raise errors.Damaged(str(payload.head.get("message"))[:2000], filename=self.name)
            else:
                self._following_frame = kind, payload

    def skip_to_next_frame(self) -> tuple[FrameKind, Payload]:
        """Skip the rest of the member and return the frame after it."""
        while self._following_frame is None:
            kind, payload = self._stream.receive_frame()
            if kind not in (FrameKind.DATA, FrameKind.DAMAGED):
                self._following_frame = kind, payload
        return self._following_frame
