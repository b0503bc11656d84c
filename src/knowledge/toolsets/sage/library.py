"""Cache the pages of the content folder in memory and refresh them when files change."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from knowledge.errors import Damaged, NotFound, Unreadable
from knowledge.toolsets.sage.content_folder import ContentFolder, PageStamp
from knowledge.toolsets.sage.page import LayerPage, parse_page

LAYERS = ("core", "guidelines", "frameworks", "practices")
ALL_LAYERS = "all"

log = logging.getLogger(__name__)

DEBOUNCE_MS, STEP_MS = 100, 50
POLL_MS = 1000
"""Polling interval, because network file systems do not report changes."""
REST_FACTOR = 50
"""Pause between polls as a multiple of the last walk: at most 2 % of the time is spent walking."""


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """Paths that changed or disappeared since the last refresh."""

    changed: frozenset[str]
    gone: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


@dataclass(slots=True)
class CacheStatistics:
    """Hits and misses of the page cache."""

    hits: int = 0
    misses: int = 0

    @property
    def hit_rate(self) -> float:
        lookups = self.hits + self.misses
        return round(self.hits / lookups, 4) if lookups else 0.0


class Library:
    """Thread-safe cache of pages; the lock is never held during disk I/O."""

    def __init__(self, content_folder: ContentFolder) -> None:
        self.content_folder = content_folder
        self.cache_statistics = CacheStatistics()
        self._lock = threading.Lock()
        self._stamps: dict[str, PageStamp] | None = None
        self._pages: dict[str, tuple[PageStamp, LayerPage]] = {}
        self._broken: dict[str, str] = {}

    # -- from memory ----------------------------------------------------------------------------

    def known_paths(self, layer: str = ALL_LAYERS) -> tuple[str, ...] | None:
        """Return the paths of a layer at the last refresh, or None before the first one."""
        with self._lock:
            stamps = self._stamps
        return (
            None if stamps is None else tuple(path for path in stamps if layer in (ALL_LAYERS, path.partition("/")[0]))
        )

    def find_cached(self, path: str) -> LayerPage | None:
        with self._lock:
            held = self._pages.get(path)
        return held[1] if held else None

    def look_up(self, path: str) -> LayerPage | None:
        """Return a cached page and count the lookup in the hit rate."""
        held = self.find_cached(path)
        with self._lock:
            if held is None:
                self.cache_statistics.misses += 1
            else:
                self.cache_statistics.hits += 1
        return held

    def list_cached(self) -> Iterator[LayerPage]:
        """Yield the cached pages in path order."""
        return (page for path in self.known_paths() or () if (page := self.find_cached(path)) is not None)

    @property
    def broken(self) -> dict[str, str]:
        """Unreadable files with the reason."""
        with self._lock:
            return dict(sorted(self._broken.items()))

    @property
    def size_bytes(self) -> int:
        with self._lock:
            return sum(stamp.size for stamp in (self._stamps or {}).values())

    # -- from the disk --------------------------------------------------------------------------

    def list_paths(self, layer: str = ALL_LAYERS) -> tuple[str, ...]:
        """Return the paths of a layer, walking the folder on the first call."""
        found = self.known_paths(layer)
        if found is None:
            self.refresh()
            found = self.known_paths(layer)
        return found or ()

    def get_page(self, path: str) -> LayerPage:
        """Return a page from the cache or from disk; raises Damaged if no version was ever readable."""
        return self.look_up(path) or self._load_page(path)

    def load_pages(self) -> Iterator[LayerPage]:
        """Yield every readable page, from the cache where possible."""
        for path in self.list_paths():
            try:
                yield self.find_cached(path) or self._load_page(path)
            except (Unreadable, NotFound):
                continue

    def refresh(self) -> FolderChanges:
        """Walk the folder, drop deleted pages and reload cached pages that changed."""
        stamps = {path: stamp for path, stamp in self.content_folder.walk() if path.partition("/")[0] in LAYERS}
        with self._lock:
            before, self._stamps = self._stamps or {}, stamps
            gone = frozenset(before.keys() - stamps.keys())
            changed = frozenset(path for path, stamp in stamps.items() if before.get(path) != stamp)
            for path in gone:
                self._pages.pop(path, None)
            for path in [path for path in self._broken if path in gone or path in changed]:
                del self._broken[path]
            held = [path for path in changed if path in self._pages]
        for path in held:
            self._reload_page(path)
        return FolderChanges(changed, gone)

    def _reload_page(self, path: str) -> None:
        try:
            self._load_page(path)
        except (Unreadable, NotFound):
            return  # keep serving the last good version; `broken` has the reason

    def _load_page(self, path: str) -> LayerPage:
        with self._lock:
            stamp = (self._stamps or {}).get(path)
        if stamp is None:
            raise NotFound(f"Page '{path}' not found", path=path)
        try:
            page = parse_page(path, self.content_folder.read(path))
        except FileNotFoundError as error:
            raise NotFound(f"Page '{path}' was deleted", path=path) from error
        except (OSError, Damaged) as error:
            reason = str(error) if isinstance(error, Damaged) else (error.strerror or type(error).__name__)
            with self._lock:
                self._broken[path] = reason
            raise Damaged(f"Cannot read page '{path}': {reason}", path=path) from error
        with self._lock:
            if (self._stamps or {}).get(path) == stamp:
                self._pages[path] = (stamp, page)
                self._broken.pop(path, None)
        return page


async def watch_folder(library: Library, on_change: Callable[[FolderChanges], None]) -> None:
    """Refresh the library when the folder changes, and report the changes, until cancelled."""
    while True:
        try:
            await _watch_until_error(library, on_change)
        except OSError as error:  # the folder itself was removed or unmounted; it may come back
            log.warning("cannot watch the content folder, retrying: %s", error)
        except Exception:  # without the watcher, pages are still read on request
            log.exception("watching the content folder failed, retrying")
        await asyncio.sleep(POLL_MS / 1000)


async def _watch_until_error(library: Library, on_change: Callable[[FolderChanges], None]) -> None:
    import watchfiles

    rest_until = 0.0
    async for events in watchfiles.awatch(
        library.content_folder.path,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=POLL_MS,
        yield_on_timeout=True,
    ):
        if not events and time.monotonic() < rest_until:
            continue
        began = time.monotonic()
        found = await asyncio.to_thread(library.refresh)
        rest_until = time.monotonic() + REST_FACTOR * (time.monotonic() - began)
        if found:
            on_change(found)
