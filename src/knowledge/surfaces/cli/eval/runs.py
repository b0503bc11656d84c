"""Stores the last run of each file of questions in the data folder and compares runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from knowledge.engine.evaluate import MeanEstimate, Measures, QuestionOutcome, average_measures, bootstrap_difference
from knowledge.filesystem.file_modes import make_folder, private_opener
from knowledge.surfaces.cli.document_lookup import absolute_path

FEEDBACK_NAME = "feedback"
FOLDER_NAME = "evaluations"


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """The options of a run; only runs with the same options are compared."""

    file: str
    mode: str
    collections: tuple[str, ...]

    @classmethod
    def from_options(cls, file: Path | None, mode: str, collections: Sequence[str]) -> EvaluationSetup:
        """Without a file the questions are those that were marked on the web page."""
        return cls(FEEDBACK_NAME if file is None else absolute_path(file), mode, tuple(sorted(collections)))

    def path_in(self, data: Path) -> Path:
        key = json.dumps([self.file, self.mode, self.collections])
        return data / FOLDER_NAME / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


@dataclass(frozen=True, slots=True)
class QuestionResult:
    rank: int | None
    measures: Measures


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    at: datetime
    setup: EvaluationSetup
    places: dict[str, QuestionResult]
    """By the text of the question."""

    @classmethod
    def from_outcomes(cls, setup: EvaluationSetup, outcomes: Sequence[QuestionOutcome]) -> EvaluationRun:
        places = {outcome.question.text: QuestionResult(outcome.rank, outcome.measures) for outcome in outcomes}
        return cls(datetime.now(UTC), setup, places)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A run compared with the last one."""

    last: EvaluationRun
    before: Measures
    """Over all questions of the last run."""
    questions: int
    """Number of questions in both runs, to which the other fields refer."""
    ndcg: MeanEstimate
    better: tuple[str, ...]
    worse: tuple[str, ...]


RUN_ADAPTER = TypeAdapter(EvaluationRun)


def load_last_run(data: Path, setup: EvaluationSetup) -> EvaluationRun | None:
    """Return the last run, or None if there is none or it cannot be read."""
    try:
        return RUN_ADAPTER.validate_json(setup.path_in(data).read_bytes())
    except (OSError, ValidationError):
        return None


def save_run(data: Path, run: EvaluationRun) -> None:
    path = run.setup.path_in(data)
    make_folder(path.parent)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with open(draft, "wb", opener=private_opener) as file:
        file.write(RUN_ADAPTER.dump_json(run, indent=1))
    draft.replace(path)


def compare_runs(run: EvaluationRun, last: EvaluationRun | None) -> RunComparison | None:
    both = [text for text in run.places if last and text in last.places]
    if last is None or not both:
        return None
    now, then = [run.places[text].measures for text in both], [last.places[text].measures for text in both]
    gains = {text: new.ndcg - old.ndcg for text, new, old in zip(both, now, then, strict=True)}
    return RunComparison(
        last=last,
        before=average_measures([place.measures for place in last.places.values()]),
        questions=len(both),
        ndcg=bootstrap_difference([one.ndcg for one in now], [one.ndcg for one in then]),
        better=tuple(text for text in both if gains[text] > 0),
        worse=tuple(text for text in both if gains[text] < 0),
    )
