"""Repeated log lines are written a few times, and then counted."""

from __future__ import annotations

import io
import logging

from knowledge.surfaces.http.log_throttle import (
    IDENTICAL_PER_WINDOW,
    MAX_TRACKED_LINES,
    SIMILAR_PER_WINDOW,
    WINDOW_SECONDS,
    RepetitionFilter,
    ThrottledHandler,
)
from knowledge.surfaces.http.logs import TextFormatter


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Log:
    def __init__(self) -> None:
        self.clock, self.stream = Clock(), io.StringIO()
        self.repetitions = RepetitionFilter(self.clock)
        self.handler = ThrottledHandler(self.stream, self.repetitions)
        self.handler.setFormatter(TextFormatter())

    def write(self, text: str, *values: object, level: int = logging.WARNING, error: Exception | None = None) -> None:
        info = (type(error), error, None) if error is not None else None
        self.handler.handle(logging.LogRecord("asyncio", level, "", 0, text, values, info))

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_a_line_that_is_repeated_is_written_a_few_times_and_then_counted() -> None:
    log = Log()
    for _ in range(10_000):
        log.write("socket.accept() out of system resource", error=OSError(24, "Too many open files"))
    assert log.stream.getvalue().count("out of system resource") == IDENTICAL_PER_WINDOW
    log.clock.now += WINDOW_SECONDS
    log.write("something else")
    [summary] = [line for line in log.lines if "repeated" in line]
    assert f"repeated {10_000 - IDENTICAL_PER_WINDOW} times in 10 s: socket.accept() out of system" in summary


def test_an_occasional_line_is_always_written() -> None:
    log = Log()
    for _ in range(100):
        log.write("the disk is slow")
        log.clock.now += WINDOW_SECONDS
    assert len(log.lines) == 100


def test_lines_with_different_values_have_a_limit_too() -> None:
    log = Log()
    for number in range(100_000):
        log.write("no session %d", number)
    assert len(log.lines) == SIMILAR_PER_WINDOW
    assert len(log.repetitions) <= MAX_TRACKED_LINES + 1


def test_levels_below_warning_are_not_throttled() -> None:
    log = Log()
    for _ in range(1000):
        log.write("answered", level=logging.INFO)
    assert len(log.lines) == 1000


def test_suppressed_lines_are_counted_at_the_end() -> None:
    log = Log()
    for _ in range(IDENTICAL_PER_WINDOW + 7):
        log.write("again")
    log.handler.close()
    assert log.lines[-1].endswith("repeated 7 times in 0 s: again")
