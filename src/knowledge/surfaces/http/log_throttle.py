"""Throttles repeated log lines: writes the first few, then a count of the suppressed ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

WINDOW_SECONDS = 10.0
IDENTICAL_PER_WINDOW = 5
"""Lines with the same text."""
SIMILAR_PER_WINDOW = 100
"""Lines from one log call with different values, because clients can choose the values."""
MAX_TRACKED_LINES = 1000
MAX_KEY_CHARS = 300


@dataclass(slots=True)
class RepeatedLine:
    record: logging.LogRecord
    since: float
    written: int = 0
    suppressed: int = 0


class RepetitionFilter:
    """Decides which records are written and counts the suppressed ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: dict[tuple[object, ...], RepeatedLine] = {}
        """Ordered by the start of the window."""

    def __len__(self) -> int:
        return len(self._kinds)

    def should_write(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        place = (record.name, record.levelno, str(record.msg)[:MAX_KEY_CHARS])
        similar = self._kinds.setdefault(place, RepeatedLine(record, now))
        if similar.written >= SIMILAR_PER_WINDOW:
            similar.suppressed += 1
            return False
        error = repr(record.exc_info[1])[:MAX_KEY_CHARS] if record.exc_info else None
        text = (*place, record.getMessage()[:MAX_KEY_CHARS], error)
        identical = self._kinds.setdefault(text, RepeatedLine(record, now))
        if identical.written >= IDENTICAL_PER_WINDOW:
            identical.suppressed += 1
            return False
        identical.written += 1
        similar.written += 1
        return True

    def summarize(self, *, is_final: bool = False) -> Iterator[logging.LogRecord]:
        """Yield one record for each kind of line that was suppressed and whose window has ended."""
        now = self._clock()
        while self._kinds:
            key, kind = next(iter(self._kinds.items()))
            is_over = now - kind.since >= WINDOW_SECONDS
            if not (is_over or is_final or len(self._kinds) > MAX_TRACKED_LINES):
                return
            del self._kinds[key]
            if kind.suppressed:
                yield _make_summary(kind, now - kind.since)


def _make_summary(kind: RepeatedLine, seconds: float) -> logging.LogRecord:
    record = kind.record
    text = "repeated %d times in %.0f s: %s"
    values = (kind.suppressed, seconds, record.getMessage()[:MAX_KEY_CHARS])
    return logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, text, values, None)


class ThrottledHandler(logging.StreamHandler):  # type: ignore[type-arg]  # generic only in the type stubs
    """Writes log records; throttles repeated warnings and errors."""

    def __init__(self, stream: object = None, repetitions: RepetitionFilter | None = None) -> None:
        super().__init__(stream)
        self._repetitions = RepetitionFilter() if repetitions is None else repetitions

    def emit(self, record: logging.LogRecord) -> None:
        for summary in self._repetitions.summarize():
            super().emit(summary)
        if record.levelno < logging.WARNING or self._repetitions.should_write(record):
            super().emit(record)

    def close(self) -> None:
        for summary in self._repetitions.summarize(is_final=True):
            super().emit(summary)
        super().close()
