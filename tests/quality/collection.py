"""A collection of our own, with its questions: pages that ship with the product, and pages of docs/.

    python -m tests.quality.collection          # measures, and writes the baseline anew

Only pages that a question names take part, so that a page that is new in docs/ does not move the figures. Those of
docs/reference stay out: they say again what other pages say. The questions have the form that `knowledge eval` reads.
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
ELSEWHERE = HERE / "elsewhere.txt"
"""Questions that no page of ours is about."""
MODES = (SearchMode.HYBRID, SearchMode.TEXT, SearchMode.VECTOR)
RELEVANT_SCORE = 0.5
JOB_SECONDS = 120.0


@dataclass(frozen=True)
class MeasuredQuality:
    outcomes: dict[SearchMode, list[QuestionOutcome]]
    unrelated_scores: dict[str, float]
    """The relevance of the best hit, by question, where none is relevant."""


@dataclass(frozen=True)
class Baseline:
    ndcg: dict[str, float]
    relevant: dict[str, float]
    """The share of the questions with a hit of relevance 0.5, by mode."""
    ranks: dict[str, int | None]
    """Of the hybrid mode, by question: to name those that fell."""

    @classmethod
    def read(cls) -> Baseline:
        return cls(**json.loads(BASELINE.read_text("utf-8")))


def list_pages() -> list[Path]:
    """The pages that the questions name."""
    expected = [one for question in read_questions(QUESTIONS) for one in question.expected]
    return [find_page(str(name)) for name in sorted({one.document for one in expected if one.document})]


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
    questions = ELSEWHERE.read_text("utf-8").splitlines()
    answers = [await engine.search(Query(text=question, limit=1)) for question in questions]
    return {text: answer.hits[0].score for text, answer in zip(questions, answers, strict=True) if answer.hits}


def measure_quality(data: Path) -> MeasuredQuality:
    """Every question in every mode, answered by the whole engine with its default model."""

    async def work() -> MeasuredQuality:
        await add_pages(engine)
        return MeasuredQuality(
            {mode: await judge_questions(engine, mode) for mode in MODES}, await score_unrelated_questions(engine)
        )

    engine = open_engine(Settings(data=data, embedding="default"))
    engine.start()
    try:
        return asyncio.run(work())
    finally:
        engine.close()


def average_ndcg(judged: Sequence[QuestionOutcome]) -> float:
    return average_measures([outcome.measures for outcome in judged]).ndcg


def share_relevant(judged: Sequence[QuestionOutcome]) -> float:
    """The share of the questions with a hit that says it is relevant."""
    return mean([float(one.top_hit is not None and one.top_hit.score >= RELEVANT_SCORE) for one in judged])


def write_baseline(found: Mapping[SearchMode, Sequence[QuestionOutcome]]) -> None:
    baseline = {
        "ndcg": {mode.value: round(average_ndcg(judged), 4) for mode, judged in found.items()},
        "relevant": {mode.value: round(share_relevant(judged), 4) for mode, judged in found.items()},
        "ranks": {outcome.question.text: outcome.rank for outcome in found[SearchMode.HYBRID]},
    }
    BASELINE.write_text(json.dumps(baseline, ensure_ascii=False, indent=1) + "\n", "utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measure_quality(Path(folder) / "data").outcomes
    write_baseline(found)
    for mode, judged in found.items():
        print(f"{mode.value:8} {average_measures([one.measures for one in judged])}")
    for outcome in found[SearchMode.HYBRID]:
        if outcome.rank != 1:
            title = outcome.top_hit.document.title if outcome.top_hit else ""
            print(f"{outcome.rank!s:>4}  {outcome.question.text}  ->  {title}")


if __name__ == "__main__":
    main()
