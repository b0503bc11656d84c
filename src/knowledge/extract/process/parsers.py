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
from knowledge.extract.process.exchange import Exchange
from knowledge.extract.process.fork_client import ForkServer
from knowledge.extract.process.frames import Mark
from knowledge.extract.process.protocol import Limits, Nursery
from knowledge.extract.process.reader import Parsing
from knowledge.extract.process.request import PARSER, Request
from knowledge.extract.process.spawn import Spawner
from knowledge.extract.process.unpacking import Unpacking
from knowledge.extract.sandbox.confine import Sandbox
from knowledge.model import Json

PRELOAD = ("knowledge.extract.process.preload",)
IDENTIFY_SECONDS = 30.0
"""To read the directory of an archive: whoever sends one waits for it."""

E = TypeVar("E", bound=Exchange)


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Call:
    """A task for a child: a function of ours as `module:function`, its arguments, and what it needs loaded."""

    task: str
    arguments: Json
    prepare: str | None = None


class Parsers:
    """`start` before the first thread where you can; the rest from any thread; `close` ends every child."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        parser: str = PARSER,
        fork: bool | None = None,
        sandbox: Sandbox = Sandbox.AUTO,
    ) -> None:
        self.limits = limits or Limits()
        self._parser = parser
        self._sandbox = sandbox
        self._fork = sys.platform == "linux" if fork is None else fork
        preload = [*PRELOAD, parser.partition(":")[0]]
        self._nursery: Nursery = ForkServer(preload) if self._fork else Spawner()

    def start(self) -> None:
        self._nursery.start()

    def close(self) -> None:
        self._nursery.close()

    def __enter__(self) -> Parsers:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def parse(self, source: Source, *, cancelled: Callable[[], bool] = never) -> Parsing:
        """Read one document in a child of its own, which starts when the answer is entered with `with`."""
        return self.run(Parsing, Call("knowledge.extract.process.tasks:extract_pages", {}), source, cancelled=cancelled)

    def unpack(self, source: Source, *, cancelled: Callable[[], bool] = never) -> Unpacking:
        """The documents in an archive, unpacked by a child."""
        return self.run(Unpacking, Call("knowledge.extract.process.tasks:unpack", {}), source, cancelled=cancelled)

    def identify(self, source: Source) -> str:
        """The type of a file. Only what is a container is opened for this, and by a child."""
        doc_type = formats.identify_by_opening(source)
        if doc_type is not None:
            return doc_type
        limits = replace(self.limits, seconds=min(self.limits.seconds, IDENTIFY_SECONDS))
        with self.run(
            Exchange, Call("knowledge.extract.process.tasks:identify", {}), source, limits=limits
        ) as exchange:
            mark, payload = exchange.next()
            found = payload.head.get("doc_type") if mark is Mark.ANSWER else None
            if not isinstance(found, str) or found not in formats.BY_TYPE:
                raise exchange.broken(frames.BrokenFrame("it named no type of file"))
            return found

    def run(
        self,
        kind: type[E],
        call: Call,
        source: Source | None = None,
        *,
        cancelled: Callable[[], bool] = never,
        limits: Limits | None = None,
    ) -> E:
        """Have a child do something; what it answers is read from the exchange, inside a `with` block."""
        allowed = limits or self.limits
        request = Request(call.task, allowed, source, call.arguments, self._parser, call.prepare, self._sandbox)
        data = request.dump()
        return kind(lambda: self._nursery.child(data), request.size, allowed, cancelled, watch_memory=not self._fork)
