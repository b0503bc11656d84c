"""Progress bar on the terminal: files done, rate, remaining time and current step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from knowledge.surfaces.cli.output.terminal import make_stderr_console, sanitize_text

if TYPE_CHECKING:
    from rich.progress import Progress, Task
    from rich.text import Text


class ProgressDisplay(Protocol):
    """Receives the progress of files."""

    def step(self, name: str, what: str, done: int, total: int) -> None: ...

    def end(self, name: str) -> None: ...


class NoProgress:
    """Shows nothing; for stderr that is not a terminal."""

    def step(self, name: str, what: str, done: int, total: int) -> None: ...

    def end(self, name: str) -> None: ...


class ProgressBar:
    """A progress bar over finished files and the fractions of unfinished ones."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._task = progress, progress.add_task("", total=total)
        self._ended = 0
        self._shares: dict[str, float] = {}

    def step(self, name: str, what: str, done: int, total: int) -> None:
        self._shares[name] = min(done / total, 1.0) if total else 0.0
        self._redraw(f"{Path(name).name}: {what}" if what else Path(name).name)

    def end(self, name: str) -> None:
        self._shares.pop(name, None)
        self._ended += 1
        self._redraw(Path(name).name)

    def _redraw(self, doing: str) -> None:
        completed = self._ended + sum(self._shares.values())
        self._progress.update(self._task, completed=completed, description=sanitize_text(doing), ended=self._ended)


@contextmanager
def show_progress(total: int) -> Iterator[ProgressDisplay]:
    """Show a progress bar on stderr during the block if it is a terminal."""
    if not sys.stderr.isatty() or not total:
        yield NoProgress()
        return
    with _make_progress() as progress:
        yield ProgressBar(progress, total)


def _make_progress() -> Progress:
    from rich import progress
    from rich.table import Column
    from rich.text import Text

    class Rate(progress.ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(format_rate(task.finished_speed or task.speed), style="dim")

    class Files(progress.ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.fields.get('ended', 0)}/{int(task.total or 0)}")

    return progress.Progress(
        progress.BarColumn(24),
        Files(),
        Rate(),
        progress.TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        progress.TextColumn(
            "{task.description}", markup=False, style="dim", table_column=Column(no_wrap=True, ratio=1)
        ),
        console=make_stderr_console(),
        transient=True,
        expand=True,
    )


def format_rate(speed: float | None) -> str:
    if not speed:
        return ""
    return f"{speed:.1f}/s" if speed >= 1 else f"{speed * 60:.1f}/min"
