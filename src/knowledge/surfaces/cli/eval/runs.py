"""The last run of each file of questions, kept in the data folder, and what is different now."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from knowledge.engine.evaluate.judge import Outcome
from knowledge.engine.evaluate.metrics import Estimate, Measures, average, difference
from knowledge.store.file_modes import make_folder, private_opener
from knowledge.surfaces.cli.find_document import absolute

FOLDER = "evaluations"


@dataclass(frozen=True, slots=True)
class Setup:
    """What must be equal for two runs to be compared."""

    file: str
    mode: str
    collections: tuple[str, ...]

    @classmethod
    def of(cls, file: Path, mode: str, collections: Sequence[str]) -> Setup:
        return cls(absolute(file), mode, tuple(sorted(collections)))

    def kept_in(self, data: Path) -> Path:
        key = json.dumps([self.file, self.mode, self.collections])
        return data / FOLDER / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


@dataclass(frozen=True, slots=True)
class Place:
    rank: int | None
    measures: Measures


@dataclass(frozen=True, slots=True)
class Run:
    at: datetime
    setup: Setup
    places: dict[str, Place]
    """By the text of the question."""

    @classmethod
    def of(cls, setup: Setup, outcomes: Sequence[Outcome]) -> Run:
        places = {outcome.question.text: Place(outcome.rank, outcome.measures) for outcome in outcomes}
        return cls(datetime.now(UTC), setup, places)


@dataclass(frozen=True, slots=True)
class Comparison:
    """This run beside the last one."""

    last: Run
    before: Measures
    """Of all questions that the last run had."""
    questions: int
    """How many both have; the rest is about those."""
    ndcg: Estimate
    better: tuple[str, ...]
    worse: tuple[str, ...]


RUN = TypeAdapter(Run)


def last_run(data: Path, setup: Setup) -> Run | None:
    """None where there was none, or where it cannot be read any more."""
    try:
        return RUN.validate_json(setup.kept_in(data).read_bytes())
    except (OSError, ValidationError):
        return None


def keep(data: Path, run: Run) -> None:
    path = run.setup.kept_in(data)
    make_folder(path.parent)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with open(draft, "wb", opener=private_opener) as file:
        file.write(RUN.dump_json(run, indent=1))
    draft.replace(path)


def compare(run: Run, last: Run | None) -> Comparison | None:
    both = [text for text in run.places if last and text in last.places]
    if last is None or not both:
        return None
    now, then = [run.places[text].measures for text in both], [last.places[text].measures for text in both]
    gains = {text: new.ndcg - old.ndcg for text, new, old in zip(both, now, then, strict=True)}
    return Comparison(
        last=last,
        before=average([place.measures for place in last.places.values()]),
        questions=len(both),
        ndcg=difference([one.ndcg for one in now], [one.ndcg for one in then]),
        better=tuple(text for text in both if gains[text] > 0),
        worse=tuple(text for text in both if gains[text] < 0),
    )
