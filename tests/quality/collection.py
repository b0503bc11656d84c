"""Measures search quality with questions about the pages of docs/ and of the product.

    python -m tests.quality.collection          # measures, and writes the baseline

Only pages that a question names are added, so that a new page does not change the figures; docs/reference is left out
because it repeats other pages. The questions have the format of `knowledge eval`.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowledge.app import open_engine
from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.evaluate import QuestionOutcome, average_measures, judge_hits, mean
from knowledge.model import Content, JobStatus, NewFile, Query, SearchMode
from knowledge.surfaces.cli.eval.questions import read_questions

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
QUESTIONS, BASELINE = HERE / "questions.jsonl", HERE / "baseline.json"
UNRELATED_QUESTIONS = HERE / "unrelated_questions.txt"
"""Questions that no page answers."""
MODES = (SearchMode.HYBRID, SearchMode.TEXT, SearchMode.VECTOR)
RELEVANT_SCORE = 0.5
JOB_SECONDS = 120.0


@dataclass(frozen=True)
class MeasuredQuality:
    outcomes: dict[SearchMode, list[QuestionOutcome]]
    unrelated_scores: dict[str, float]
    """Score of the best hit of each question that no page answers."""


@dataclass(frozen=True)
class Baseline:
    ndcg: dict[str, float]
    relevant: dict[str, float]
    """Share of the questions whose best hit has a score of RELEVANT_SCORE, by mode."""
    ranks: dict[str, int | None]
    """Ranks in hybrid mode by question, to name the questions that got worse."""

    @classmethod
    def read(cls) -> Baseline:
        return cls(**json.loads(BASELINE.read_text("utf-8")))


def list_pages() -> list[Path]:
    """Return the pages that the questions name."""
    expected = [expectation for question in read_questions(QUESTIONS) for expectation in question.expected]
    names = {str(expectation.document) for expectation in expected if expectation.document}
    return [find_page(name) for name in sorted(names)]


def find_page(name: str) -> Path:
    return ROOT / ("src/knowledge" if name.startswith("content/") else "") / name


async def add_pages(engine: Engine) -> None:
    jobs = []
    for path in list_pages():
        new = NewFile(filename=path.name, content=Content.from_path(path), source_path=str(path))
        jobs.append(await engine.add(new))
    for job in jobs:
        ended = await engine.wait(job.id, JOB_SECONDS)
        assert ended.status is JobStatus.COMPLETED, f"{ended.filename}: {ended.status} {ended.error}"


async def judge_questions(engine: Engine, mode: SearchMode) -> list[QuestionOutcome]:
    judged = []
    for question in read_questions(QUESTIONS):
        answer = await engine.search(Query(text=question.text, mode=mode, limit=100))
        assert answer.mode is mode, answer.notes
        judged.append(judge_hits(question, answer.hits))
    return judged


async def score_unrelated_questions(engine: Engine) -> dict[str, float]:
    questions = UNRELATED_QUESTIONS.read_text("utf-8").splitlines()
    answers = [await engine.search(Query(text=question, limit=1)) for question in questions]
    return {text: answer.hits[0].score for text, answer in zip(questions, answers, strict=True) if answer.hits}


def measure_quality(data: Path) -> MeasuredQuality:
    """Answer every question in every mode with the whole engine and its default model."""

    async def measure() -> MeasuredQuality:
        await add_pages(engine)
        return MeasuredQuality(
            {mode: await judge_questions(engine, mode) for mode in MODES}, await score_unrelated_questions(engine)
        )

    engine = open_engine(Settings(data=data, embedding="default"))
    engine.start()
    try:
        return asyncio.run(measure())
    finally:
        engine.close()


def average_ndcg(judged: Sequence[QuestionOutcome]) -> float:
    return average_measures([outcome.measures for outcome in judged]).ndcg


def compute_relevant_share(judged: Sequence[QuestionOutcome]) -> float:
    """Return the share of the questions whose best hit is relevant."""
    hits = [outcome.top_hit for outcome in judged]
    return mean([float(hit is not None and hit.score >= RELEVANT_SCORE) for hit in hits])


def write_baseline(outcomes: Mapping[SearchMode, Sequence[QuestionOutcome]]) -> None:
    baseline = {
        "ndcg": {mode.value: round(average_ndcg(judged), 4) for mode, judged in outcomes.items()},
        "relevant": {mode.value: round(compute_relevant_share(judged), 4) for mode, judged in outcomes.items()},
        "ranks": {outcome.question.text: outcome.rank for outcome in outcomes[SearchMode.HYBRID]},
    }
    BASELINE.write_text(json.dumps(baseline, ensure_ascii=False, indent=1) + "\n", "utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcomes = measure_quality(Path(folder) / "data").outcomes
    write_baseline(outcomes)
    for mode, judged in outcomes.items():
        print(f"{mode.value:8} {average_measures([outcome.measures for outcome in judged])}")
    for outcome in outcomes[SearchMode.HYBRID]:
        if outcome.rank != 1:
            title = outcome.top_hit.document.title if outcome.top_hit else ""
            print(f"{outcome.rank!s:>4}  {outcome.question.text}  ->  {title}")


if __name__ == "__main__":
    main()
