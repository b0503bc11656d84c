"""What an embedding model is to the rest of the house: two methods, and a few facts about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""One row a text, each of unit length."""


class PassageEmbedder(Protocol):
    """What gives passages their vectors."""

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages (ISO 639-1) that the model reads; None when it is not known to be limited."""

    def embed(self, passages: Sequence[str]) -> Vectors: ...


class Embedder(PassageEmbedder, Protocol):
    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """The window: what is longer would be cut off."""

    @property
    def fingerprint(self) -> str:
        """Kept with the vectors; another one means that they must be made again."""

    def embed_question(self, question: str) -> Vectors:
        """One row; questions are always encoded alone."""
