"""Documents are read apart from the server: one child process each, under limits, in any number of threads at once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType

from knowledge.extract.base import Source
from knowledge.extract.children import Nursery
from knowledge.extract.forked import ForkServer
from knowledge.extract.limits import Limits
from knowledge.extract.parsing import Parsing
from knowledge.extract.request import Request
from knowledge.extract.sandbox import Sandbox
from knowledge.extract.spawned import Spawner

PARSER = "knowledge.extract.formats:extract"
PRELOAD = ("knowledge.extract.preload",)


def never() -> bool:
    return False


class Parsers:
    """`start` before the first thread where you can; `parse` from any thread; `close` ends every child."""

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
        request = Request(source, self.limits, self._parser, self._sandbox).dump()
        return Parsing(
            lambda: self._nursery.child(request), source.size, self.limits, cancelled, watch_memory=not self._fork
        )
