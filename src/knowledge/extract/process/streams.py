"""The parent's side of one child: its frames, one after the other, under limits that really interrupt it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from knowledge import errors
from knowledge.extract.base import Facts, PageText
from knowledge.extract.process import frames
from knowledge.extract.process.child import ChildExit, ChildProcess, ParserLimits, explain_exit
from knowledge.extract.process.frames import FrameKind, Payload
from knowledge.extract.zip_bundle import MAX_NAME_CHARS


def read_resident_bytes(pid: int) -> int:
    """In bytes; 0 where it cannot be told."""
    try:
        if sys.platform == "linux":
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if sys.platform == "win32":
            return _read_windows_resident_bytes(pid)
        answer = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
        return int(answer.stdout) * 1024
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return 0


def _read_windows_resident_bytes(pid: int) -> int:
    import ctypes
    from ctypes import wintypes

    class Counters(ctypes.Structure):
        _fields_ = (
            ("size", wintypes.DWORD),
            ("faults", wintypes.DWORD),
            *((name, ctypes.c_size_t) for name in ("peak", "resident", "a", "b", "c", "d", "paged", "peak_paged")),
        )

    windll = getattr(ctypes, "windll")  # noqa: B009
    process = windll.kernel32.OpenProcess(0x1000, False, pid)
    if not process:
        return 0
    counters = Counters(size=ctypes.sizeof(Counters))
    windll.psapi.GetProcessMemoryInfo(process, ctypes.byref(counters), counters.size)
    windll.kernel32.CloseHandle(process)
    return int(counters.resident)


log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
"""Between two looks at the caller's wish to stop and at the child's memory."""
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
        """Only the time that we wait counts: a child that waits for us costs nobody anything."""
        self._progress_frames = 0
        self._frame_count = 0
        self._received_bytes = 0
        self.missing_protections: dict[str, str] = {}
        """What of the sandbox this machine does not have, each with its reason; the child says so first."""

    def __enter__(self) -> Self:
        self._child = self._start_child()
        try:
            self.read_start()
        except BaseException:
            self._stop()
            raise
        return self

    def read_start(self) -> None:
        """Read what stands at the beginning of the answer, if something does."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def receive_frames(self) -> Iterator[tuple[FrameKind, Payload]]:
        """The frames up to the end; raises what the child raised, or why it ended without one."""
        while True:
            mark, payload = self.receive_frame()
            if mark is FrameKind.END:
                return
            yield mark, payload

    def receive_frame(self) -> tuple[FrameKind, Payload]:
        try:
            mark, payload = self._read_frame()
            if mark is FrameKind.SANDBOX:
                self.missing_protections = frames.load_missing_protections(payload)
                _warn_missing_protections(tuple(self.missing_protections.values()))
                mark, payload = self._read_frame()
            if mark is FrameKind.ERROR:
                raise frames.load_error(payload)
        except frames.BrokenFrame as error:
            raise self.stop_with_error(error) from error
        if mark in frames.PROGRESS_KINDS:
            self._progress_frames += 1
        return mark, payload

    def stop_with_error(self, error: frames.BrokenFrame) -> errors.KnowledgeError:
        self._stop()
        return errors.ParserDied(f"The parser sent something that is no page: {error}", pages=self._progress_frames)

    def _read_frame(self) -> tuple[FrameKind, Payload]:
        while (frame := self._reader.take_frame()) is None:
            self._check_time()  # a page that comes in crumbs earns no time
            piece = self._wait_for_chunk()
            if not piece:
                raise self._stop_and_explain()
            self._received_bytes += len(piece)
            if self._received_bytes > 2 * self._limits.text_bytes:
                raise errors.ParserTooBig("Its text is longer than is allowed", limit_bytes=self._limits.text_bytes)
            self._reader.add_bytes(piece)
        self._frame_count += 1
        if self._frame_count > MAX_FRAMES:
            raise errors.ParserTooBig("It has more passages than are allowed", limit=MAX_FRAMES)
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
                "Reading it takes more memory than is allowed", limit_bytes=self._limits.memory_bytes
            )

    def _check_time(self) -> None:
        allowed = self._limits.seconds_for(self._size, self._progress_frames)
        if self._waited_seconds > allowed:
            raise errors.ParserTooSlow(
                f"Reading it took longer than {allowed:.0f} seconds",
                seconds=round(allowed),
                pages=self._progress_frames,
            )

    def _require_child(self) -> ChildProcess:
        if self._child is None:
            raise RuntimeError("A child answers inside the with block only")
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


@cache  # once for each reason, not for each document
def _warn_missing_protections(reasons: tuple[str, ...]) -> None:
    if reasons and sys.platform == "linux":
        log.warning("Parsers are not fully contained: %s", "; ".join(reasons))


class PageStream(FrameStream):
    """A context manager: inside it `facts` is known, and iterating yields the pages as the child sends them."""

    _facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            raise RuntimeError("The facts are known inside the with block")
        return self._facts

    def read_start(self) -> None:
        mark, payload = self.receive_frame()
        try:
            if mark is not FrameKind.FACTS:
                raise frames.BrokenFrame("pages came before facts")
            self._facts = frames.load_facts(payload)
        except frames.BrokenFrame as error:
            raise self.stop_with_error(error) from error

    def __iter__(self) -> Iterator[PageText]:
        for mark, payload in self.receive_frames():
            try:
                if mark is not FrameKind.PAGE:
                    raise frames.BrokenFrame(f"{mark.name} where a page was due")
                page = frames.load_page(payload)
            except frames.BrokenFrame as error:
                raise self.stop_with_error(error) from error
            yield page


class MemberStream(FrameStream):
    """A context manager: inside it, iterating yields each member's name and its bytes, to be read before the next."""

    def __iter__(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        mark, payload = self.receive_frame()
        while mark is not FrameKind.END:
            if mark is not FrameKind.MEMBER:
                raise self.stop_with_error(frames.BrokenFrame(f"{mark.name} where a member was due"))
            member = _MemberReader(self, self._read_name(payload))
            yield member.name, member.read_chunks()
            mark, payload = member.skip_to_next_frame()

    def _read_name(self, payload: Payload) -> str:
        try:
            name = frames.read_text_field(payload.head, "name", MAX_NAME_CHARS)
            if not name:
                raise frames.BrokenFrame("a member has no name")
        except frames.BrokenFrame as error:
            raise self.stop_with_error(error) from error
        return name


class _MemberReader:
    """The bytes of one member, up to the frame that is no longer part of it."""

    def __init__(self, stream: FrameStream, name: str) -> None:
        self.name = name
        self._stream = stream
        self._following_frame: tuple[FrameKind, Payload] | None = None

    def read_chunks(self) -> Iterator[bytes]:
        while self._following_frame is None:
            mark, payload = self._stream.receive_frame()
            if mark is FrameKind.DATA:
                yield payload.data
            elif mark is FrameKind.DAMAGED:
                raise errors.Damaged(str(payload.head.get("message"))[:2000], filename=self.name)
            else:
                self._following_frame = mark, payload

    def skip_to_next_frame(self) -> tuple[FrameKind, Payload]:
        """Whatever the caller did not read; answers the frame that follows."""
        while self._following_frame is None:
            mark, payload = self._stream.receive_frame()
            if mark not in (FrameKind.DATA, FrameKind.DAMAGED):
                self._following_frame = mark, payload
        return self._following_frame
