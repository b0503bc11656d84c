"""The service behind contract 003: pages, search and status of a content folder, with deadlines."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

import anyio

from knowledge.errors import KnowledgeError, NotFound, Unreadable
from knowledge.model import Json, JsonValue
from knowledge.toolsets.quoting import format_separator, make_boundary
from knowledge.toolsets.sage import topic_names
from knowledge.toolsets.sage.layer_index import LayerIndex
from knowledge.toolsets.sage.library import ALL_LAYERS, LAYERS, FolderChanges, Library, watch_folder
from knowledge.toolsets.sage.page import LayerPage
from knowledge.toolsets.sage.page_search import PageSearch
from knowledge.toolsets.sage.timeouts import LAYER, TOPIC, Deadline, TimeoutCounter, collect_within
from knowledge.toolsets.sage.token_budget import CountTokens
from knowledge.version import __version__

log = logging.getLogger(__name__)

WARM_UP_SECONDS, WARM_UP_BYTES = 60.0, 8 << 20


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page and whether it came from the cache."""

    page: LayerPage
    from_memory: bool


class SageService:
    """The pages, search and deadlines of one content folder; `run` keeps them up to date."""

    def __init__(
        self,
        library: Library,
        load_token_counter: Callable[[], CountTokens],
        *,
        layer_index: LayerIndex | None = None,
        ceiling_ms: int | None = None,
    ) -> None:
        self.library, self.layer_index = library, layer_index
        self.page_search, self.timeouts = PageSearch(), TimeoutCounter()
        self._load_token_counter = load_token_counter
        self._token_counter: CountTokens | None = None
        self._ceiling_ms = ceiling_ms
        self._began = time.monotonic()

    @asynccontextmanager
    async def run(self, *, search_soon: bool = False) -> AsyncIterator[None]:
        """Watch the folder; `search_soon` opens the engine now instead of at the first search."""
        if search_soon and self.layer_index is not None:
            self.layer_index.request_engine()
        async with anyio.create_task_group() as group:
            group.start_soon(watch_folder, self.library, self._on_change)
            group.start_soon(self._warm_up)
            if self.layer_index is not None:
                group.start_soon(self.layer_index.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _warm_up(self) -> None:
        """Load a small folder into the cache, because T1 calls are answered only from it."""
        try:
            await collect_within(self._load_if_small(), WARM_UP_SECONDS)
        except (OSError, KnowledgeError) as error:  # a later request reports the error to its caller
            log.warning("preloading the pages failed: %s", error)

    def _load_if_small(self) -> Iterator[LayerPage]:
        self.library.list_paths()
        if self.library.size_bytes <= WARM_UP_BYTES:
            yield from self.library.load_pages()

    def make_deadline(self, level: str, timeout_ms: int | None = None) -> Deadline:
        return Deadline.for_level(level, self._ceiling_ms, timeout_ms)

    def _on_change(self, _: FolderChanges) -> None:
        self.page_search.keep_only(self.library.known_paths() or ())
        if self.layer_index is not None:
            self.layer_index.mark_changed()

    # -- pages ----------------------------------------------------------------------------------

    async def get_knowledge(self, layer: str, topic: str | None, timeout_ms: int | None = None) -> Json:
        """Return one topic, or all pages of a layer."""
        deadline = self.make_deadline(TOPIC if topic else LAYER, timeout_ms)
        if deadline.is_memory_only:
            read, complete = self._read_from_memory(layer, topic)
        else:
            gathered = await collect_within(self._read_topic(layer, topic), deadline.seconds_left())
            read, complete = list(gathered.items), gathered.complete
        boundary = make_boundary()
        body = _join_pages(read, boundary)
        if not complete:
            raise self.timeouts.record_miss(
                deadline, "sage_get_knowledge", {"content": body, "files": _list_files(read)}
            )
        if not read:
            raise NotFound(
                f"Layer '{layer}' has no pages", hint="Add Markdown files to the folder of the layer.", layer=layer
            )
        return {
            "content": body,
            **({"boundary": boundary} if len(read) > 1 else {}),
            "metadata": {
                "layer": layer, "files_loaded": len(read), "load_time_ms": deadline.elapsed_ms,
                "from_cache": all(item.from_memory for item in read), "files": _list_files(read),
            },
            "complete": True,
        }  # fmt: skip

    def _read_topic(self, layer: str, topic: str | None) -> Iterator[ReadPage]:
        """Yield the pages one by one."""
        paths = self.library.list_paths(layer)
        wanted = topic_names.resolve_topic(topic, paths) if topic else paths
        for path in wanted:
            held = self.library.find_cached(path)
            try:
                yield ReadPage(self.library.get_page(path), held is not None)
            except (Unreadable, NotFound):
                if topic and len(wanted) == 1:
                    raise

    def _read_from_memory(self, layer: str, topic: str | None) -> tuple[list[ReadPage], bool]:
        """Return the cached pages without disk access, and whether they are complete."""
        paths = self.library.known_paths(layer)
        if paths is None:
            return [], False
        wanted = topic_names.resolve_topic(topic, paths) if topic else paths
        found = [page for path in wanted if (page := self.library.look_up(path)) is not None]
        missing = len(wanted) - len(found) - len(self.library.broken.keys() & set(wanted))
        return [ReadPage(page, True) for page in found], missing <= 0

    # -- tokens and status ----------------------------------------------------------------------

    def get_token_counter(self) -> CountTokens:
        """Return a cached token counter; the tokenizer is loaded on the first call."""
        if self._token_counter is None:
            self._token_counter = lru_cache(maxsize=8192)(self._load_token_counter())
        return self._token_counter

    async def info(self) -> Json:
        deadline = self.make_deadline(TOPIC)
        look = await collect_within(self._list_paths(), deadline.seconds_left())
        paths, broken = self.library.known_paths() or (), self.library.broken
        listed: list[JsonValue] = [
            {"path": f"{topic_names.CONTENT_PREFIX}{path}", "reason": why} for path, why in broken.items()
        ]
        layers: Json = {
            layer: [topic_names.format_topic(path) for path in self.library.known_paths(layer) or ()]
            for layer in LAYERS
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
                "enabled": True, "hit_rate": self.library.cache_statistics.hit_rate,
                "hits": self.library.cache_statistics.hits, "misses": self.library.cache_statistics.misses,
            },
            "search": {"index": self.layer_index.state if self.layer_index is not None else "words alone"},
            "timeouts": self.timeouts.counts,
            "uptime_seconds": round(time.monotonic() - self._began, 3),
        }  # fmt: skip

    def _list_paths(self) -> Iterator[tuple[str, ...]]:
        yield self.library.list_paths(ALL_LAYERS)


def _join_pages(read: list[ReadPage], boundary: str) -> str:
    """Join the pages by layer, priority and path."""

    def place(page: LayerPage) -> tuple[int, int, str]:
        return LAYERS.index(page.layer), page.priority, page.path

    return format_separator(boundary).join(
        page.body.strip() for page in sorted((item.page for item in read), key=place)
    )


def _list_files(read: list[ReadPage]) -> list[JsonValue]:
    return [f"{topic_names.CONTENT_PREFIX}{item.page.path}" for item in read]
