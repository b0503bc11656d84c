"""A folder of Markdown as layers of knowledge: in memory as far as it was read, and brought up to date on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from knowledge.errors import Damaged, NotFound, Unreadable
from knowledge.toolsets.sage.content_folder import Disk, Stamp
from knowledge.toolsets.sage.page import Page, read_page

LAYERS = ("core", "guidelines", "frameworks", "practices")
ALL = "all"


@dataclass(frozen=True, slots=True)
class Changes:
    """What a look at the folder found."""

    changed: frozenset[str]
    gone: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


@dataclass(slots=True)
class Tally:
    """How often a page that somebody asked for was in memory."""

    hits: int = 0
    misses: int = 0

    @property
    def rate(self) -> float:
        asked = self.hits + self.misses
        return round(self.hits / asked, 4) if asked else 0.0


class Library:
    """Thread-safe; nothing is locked while the disk works, so a slow disk delays only who waits for it."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.tally = Tally()
        self._lock = threading.Lock()
        self._stamps: dict[str, Stamp] | None = None
        self._pages: dict[str, tuple[Stamp, Page]] = {}
        self._broken: dict[str, str] = {}

    # -- from memory ----------------------------------------------------------------------------

    def known(self, layer: str = ALL) -> tuple[str, ...] | None:
        """The paths of a layer, as they were found last; None before the first look."""
        with self._lock:
            stamps = self._stamps
        return None if stamps is None else tuple(path for path in stamps if layer in (ALL, path.partition("/")[0]))

    def cached(self, path: str) -> Page | None:
        with self._lock:
            held = self._pages.get(path)
        return held[1] if held else None

    def ask(self, path: str) -> Page | None:
        """A page from memory, on somebody's behalf: this is what the hit rate counts."""
        held = self.cached(path)
        with self._lock:
            if held is None:
                self.tally.misses += 1
            else:
                self.tally.hits += 1
        return held

    def pages(self) -> Iterator[Page]:
        """Everything that has been read, in the order of the paths."""
        return (page for path in self.known() or () if (page := self.cached(path)) is not None)

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

    def paths(self, layer: str = ALL) -> tuple[str, ...]:
        """The paths of a layer; the folder is walked the first time."""
        found = self.known(layer)
        if found is None:
            self.refresh()
            found = self.known(layer)
        return found or ()

    def page(self, path: str) -> Page:
        """A page from memory, or else from the disk; Damaged when it cannot be read and never could be."""
        return self.ask(path) or self._load(path)

    def load(self) -> Iterator[Page]:
        """Every page, one at a time, those in memory first of all from there; what is broken is left out."""
        for path in self.paths():
            try:
                yield self.cached(path) or self._load(path)
            except (Unreadable, NotFound):
                continue

    def refresh(self) -> Changes:
        """Look at the folder: forget what is gone, read again what was read and has changed."""
        stamps = {path: stamp for path, stamp in self.disk.walk() if path.partition("/")[0] in LAYERS}
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
            self._reload(path)
        return Changes(changed, gone)

    def _reload(self, path: str) -> None:
        try:
            self._load(path)
        except (Unreadable, NotFound):
            return  # the last good version stays, and `broken` says why

    def _load(self, path: str) -> Page:
        with self._lock:
            stamp = (self._stamps or {}).get(path)
        if stamp is None:
            raise NotFound(f"There is no page '{path}'", path=path)
        try:
            page = read_page(path, self.disk.read(path))
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
