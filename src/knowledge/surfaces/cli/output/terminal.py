"""What people see: results on stdout, progress on stderr, and colours only where there is a terminal for them."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text


def confirm(question: str, yes: bool) -> None:
    """Go on if the answer is yes; without a person to ask, --yes has to say so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("Nobody is there to be asked; add --yes to go on.")
    click.confirm(sanitize_text(question), abort=True, err=True)


UNLIMITED_COLUMNS = 10_000
"""Without a terminal lines are not broken, so that other programs can read them."""


def make_stdout_console() -> Console:
    return _make_console(sys.stdout.isatty(), stderr=False)


def make_stderr_console() -> Console:
    return _make_console(sys.stderr.isatty(), stderr=True)


def _make_console(terminal: bool, *, stderr: bool) -> Console:
    from rich.console import Console

    width = None if terminal else UNLIMITED_COLUMNS
    # rich asks the environment for NO_COLOR itself.
    return Console(stderr=stderr, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False)


def print_output(*shown: RenderableType) -> None:
    """Print results; without a terminal, lines end where their text ends."""
    console = make_stdout_console()
    if console.is_terminal:
        console.print(*shown, sep="\n")
        return
    with console.capture() as captured:
        console.print(*shown, sep="\n")
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def print_json(value: object) -> None:
    """For programs: one line, or indented where a person is looking. Dataclasses are written as on /api/v1."""
    looking = sys.stdout.isatty()
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(value, ensure_ascii=not readable, indent=2 if looking else None, default=dump_dataclass))


def dump_dataclass(value: object) -> object:
    """For `json.dumps`: what it cannot write by itself."""
    from knowledge.wire.adapters import dump

    return dump(value)


def print_message(message: str) -> None:
    """A remark for the person, beside the results."""
    click.echo(sanitize_text(message), err=True)


def sanitize_text(text: str) -> str:
    """Replaces control characters, which prevents terminal escape injection by document text."""
    if text.isprintable():
        return text
    return "".join(
        "\ufffd" if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t" else letter for letter in text
    )


def style_text(text: object, style: str = "") -> Text:
    from rich.text import Text

    return Text(sanitize_text(str(text)), style=style)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[RenderableType]], right: Sequence[str] = ()) -> None:
    """Columns under their names; those in `right` are numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in right, overflow="fold")
    for row in rows:
        table.add_row(*(sanitize_text(cell) if isinstance(cell, str) else cell for cell in row))
    print_output(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values, one a line; what is empty is left out."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        if value not in (None, "", (), []):
            table.add_row(style_text(name, "dim"), style_text(value))
    print_output(table)


def format_size(count: int) -> str:
    """Bytes as people write them."""
    amount, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if amount < 1024 or unit == "TB":
            break
        amount /= 1024
    return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"


def format_time(when: datetime | None) -> str:
    """A time on the clock of whoever is looking."""
    return "" if when is None else when.astimezone().strftime("%Y-%m-%d %H:%M")


def pluralize(number: int, one: str, many: str | None = None) -> str:
    """1 document, 2 documents."""
    return f"{number} {one if number == 1 else many or one + 's'}"
