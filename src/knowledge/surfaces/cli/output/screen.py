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

UNBROKEN = 10_000
"""Without a terminal lines are not broken, so that other programs can read them."""


def out() -> Console:
    return _console(sys.stdout.isatty(), stderr=False)


def err() -> Console:
    return _console(sys.stderr.isatty(), stderr=True)


def _console(terminal: bool, *, stderr: bool) -> Console:
    from rich.console import Console

    width = None if terminal else UNBROKEN
    # rich asks the environment for NO_COLOR itself.
    return Console(stderr=stderr, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False)


def show(*shown: RenderableType) -> None:
    """Print results; without a terminal, lines end where their text ends."""
    console = out()
    if console.is_terminal:
        console.print(*shown, sep="\n")
        return
    with console.capture() as captured:
        console.print(*shown, sep="\n")
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def print_json(value: object) -> None:
    """For programs: one line, or indented where a person is looking."""
    looking = sys.stdout.isatty()
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(value, ensure_ascii=not readable, indent=2 if looking else None))


def say(message: str) -> None:
    """A remark for the person, beside the results."""
    click.echo(clean(message), err=True)


def clean(text: str) -> str:
    """Text that cannot command the terminal: control characters are shown as a mark."""
    if text.isprintable():
        return text
    return "".join(
        "\ufffd" if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t" else letter for letter in text
    )


def styled(text: object, style: str = "") -> Text:
    from rich.text import Text

    return Text(clean(str(text)), style=style)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[RenderableType]], right: Sequence[str] = ()) -> None:
    """Columns under their names; those in `right` are numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in right, overflow="fold")
    for row in rows:
        table.add_row(*(clean(cell) if isinstance(cell, str) else cell for cell in row))
    show(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values, one a line; what is empty is left out."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        if value not in (None, "", (), []):
            table.add_row(styled(name, "dim"), styled(value))
    show(table)


def size(count: int) -> str:
    """Bytes as people write them."""
    amount, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if amount < 1024 or unit == "TB":
            break
        amount /= 1024
    return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"


def moment(when: datetime | None) -> str:
    """A time on the clock of whoever is looking."""
    return "" if when is None else when.astimezone().strftime("%Y-%m-%d %H:%M")


def count(number: int, one: str, many: str | None = None) -> str:
    """1 document, 2 documents."""
    return f"{number} {one if number == 1 else many or one + 's'}"
