"""Results of benchmarks as rows: what was measured, our figure, the figure beside it, and the ratio of the two.

Each benchmark accepts `--json FILE` and appends its rows to that file, one JSON object on each line. `run_all.py` reads
them and prints one table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

NOT_INSTALLED = "not installed"
HEAD = ("what", "ours", "beside it", "ratio", "command")


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement; `beside` names the peer or the floor that was measured in the same run."""

    what: str
    ours: float
    unit: str
    beside: str = ""
    beside_value: float | None = None
    """None for a peer that was not measured."""
    missing: str = NOT_INSTALLED
    """Why a peer was not measured."""

    @property
    def ratio(self) -> float | None:
        """Our figure divided by the one beside it."""
        return self.ours / self.beside_value if self.beside_value else None

    def to_cells(self, command: str) -> list[str]:
        beside = ""
        if self.beside:
            value = self.missing if self.beside_value is None else format_value(self.beside_value, self.unit)
            beside = f"{self.beside}: {value}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return [self.what, format_value(self.ours, self.unit), beside, ratio, f"`{command}`"]


def format_value(value: float, unit: str) -> str:
    """Format counts as they are, and other numbers with three significant digits or without decimals from 100 on."""
    if isinstance(value, int):
        return f"{value:,} {unit}".rstrip()
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f} {unit}".rstrip()


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the results to this file as JSON lines")


def write_results(path: Path | None, results: Iterable[Result]) -> None:
    """Append the results to the file of `--json`, if there is one."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(result)) + "\n" for result in results)


def read_results(path: Path) -> list[Result]:
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [Result(**json.loads(line)) for line in lines]


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns."""
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]
    lines = [HEAD, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
