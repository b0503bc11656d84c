"""Models whose code cannot bear one word: it ends or freezes the process that embeds it. Only the tests load them."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from knowledge.embed.base import Embedder, Vectors
from knowledge.embed.loading import Choice
from knowledge.testing import BagOfWords, GivenModel

DEADLY = "hemlock"
ENDLESS = "patience"
"""A word that an innocent document has: embedding it takes for ever, but not in a child."""
begun = threading.Event()
"""Set when the endless word is being embedded."""


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    """Hold the interpreter lock, as a regular expression does that never comes to an end."""
    re.match("(a+)+$", "a" * 60 + "b")


def nothing() -> None:
    pass


class Hostile(BagOfWords):
    def __init__(self, deed: Callable[[], None], endless: bool) -> None:
        super().__init__()
        self._deed, self._endless = deed, endless

    def embed(self, passages: Sequence[str]) -> Vectors:
        if self._endless and any(ENDLESS in passage for passage in passages):
            begun.set()
            threading.Event().wait()
        if any(DEADLY in passage for passage in passages):
            if self._endless:  # so that a job that is innocent is interrupted beside the one that is not
                begun.wait(30)
            self._deed()
        return super().embed(passages)


class HostileModel(GivenModel):
    """The model in the server; `loader` is the same one for a child."""

    def __init__(self, deed: str, folder: Path, endless: bool = False) -> None:
        super().__init__(Hostile(DEEDS[deed], endless), folder)
        self._deed = deed

    @property
    def loader(self) -> str | None:
        return f"tests.hostile_models:load_{self._deed}"


def load_end(choice: Choice) -> Embedder:
    return Hostile(end, endless=False)


def load_freeze(choice: Choice) -> Embedder:
    return Hostile(freeze, endless=False)


def load_nothing(choice: Choice) -> Embedder:
    return Hostile(nothing, endless=False)


def load_never(choice: Choice) -> Embedder:
    os.abort()


DEEDS = {"end": end, "freeze": freeze, "nothing": nothing}
