"""The protocol of embedding models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""One row of unit length for each text."""


class PassageEmbedder(Protocol):
    """Embeds passages, in this process or in a child process."""

    @property
    def languages(self) -> frozenset[str] | None:
        """Languages (ISO 639-1) that the model supports; None if unknown or unlimited."""

    def embed(self, passages: Sequence[str]) -> Vectors: ...


def reads_language(embedder: PassageEmbedder, language: str | None) -> bool:
    """Return whether a model supports a language, or either is unknown."""
    return language is None or embedder.languages is None or language in embedder.languages


class Embedder(PassageEmbedder, Protocol):
    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Identifies the model and its settings; stored vectors with another fingerprint must be computed again."""

    def embed_question(self, question: str) -> Vectors:
        """Embed one query and return one row."""
