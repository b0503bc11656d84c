"""A folder of Markdown as layers: pages cached in memory, refreshed on demand and when the folder changes."""

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
"""So often the folder is looked at even when the system reports nothing, as it does for network disks."""
REST_FACTOR = 50
"""Looking takes at most one part in fifty of the time."""


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """What a look at the folder found."""

    changed: frozenset[str]
    gone: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


@dataclass(slots=True)
class CacheStatistics:
    """How often a page that somebody asked for was in memory."""

    hits: int = 0
    misses: int = 0

    @property
    def hit_rate(self) -> float:
        asked = self.hits + self.misses
        return round(self.hits / asked, 4) if asked else 0.0


class Library:
    """Thread-safe; nothing is locked while the disk works, so a slow disk delays only who waits for it."""

    def __init__(self, disk: ContentFolder) -> None:
        self.content_folder = disk
        self.cache_statistics = CacheStatistics()
        self._lock = threading.Lock()
        self._stamps: dict[str, PageStamp] | None = None
        self._pages: dict[str, tuple[PageStamp, LayerPage]] = {}
        self._broken: dict[str, str] = {}

    # -- from memory ----------------------------------------------------------------------------

    def known_paths(self, layer: str = ALL_LAYERS) -> tuple[str, ...] | None:
        """The paths of a layer, as they were found last; None before the first look."""
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
        """A page from memory, on somebody's behalf: this is what the hit rate counts."""
        held = self.find_cached(path)
        with self._lock:
            if held is None:
                self.cache_statistics.misses += 1
            else:
                self.cache_statistics.hits += 1
        return held

    def list_cached(self) -> Iterator[LayerPage]:
        """Everything that has been read, in the order of the paths."""
        return (page for path in self.known_paths() or () if (page := self.find_cached(path)) is not None)

    @property
    def broken(self) -> dict[str, str]:
        """The files that cannot be used as they are now, and why."""
        with self._lock:
            return dict(sorted(self._broken.items()))

    @property
    def size_bytes(self) -> int:
        with self._lock:
            return sum(stamp.size for stamp in (self._stamps or {}).values())

    # -- from the disk --------------------------------------------------------------------------

    def list_paths(self, layer: str = ALL_LAYERS) -> tuple[str, ...]:
        """The paths of a layer; the folder is walked the first time."""
        found = self.known_paths(layer)
        if found is None:
            self.refresh()
            found = self.known_paths(layer)
        return found or ()

    def get_page(self, path: str) -> LayerPage:
        """A page from memory, or else from the disk; Damaged when it cannot be read and never could be."""
        return self.look_up(path) or self._load_page(path)

    def load_pages(self) -> Iterator[LayerPage]:
        """Every page, one at a time, those in memory first of all from there; what is broken is left out."""
        for path in self.list_paths():
            try:
                yield self.find_cached(path) or self._load_page(path)
            except (Unreadable, NotFound):
                continue

    def refresh(self) -> FolderChanges:
        """Look at the folder: forget what is gone, read again what was read and has changed."""
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
            return  # the last good version stays, and `broken` says why

    def _load_page(self, path: str) -> LayerPage:
        with self._lock:
            stamp = (self._stamps or {}).get(path)
        if stamp is None:
            raise NotFound(f"There is no page '{path}'", path=path)
        try:
            page = parse_page(path, self.content_folder.read(path))
        except FileNotFoundError as error:
            raise NotFound(f"There is no page '{path}' any more", path=path) from error
        except (OSError, Damaged) as error:
            reason = str(error) if isinstance(error, Damaged) else (error.strerror or type(error).__name__)
            with self._lock:
                self._broken[path] = reason
            raise Damaged(f"The page '{path}' cannot be read: {reason}", path=path) from error
        with self._lock:
            if (self._stamps or {}).get(path) == stamp:
                self._pages[path] = (stamp, page)
                self._broken.pop(path, None)
        return page


async def watch_folder(library: Library, on_change: Callable[[FolderChanges], None]) -> None:
    """Until it is cancelled: bring the library up to date, and say what changed."""
    while True:
        try:
            await _watch_until_error(library, on_change)
        except OSError as error:  # the folder itself went away; it may come back
            log.warning("the content folder cannot be watched: %s", error)
        except Exception:  # pages are still read, only not by themselves
            log.exception("the content folder is no longer watched")
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
