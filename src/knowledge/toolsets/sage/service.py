"""What contract 003 does: pages, searches and contexts out of a content folder, each against its own clock."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

import anyio

from knowledge import __version__
from knowledge.errors import KnowledgeError, NotFound, Unreadable
from knowledge.model import Json, JsonValue
from knowledge.toolsets.sage import topic_names
from knowledge.toolsets.sage.deadline import gather
from knowledge.toolsets.sage.index_sync import Shelves
from knowledge.toolsets.sage.library import ALL, LAYERS, Changes, Library
from knowledge.toolsets.sage.page import Page
from knowledge.toolsets.sage.page_passages import PageWords
from knowledge.toolsets.sage.timeouts import LAYER, TOPIC, Deadline, Timeouts
from knowledge.toolsets.sage.token_budget import Count
from knowledge.toolsets.sage.watch import watch

log = logging.getLogger(__name__)

WARM_UP_SECONDS, WARM_UP_BYTES = 60.0, 8 << 20
BETWEEN = "\n\n---\n\n"


@dataclass(frozen=True, slots=True)
class Read:
    """A page, and whether it was in memory already."""

    page: Page
    from_memory: bool


class Sage:
    """Lives as long as the server; `running` watches the folder and feeds the search meanwhile."""

    def __init__(
        self,
        library: Library,
        load_count: Callable[[], Count],
        *,
        shelves: Shelves | None = None,
        ceiling_ms: int | None = None,
    ) -> None:
        self.library, self.shelves = library, shelves
        self.words, self.timeouts = PageWords(), Timeouts()
        self._load_count = load_count
        self._count: Count | None = None
        self._ceiling_ms = ceiling_ms
        self._began = time.monotonic()

    @asynccontextmanager
    async def running(self, *, search_soon: bool = False) -> AsyncIterator[None]:
        """Keep up with the folder; `search_soon` opens the engine now instead of at the first search."""
        if search_soon and self.shelves is not None:
            self.shelves.want()
        async with anyio.create_task_group() as group:
            group.start_soon(watch, self.library, self._changed)
            group.start_soon(self._warm_up)
            if self.shelves is not None:
                group.start_soon(self.shelves.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _warm_up(self) -> None:
        """Bring the pages into memory, so that T1 can answer from it; a large folder is read as it is used."""
        try:
            await gather(self._small_enough(), WARM_UP_SECONDS)
        except (OSError, KnowledgeError) as error:  # whoever asks for a page will hear of it
            log.warning("the pages could not be read beforehand: %s", error)

    def _small_enough(self) -> Iterator[Page]:
        self.library.paths()
        if self.library.size_bytes <= WARM_UP_BYTES:
            yield from self.library.load()

    def deadline(self, level: str, timeout_ms: int | None = None) -> Deadline:
        return Deadline.of(level, self._ceiling_ms, timeout_ms)

    def _changed(self, _: Changes) -> None:
        self.words.keep_only(self.library.known() or ())
        if self.shelves is not None:
            self.shelves.changed()

    # -- pages ----------------------------------------------------------------------------------

    async def knowledge(self, layer: str, topic: str | None, timeout_ms: int | None = None) -> Json:
        """A topic, or everything in a layer."""
        deadline = self.deadline(TOPIC if topic else LAYER, timeout_ms)
        if deadline.memory_only:
            read, complete = self._remembered(layer, topic)
        else:
            gathered = await gather(self._reading(layer, topic), deadline.left())
            read, complete = list(gathered.items), gathered.complete
        body = _joined(read)
        if not complete:
            raise self.timeouts.missed(deadline, "sage_get_knowledge", {"content": body, "files": _files(read)})
        if not read:
            raise NotFound(f"The layer '{layer}' has no pages", hint="Add Markdown files to its folder.", layer=layer)
        return {
            "content": body,
            "metadata": {
                "layer": layer, "files_loaded": len(read), "load_time_ms": deadline.elapsed_ms,
                "from_cache": all(item.from_memory for item in read), "files": _files(read),
            },
            "complete": True,
        }  # fmt: skip

    def _reading(self, layer: str, topic: str | None) -> Iterator[Read]:
        """One page a step."""
        paths = self.library.paths(layer)
        wanted = topic_names.resolve(topic, paths) if topic else paths
        for path in wanted:
            held = self.library.cached(path)
            try:
                yield Read(self.library.page(path), held is not None)
            except (Unreadable, NotFound):
                if topic and len(wanted) == 1:
                    raise

    def _remembered(self, layer: str, topic: str | None) -> tuple[list[Read], bool]:
        """What can be had without touching the disk, and whether that is all of it."""
        paths = self.library.known(layer)
        if paths is None:
            return [], False
        wanted = topic_names.resolve(topic, paths) if topic else paths
        found = [page for path in wanted if (page := self.library.ask(path)) is not None]
        missing = len(wanted) - len(found) - len(self.library.broken.keys() & set(wanted))
        return [Read(page, True) for page in found], missing <= 0

    # -- the rest -------------------------------------------------------------------------------

    def count(self) -> Count:
        """The tokenizer's count, remembered by text; reading the tokenizer takes a moment."""
        if self._count is None:
            self._count = lru_cache(maxsize=8192)(self._load_count())
        return self._count

    async def info(self) -> Json:
        deadline = self.deadline(TOPIC)
        look = await gather(self._look(), deadline.left())
        paths, broken = self.library.known() or (), self.library.broken
        listed: list[JsonValue] = [{"path": f"{topic_names.ROOT}{path}", "reason": why} for path, why in broken.items()]
        layers: Json = {
            layer: [topic_names.topic_of(path) for path in self.library.known(layer) or ()] for layer in LAYERS
        }
        healthy = look.complete and not broken and bool(paths)
        return {
            "version": __version__,
            "status": "healthy" if healthy else "degraded",
            "knowledge_base": {
                "content_files": len(paths), "total_size_kb": round(self.library.size_bytes / 1024, 1),
                "layers": layers, "broken_files": listed,
            },
            "cache": {
                "enabled": True, "hit_rate": self.library.tally.rate,
                "hits": self.library.tally.hits, "misses": self.library.tally.misses,
            },
            "search": {"index": self.shelves.state if self.shelves is not None else "words alone"},
            "timeouts": self.timeouts.counts,
            "uptime_seconds": round(time.monotonic() - self._began, 3),
        }  # fmt: skip

    def _look(self) -> Iterator[tuple[str, ...]]:
        yield self.library.paths(ALL)


def _joined(read: list[Read]) -> str:
    """The pages as one text: layers in their order, in each the most important first."""

    def place(page: Page) -> tuple[int, int, str]:
        return LAYERS.index(page.layer), page.priority, page.path

    return BETWEEN.join(page.body.strip() for page in sorted((item.page for item in read), key=place))


def _files(read: list[Read]) -> list[JsonValue]:
    return [f"{topic_names.ROOT}{item.page.path}" for item in read]
