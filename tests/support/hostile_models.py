"""Models that kill or freeze the process that embeds one word."""

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
"""Takes SLOW_SECONDS to embed in the server process, and no time in a child."""
SLOW_SECONDS = 20.0
slow_word_started = threading.Event()


def kill_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    """Hold the interpreter lock with a regular expression that needs exponential time."""
    re.match("(a+)+$", "a" * 60 + "b")


def do_nothing() -> None:
    pass


class HostileEmbedder(BagOfWordsEmbedder):
    def __init__(self, fault: Callable[[], None], slow: bool) -> None:
        super().__init__()
        self._fault, self._slow = fault, slow

    def embed(self, passages: Sequence[str]) -> Vectors:
        if self._slow and any(SLOW_WORD in passage for passage in passages):
            slow_word_started.set()
            threading.Event().wait(SLOW_SECONDS)
        if any(DEADLY_WORD in passage for passage in passages):
            if self._slow:  # so that the crash interrupts another job as well
                slow_word_started.wait(SLOW_SECONDS)
            self._fault()
        return super().embed(passages)


class HostileModel(PreloadedModel):
    """The model of the server process; `loader` names the same model for child processes."""

    def __init__(self, fault: str, folder: Path, slow: bool = False) -> None:
        super().__init__(HostileEmbedder(FAULTS[fault], slow), folder)
        self._fault = fault

    @property
    def loader(self) -> str | None:
        return f"tests.support.hostile_models:load_{self._fault}"


def load_end(choice: ModelChoice) -> Embedder:
    return HostileEmbedder(kill_process, slow=False)


def load_freeze(choice: ModelChoice) -> Embedder:
    return HostileEmbedder(freeze, slow=False)


def load_nothing(choice: ModelChoice) -> Embedder:
    return HostileEmbedder(do_nothing, slow=False)


def load_never(choice: ModelChoice) -> Embedder:
    os.abort()


FAULTS = {"end": kill_process, "freeze": freeze, "nothing": do_nothing}
