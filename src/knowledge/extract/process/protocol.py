"""How much reading one document may cost."""

from __future__ import annotations

from dataclasses import (
    dataclass,
)
from typing import (
    Protocol,
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child ended."""

    code: int
    """Its exit code, or minus the signal that ended it."""
    resident: int = 0
    """The most memory it held, in bytes; 0 where nobody counted."""
    last_words: str = ""


class Child(Protocol):
    pid: int | None

    def read(self, timeout: float) -> bytes | None:
        """What it has sent: b"" when it will send no more, None when nothing came in time."""

    def kill(self) -> None: ...

    def ending(self) -> Ending:
        """Wait for its end and say how that was; everything it held is given back."""


class Nursery(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...

    def child(self, request: bytes) -> Child: ...


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
