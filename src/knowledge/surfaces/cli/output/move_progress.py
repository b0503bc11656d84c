"""Shows the progress of a move or a restore: bars on a terminal, otherwise lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from knowledge.surfaces.cli.output.terminal import format_size, make_stderr_console

if TYPE_CHECKING:
    from rich.progress import Progress

    from knowledge.config import Settings
    from knowledge.engine.moving.places import DataPlace
    from knowledge.engine.moving.progress import MoveProgress

LINE_SECONDS = 10.0
"""Time between two lines of progress where there is no terminal."""


@contextmanager
def show_move(*, quiet: bool) -> Iterator[MoveProgress]:
    """Show a bar for each step on a terminal, otherwise lines on stderr."""
    from knowledge.engine.moving.progress import SilentProgress

    if sys.stderr.isatty():
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(24),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(compact=True),
        )
        with progress.Progress(*columns, console=make_stderr_console(), transient=True) as bars:
            yield StepBars(bars)
    else:
        yield SilentProgress() if quiet else StepLines()


class StepBars:
    """A bar for each step."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    def start(self, step: str, total: int, unit: str) -> None:  # noqa: ARG002 - a bar shows the share
        self._task = self._bars.add_task(step, total=max(total, 1))

    def advance(self, done: int) -> None:
        self._bars.advance(self._task, done)


class StepLines:
    """A line when a step begins, and every few seconds."""

    def start(self, step: str, total: int, unit: str) -> None:
        self._step, self._total, self._unit, self._done = step, total, unit, 0
        self._next = time.monotonic() + LINE_SECONDS
        click.echo(f"{step}: {self._format(total)}", err=True)

    def advance(self, done: int) -> None:
        self._done += done
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_SECONDS
            click.echo(f"{self._step}: {self._format(self._done)} of {self._format(self._total)}", err=True)

    def _format(self, number: int) -> str:
        return format_size(number) if self._unit == "bytes" else f"{number:,} {self._unit}"


def find_place(settings: Settings) -> DataPlace:
    """Return where the data of the settings is."""
    from knowledge.engine.moving.places import DataPlace

    url = settings.database_url.get_secret_value() if settings.database_url else None
    return DataPlace(
        settings.data, url, settings.originals_url or (str(settings.originals) if settings.originals else "")
    )
