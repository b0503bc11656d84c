"""How much reading one document may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    seconds: float = 120.0
    """For the document as such; what follows is added to it."""
    seconds_per_page: float = 10.0
    """For every page already handed over, so that only work that gets somewhere earns more time."""
    seconds_per_megabyte: float = 2.0
    memory_bytes: int = 1500 << 20
    """Above what the parsers take when they are merely loaded."""
    text_bytes: int = 400 << 20
    open_files: int = 64

    def seconds_for(self, size: int, pages: int) -> float:
        """The time that a document of this size may have taken after this many pages."""
        return self.seconds + self.seconds_per_page * pages + self.seconds_per_megabyte * (size / (1 << 20))
