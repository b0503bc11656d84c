"""What the parent knows of a child, whichever way it was started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
