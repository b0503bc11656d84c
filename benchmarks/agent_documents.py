"""The documents and the 30 tasks of `agent_tasks.py`; the same ones in every run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from made_documents import TextMaker

RIVETS = {
    "Skerryvore": "4308", "Ardnamurchan": "1517", "Dubh Artach": "2963", "Hyskeir": "880", "Kinnaird": "3371",
    "Noss Head": "1204", "Rinns": "5126", "Stroma": "742",
}  # fmt: skip
DEPOTS = {
    "Alder": ("Quillon", "17"), "Birch": ("Tarrow", "4"), "Cedar": ("Venn", "29"), "Dogwood": ("Orrin", "8"),
    "Elm": ("Massel", "33"), "Fir": ("Lorne", "12"),
}  # fmt: skip
COUNTS = {
    "bell foundry": ("7713", 3), "rope walk": ("2096", 6), "glass yard": ("4451", 10), "salt store": ("9120", 15),
    "map room": ("3038", 20), "ice cellar": ("6684", 30),
}  # fmt: skip
"""Inventories: the number at the end, and the paragraphs before it."""
INVENTORIES_PER_DOCUMENT = 2
NOTE_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
OPENED_YEARS = {"Fastnet": "1904", "Wolf Rock": "1869"}


class TaskKind(StrEnum):
    FACT = "find a fact"
    READ_ON = "read on"
    COMBINE = "combine two"
    ABSENT = "not there"
    ADD = "add and find"


@dataclass(frozen=True, slots=True)
class Lookup:
    """One thing to find: what to ask, and how the answer is recognized in a text."""

    question: str
    subject: str
    """The words that the text before the answer must contain."""
    pattern: str
    """A regular expression whose only group is the answer."""

    def find_answer(self, text: str) -> str | None:
        """Return the first match after the subject."""
        begin = text.find(self.subject)
        match = re.compile(self.pattern).search(text, begin) if begin >= 0 else None
        return match.group(1) if match else None


@dataclass(frozen=True, slots=True)
class Task:
    """Lookups in order; `{}` in a later one is replaced by the answer to the one before."""

    kind: TaskKind
    lookups: tuple[Lookup, ...]
    expected: str | None
    """None if the documents have no answer."""
    note: str = ""
    """Text to add first, with the name of the toolset in place of `{}`."""


def make_documents() -> dict[str, str]:
    """Return the texts by file name."""
    return {
        **{_name(f"lighthouse {name}"): _describe_lighthouse(name, rivets) for name, rivets in RIVETS.items()},
        **{_name(f"lighthouse {name}"): _describe_old_lighthouse(name, year) for name, year in OPENED_YEARS.items()},
        **{_name(f"workshop {name}"): _describe_workshop(name, depot) for name, (depot, _) in DEPOTS.items()},
        **{_name(f"depot {depot}"): _describe_depot(depot, gate) for depot, gate in DEPOTS.values()},
        **_make_inventories(),
    }


def _name(title: str) -> str:
    return f"{title.lower().replace(' ', '-')}.md"


def _describe_lighthouse(name: str, rivets: str) -> str:
    return (
        f"# The lighthouse {name}\n\nThe lighthouse {name} is painted every fourth summer. "
        f"Its keeper counts the rivets of the gallery in spring: the gallery has {rivets} rivets.\n"
    )


def _describe_old_lighthouse(name: str, year: str) -> str:
    return f"# The lighthouse {name}\n\nThe lighthouse {name} was opened in {year} and stands on a rock in the sea.\n"


def _describe_workshop(name: str, depot: str) -> str:
    return (
        f"# Purchases of workshop {name}\n\nThe workshop {name} casts fittings. "
        f"It buys its bronze from the depot {depot} and its sand from the quarry.\n"
    )


def _describe_depot(name: str, gate: str) -> str:
    return f"# The depot {name}\n\nCarts reach the depot {name} through gate {gate}, on weekdays before noon.\n"


def _make_inventories() -> dict[str, str]:
    maker = TextMaker(11)
    names = list(COUNTS)
    documents = {}
    for number, begin in enumerate(range(0, len(names), INVENTORIES_PER_DOCUMENT), 1):
        parts = [maker.make_paragraph()]
        for name in names[begin : begin + INVENTORIES_PER_DOCUMENT]:
            count, distance = COUNTS[name]
            parts.append(f"Here begins the inventory of the {name}. {maker.make_paragraph()}")
            parts += [maker.make_paragraph() for _ in range(distance)]
            parts.append(f"The sum is {count}. {maker.make_paragraph()}")
        documents[f"ledger-{number}.md"] = "\n\n".join([f"# Ledger {number}", *parts]) + "\n"
    return documents


def make_tasks() -> list[Task]:
    facts = [
        _single(TaskKind.FACT, f"How many rivets has the gallery of the lighthouse {name}?", f"lighthouse {name}",
                r"gallery has (\d+) rivets", rivets)
        for name, rivets in RIVETS.items()
    ]  # fmt: skip
    reading = [
        _single(TaskKind.READ_ON, f"What is the sum of the inventory of the {name}?", f"inventory of the {name}",
                r"The sum is (\d+)", count)
        for name, (count, _) in COUNTS.items()
    ]  # fmt: skip
    combined = [
        Task(
            TaskKind.COMBINE,
            (
                Lookup(f"From which depot does workshop {name} buy its bronze?", f"workshop {name}", r"depot (\w+)"),
                Lookup("Through which gate do carts reach the depot {}?", "depot {}", r"gate (\d+)"),
            ),
            gate,
        )
        for name, (_, gate) in DEPOTS.items()
    ]
    absent = [
        _single(TaskKind.ABSENT, f"In which year was the lighthouse {name} opened?", f"lighthouse {name}",
                r"opened in (\d{4})", None)
        for name in ("Skerryvore", "Hyskeir", "Stroma", "Inchcape", "Eddystone")
    ]  # fmt: skip
    added = [
        Task(
            TaskKind.ADD,
            (Lookup(f"When does the {{}} team descale kettle {number}?", "{} team", rf"kettle {number} on (\w+)"),),
            day,
            f"The {{}} team descales kettle {number} on {day}, before the morning round.",
        )
        for number, day in enumerate(NOTE_DAYS, 1)
    ]
    return [*facts, *reading, *combined, *absent, *added]


def _single(kind: TaskKind, question: str, subject: str, pattern: str, expected: str | None) -> Task:
    return Task(kind, (Lookup(question, subject, pattern),), expected)
