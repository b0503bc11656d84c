"""Documents are read apart from the server: one child process each, under limits, in any number of threads at once."""

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
from knowledge.extract.process.request import DEFAULT_PARSER, TaskRequest
from knowledge.extract.process.spawn import ChildSpawner
from knowledge.extract.process.streams import FrameStream, MemberStream, PageStream
from knowledge.extract.sandbox.confine import SandboxMode
from knowledge.model import Json

PRELOAD_MODULES = ("knowledge.extract.process.preload",)
IDENTIFY_SECONDS = 30.0
"""To read the directory of an archive: whoever sends one waits for it."""

E = TypeVar("E", bound=FrameStream)


def never_cancelled() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A task for a child: a function of ours as `module:function`, its arguments, and what it needs loaded."""

    task: str
    arguments: Json
    prepare: str | None = None


class Parsers:
    """`start` before the first thread where you can; the rest from any thread; `close` ends every child."""

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

    def parse(self, source: Source, *, cancelled: Callable[[], bool] = never_cancelled) -> PageStream:
        """Read one document in a child of its own, which starts when the answer is entered with `with`."""
        return self.run_task(
            PageStream, TaskCall("knowledge.extract.process.tasks:extract_pages", {}), source, cancelled=cancelled
        )

    def unpack(self, source: Source, *, cancelled: Callable[[], bool] = never_cancelled) -> MemberStream:
        """The documents in an archive, unpacked by a child."""
        return self.run_task(
            MemberStream, TaskCall("knowledge.extract.process.tasks:unpack", {}), source, cancelled=cancelled
        )

    def identify(self, source: Source) -> str:
        """The type of a file. Only what is a container is opened for this, and by a child."""
        doc_type = formats.identify_by_first_bytes(source)
        if doc_type is not None:
            return doc_type
        limits = replace(self.limits, seconds=min(self.limits.seconds, IDENTIFY_SECONDS))
        with self.run_task(
            FrameStream, TaskCall("knowledge.extract.process.tasks:identify", {}), source, limits=limits
        ) as exchange:
            mark, payload = exchange.receive_frame()
            found = payload.head.get("doc_type") if mark is FrameKind.ANSWER else None
            if not isinstance(found, str) or found not in formats.FORMATS_BY_TYPE:
                raise exchange.stop_with_error(frames.BrokenFrame("it named no type of file"))
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
        """Have a child do something; what it answers is read from the exchange, inside a `with` block."""
        allowed = limits or self.limits
        request = TaskRequest(call.task, allowed, source, call.arguments, self._parser, call.prepare, self._sandbox)
        data = request.dump()
        return stream_type(
            lambda: self._launcher.start_child(data), request.size, allowed, cancelled, watch_memory=not self._fork
        )
