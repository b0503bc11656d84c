"""Models whose code cannot bear one word: it ends or freezes the process that embeds it. Only the tests load them."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from knowledge.embed.embedder import Embedder, Vectors
from knowledge.embed.loading import ModelChoice
from knowledge.testing import BagOfWordsEmbedder, PreloadedModel

DEADLY_WORD = "hemlock"
SLOW_WORD = "patience"
"""A word of an innocent document: embedding it takes long, though not in a child."""
SLOW_SECONDS = 20.0
slow_word_begun = threading.Event()
"""Set when the slow word is being embedded."""


def kill_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    """Hold the interpreter lock, as a regular expression does that never comes to an end."""
    re.match("(a+)+$", "a" * 60 + "b")


def do_nothing() -> None:
    pass


class Hostile(BagOfWordsEmbedder):
    def __init__(self, deed: Callable[[], None], slow: bool) -> None:
        super().__init__()
        self._deed, self._slow = deed, slow

    def embed(self, passages: Sequence[str]) -> Vectors:
        if self._slow and any(SLOW_WORD in passage for passage in passages):
            slow_word_begun.set()
            threading.Event().wait(SLOW_SECONDS)
        if any(DEADLY_WORD in passage for passage in passages):
            if self._slow:  # so that a job that is innocent is interrupted beside the one that is not
                slow_word_begun.wait(SLOW_SECONDS)
            self._deed()
        return super().embed(passages)


class HostileModel(PreloadedModel):
    """The model in the server; `loader` is the same one for a child."""

    def __init__(self, deed: str, folder: Path, slow: bool = False) -> None:
        super().__init__(Hostile(DEEDS[deed], slow), folder)
        self._deed = deed

    @property
    def loader(self) -> str | None:
        return f"tests.support.hostile_models:load_{self._deed}"


def load_end(choice: ModelChoice) -> Embedder:
    return Hostile(kill_process, slow=False)


def load_freeze(choice: ModelChoice) -> Embedder:
    return Hostile(freeze, slow=False)


def load_nothing(choice: ModelChoice) -> Embedder:
    return Hostile(do_nothing, slow=False)


def load_never(choice: ModelChoice) -> Embedder:
    os.abort()


DEEDS = {"end": kill_process, "freeze": freeze, "nothing": do_nothing}
