"""Receives how far a move is."""

from __future__ import annotations

from typing import Protocol


class MoveProgress(Protocol):
    def start(self, step: str, total: int, unit: str) -> None:
        """Begin a step of `total` rows or bytes."""
        ...

    def advance(self, done: int) -> None:
        """Count rows or bytes of the current step."""
        ...


class SilentProgress:
    """Shows nothing."""

    def start(self, step: str, total: int, unit: str) -> None: ...

    def advance(self, done: int) -> None: ...
