"""Terminal output: results on stdout, messages on stderr, colours only on a terminal."""

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
    """Ask for confirmation and abort without it; needs --yes if stdin is not a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("Refusing to continue without confirmation: stdin is not a terminal. Pass --yes.")
    click.confirm(sanitize_text(question), abort=True, err=True)


UNLIMITED_COLUMNS = 10_000  # lines for other programs are not wrapped


def make_stdout_console() -> Console:
    return _make_console(sys.stdout.isatty(), stderr=False)


def make_stderr_console() -> Console:
    return _make_console(sys.stderr.isatty(), stderr=True)


def _make_console(terminal: bool, *, stderr: bool) -> Console:
    from rich.console import Console

    width = None if terminal else UNLIMITED_COLUMNS
    # rich reads NO_COLOR itself.
    return Console(stderr=stderr, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False)


def print_output(*shown: RenderableType) -> None:
    """Print results; strips trailing spaces if stdout is not a terminal."""
    console = make_stdout_console()
    if console.is_terminal:
        console.print(*shown, sep="\n")
        return
    with console.capture() as captured:
        console.print(*shown, sep="\n")
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def print_json(value: object) -> None:
    """Print JSON, indented on a terminal and else in one line; dataclasses have the shape of /api/v1."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(value, ensure_ascii=not is_utf8, indent=indent, default=dump_dataclass))


def dump_dataclass(value: object) -> object:
    """Convert a dataclass for the option `default` of `json.dumps`."""
    from knowledge.wire.adapters import dump

    return dump(value)


def print_message(message: str) -> None:
    """Print a message to stderr."""
    click.echo(sanitize_text(message), err=True)


def sanitize_text(text: str) -> str:
    """Replace control characters, which prevents terminal escape injection by document text."""
    if text.isprintable():
        return text
    return "".join(
        "\ufffd" if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t" else letter for letter in text
    )


def style_text(text: object, style: str = "") -> Text:
    from rich.text import Text

    return Text(sanitize_text(str(text)), style=style)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[RenderableType]], right: Sequence[str] = ()) -> None:
    """Print a table; the columns in `right` are aligned to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in right, overflow="fold")
    for row in rows:
        table.add_row(*(sanitize_text(cell) if isinstance(cell, str) else cell for cell in row))
    print_output(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one per line, without empty values."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        if value not in (None, "", (), []):
            table.add_row(style_text(name, "dim"), style_text(value))
    print_output(table)


def format_size(count: int) -> str:
    """Format a number of bytes with a unit."""
    amount, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if amount < 1024 or unit == "TB":
            break
        amount /= 1024
    return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"


def format_time(when: datetime | None) -> str:
    """Format a time in the local time zone."""
    return "" if when is None else when.astimezone().strftime("%Y-%m-%d %H:%M")


def pluralize(number: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun, such as "1 document" or "2 documents"."""
    return f"{number} {one if number == 1 else many or one + 's'}"
