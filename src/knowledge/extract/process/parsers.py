"""Parses documents in child processes, one per document, with limits and a sandbox; thread-safe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar

from knowledge.extract import formats
from knowledge.extract.base import Source
from knowledge.extract.process import frames
from knowledge.extract.process.child import ChildLauncher, ParserLimits
from knowledge.extract.process.fork_client import ForkServerClient
from knowledge.extract.process.frames import FrameKind
from knowledge.extract.process.process_memory import read_anonymous_bytes
from knowledge.extract.process.request import DEFAULT_PARSER, TaskRequest
from knowledge.extract.process.spawn import ChildSpawner
from knowledge.extract.process.streams import FrameStream, MemberStream, PageStream
from knowledge.extract.sandbox.confine import SandboxMode
from knowledge.model import Json

PRELOAD_MODULES = ("knowledge.extract.process.preload",)
IDENTIFY_SECONDS = 30.0
"""Short, because the caller of an upload waits while the directory of an archive is read."""

E = TypeVar("E", bound=FrameStream)


def never_cancelled() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A task for a child: `module:function`, its arguments, and a function that loads what it needs."""

    task: str
    arguments: Json
    prepare: str | None = None


class Parsers:
    """Starts children. Call `start` before the first thread where possible; `close` ends every child."""

    def __init__(
        self,
        limits: ParserLimits | None = None,
        *,
        parser: str = DEFAULT_PARSER,
        fork: bool | None = None,
        sandbox: SandboxMode = SandboxMode.AUTO,
    ) -> None:
        self.limits = limits or ParserLimits()
        self._parser = parser
        self._sandbox = sandbox
        self._fork = sys.platform == "linux" if fork is None else fork
        preload = [*PRELOAD_MODULES, parser.partition(":")[0]]
        self._launcher: ChildLauncher = ForkServerClient(preload) if self._fork else ChildSpawner()

    def start(self) -> None:
        self._launcher.start()

    def close(self) -> None:
        self._launcher.close()

    def __enter__(self) -> Parsers:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def measure_memory(self) -> tuple[int, int]:
        """Return the number of child processes, with the fork server, and the sum of their memory in bytes."""
        pids = self._launcher.list_pids()
        return len(pids), sum(map(read_anonymous_bytes, pids))

    def parse(self, source: Source, *, cancelled: Callable[[], bool] = never_cancelled) -> PageStream:
        """Parse one document in a child, which starts when the returned context manager is entered."""
        return self.run_task(
            PageStream, TaskCall("knowledge.extract.process.tasks:extract_pages", {}), source, cancelled=cancelled
        )

    def unpack(self, source: Source, *, cancelled: Callable[[], bool] = never_cancelled) -> MemberStream:
        """Unpack an archive in a child."""
        return self.run_task(
            MemberStream, TaskCall("knowledge.extract.process.tasks:unpack", {}), source, cancelled=cancelled
        )

    def identify(self, source: Source) -> str:
        """Return the type of a file; only containers are opened for that, in a child."""
        doc_type = formats.identify_by_first_bytes(source)
        if doc_type is not None:
            return doc_type
        limits = replace(self.limits, seconds=min(self.limits.seconds, IDENTIFY_SECONDS))
        with self.run_task(
            FrameStream, TaskCall("knowledge.extract.process.tasks:identify", {}), source, limits=limits
        ) as stream:
            kind, payload = stream.receive_frame()
            found = payload.head.get("doc_type") if kind is FrameKind.ANSWER else None
            if not isinstance(found, str) or found not in formats.FORMATS_BY_TYPE:
                raise stream.stop_with_error(frames.BrokenFrame(f"unknown file type {str(found)[:40]!r}"))
            return found

    def run_task(
        self,
        stream_type: type[E],
        call: TaskCall,
        source: Source | None = None,
        *,
        cancelled: Callable[[], bool] = never_cancelled,
        limits: ParserLimits | None = None,
    ) -> E:
        """Run a task in a child, which starts when the returned context manager is entered."""
        allowed = limits or self.limits
        request = TaskRequest(call.task, allowed, source, call.arguments, self._parser, call.prepare, self._sandbox)
        data = request.dump()
        return stream_type(
            lambda: self._launcher.start_child(data), request.size, allowed, cancelled, watch_memory=not self._fork
        )
