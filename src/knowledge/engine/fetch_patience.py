"""How long each step of a fetch may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds."""

    connect: float = 10.0
    read: float = 20.0
    """Between two pieces."""
    whole: float = 60.0
    """From the first step to the last byte."""
