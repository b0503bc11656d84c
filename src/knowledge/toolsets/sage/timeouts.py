"""The five levels of patience of contract 003, as deadlines that a clock enforces."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field

from knowledge.errors import DeadlineExceeded
from knowledge.model import Json

log = logging.getLogger(__name__)

LEVELS = {"T1": 100, "T2": 500, "T3": 2_000, "T4": 5_000, "T5": 10_000}
"""Milliseconds; T1 is only for what lies in memory."""
TOPIC, STANDARD, LAYER, CONTEXT = "T2", "T3", "T4", "T5"


def level_of(milliseconds: int) -> str:
    """The level that a time belongs to: the first that is not shorter."""
    return next((name for name, limit in LEVELS.items() if milliseconds <= limit), "T5")


@dataclass(frozen=True, slots=True)
class Deadline:
    milliseconds: int
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, level: str, *ceilings: int | None) -> Deadline:
        """The level's own time, or less where the caller or the operator allows less."""
        return cls(min([LEVELS[level], *(ceiling for ceiling in ceilings if ceiling is not None)]))

    @property
    def level(self) -> str:
        return level_of(self.milliseconds)

    @property
    def memory_only(self) -> bool:
        return self.level == "T1"

    @property
    def elapsed_ms(self) -> int:
        return round((time.monotonic() - self.began) * 1000)

    def left(self, share: float = 1.0) -> float:
        """The seconds until the deadline, or until this share of it."""
        return max(self.began + share * self.milliseconds / 1000 - time.monotonic(), 0.0)


class Timeouts:
    """Counts and logs every deadline that was missed."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Json:
        return {"total": self._counts.total(), **{level: self._counts[level] for level in LEVELS}}

    def missed(self, deadline: Deadline, what: str, fallback: Json) -> DeadlineExceeded:
        """The refusal, with what was ready in it."""
        self._counts[deadline.level] += 1
        elapsed = deadline.elapsed_ms
        facts = {"what": what, "level": deadline.level, "timeout_ms": deadline.milliseconds, "elapsed_ms": elapsed}
        log.warning("a deadline was missed", extra={"facts": facts})
        return DeadlineExceeded(
            f"Operation exceeded {deadline.level} timeout ({deadline.milliseconds}ms)",
            hint="Use what is in 'fallback', or ask again: more of it will be in memory by then.",
            timeout_level=deadline.level, timeout_ms=deadline.milliseconds, elapsed_ms=elapsed,
            fallback={**fallback, "complete": False},
        )  # fmt: skip
