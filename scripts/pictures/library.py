"""The sample library of the screenshots: a small tidal power station with a paper, a handbook, notes and a web page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from scripts.pictures.paper import Paper

SAMPLES = Path(__file__).parent / "samples"
QUESTION = "when do divers clean the blades"
FIGURE, TABLE = "FIGURE", "TABLE"
"""Paragraphs of samples/paper.md in whose place the figure and the table are drawn."""


@dataclass(frozen=True, slots=True)
class Sample:
    filename: str
    content: bytes
    collection: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    text: str
    collection: str
    tags: tuple[str, ...]
    title: str | None = None


NOTES = (
    Note(
        "Growth on blade 2 was already thick on 9 May, three weeks earlier than last year: the water is two degrees "
        "warmer. Output at 2 m/s is down 7 %.",
        "operations",
        ("station", "fouling"),
    ),
    Note(
        "The new coating arrives in calendar week 34. Two coats, 24 hours apart, and not below 8 degrees.",
        "operations",
        ("station",),
    ),
    Note(
        "Visitors park behind the boat house. The gate code changes on the first of the month.", "office", ("visitors",)
    ),
)


def read_logbook() -> list[Note]:
    """Return the short notes that fill the library and the map."""
    notes = []
    for entry in (SAMPLES / "logbook.md").read_text("utf-8").strip().split("\n\n"):
        head, text = entry.split("\n", 1)
        collection, tag, title = head.split(" | ")
        notes.append(Note(text, collection, (tag,), title))
    return notes


def make_paper() -> bytes:
    """Set samples/paper.md as a PDF of two columns."""
    title, authors, place, abstract, *blocks = (SAMPLES / "paper.md").read_text("utf-8").strip().split("\n\n")
    paper = Paper(title.removeprefix("# "))
    paper.open(authors, place, abstract)
    for block in blocks:
        if block.startswith("## "):
            paper.heading(block.removeprefix("## "))
        elif block == FIGURE:
            caption = "Figure 1: Output at equal current over one year; black: never cleaned, grey: cleaned in May."
            paper.plot(make_curves(), "JFMAMJJASOND", caption)
        elif block == TABLE:
            rows = ("Turbine|Year 1|Year 2", "A, cleaned twice|97.1|96.4", "B, cleaned once|88.9|95.8",
                    "C, never cleaned|89.3|86.7")  # fmt: skip
            paper.table([row.split("|") for row in rows], "Table 1: Energy of the year in percent of a clean turbine.")
        else:
            paper.paragraph(block)
    return paper.to_bytes(authors)


def make_curves() -> tuple[list[float], list[float]]:
    """Return the output of each week without and with cleaning, from 0 to 1."""
    weeks = range(53)
    dirty = [1 - 0.58 * math.exp(-(((week - 28) / 7.5) ** 2)) + 0.02 * math.sin(1.9 * week) for week in weeks]
    return dirty, [dirty[week] if week < 20 else 0.93 + 0.02 * math.sin(2.3 * week) for week in weeks]


def make_samples() -> list[Sample]:
    """Return the files of the library, the one to be listed first last."""

    def read(name: str, collection: str, *tags: str) -> Sample:
        return Sample(name, (SAMPLES / name).read_bytes(), collection, tags)

    return [
        read("visitors.md", "office"),
        read("replacing-the-inverter-fan.md", "operations", "station"),
        read("notices-to-mariners.html", "harbour"),
        read("station-handbook.md", "operations", "station"),
        Sample("summer-loss-of-tidal-turbines.pdf", make_paper(), "research", ("fouling",)),
    ]
