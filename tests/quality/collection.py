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
from knowledge.engine.evaluate.judge import Outcome, judge
from knowledge.engine.evaluate.metrics import average, mean
from knowledge.model import Content, JobStatus, Mode, NewFile, Query
from knowledge.surfaces.cli.eval.questions import read_questions

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
QUESTIONS, BASELINE = HERE / "questions.jsonl", HERE / "baseline.json"
ELSEWHERE = HERE / "elsewhere.txt"
"""Questions that no page of ours is about."""
MODES = (Mode.HYBRID, Mode.TEXT, Mode.VECTOR)
RELEVANT = 0.5
LIMIT = 120.0


@dataclass(frozen=True)
class Found:
    outcomes: dict[Mode, list[Outcome]]
    strange: dict[str, float]
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


def pages() -> list[Path]:
    """The pages that the questions name."""
    expected = [one for question in read_questions(QUESTIONS) for one in question.expected]
    return [page(str(name)) for name in sorted({one.document for one in expected if one.document})]


def page(name: str) -> Path:
    return ROOT / ("src/knowledge" if name.startswith("content/") else "") / name


async def fill(engine: Engine) -> None:
    jobs = []
    for path in pages():
        new = NewFile(filename=path.name, content=Content.from_path(path), source_path=str(path))
        jobs.append(await engine.add(new))
    for job in jobs:
        ended = await engine.wait(job.id, LIMIT)
        assert ended.status is JobStatus.COMPLETED, f"{ended.filename}: {ended.status} {ended.error}"


async def outcomes(engine: Engine, mode: Mode) -> list[Outcome]:
    judged = []
    for question in read_questions(QUESTIONS):
        answer = await engine.search(Query(text=question.text, mode=mode, limit=100))
        assert answer.mode is mode, answer.notes
        judged.append(judge(question, answer.hits))
    return judged


async def strange(engine: Engine) -> dict[str, float]:
    questions = ELSEWHERE.read_text("utf-8").splitlines()
    answers = [await engine.search(Query(text=question, limit=1)) for question in questions]
    return {text: answer.hits[0].score for text, answer in zip(questions, answers, strict=True) if answer.hits}


def measured(data: Path) -> Found:
    """Every question in every mode, answered by the whole engine with its default model."""

    async def work() -> Found:
        await fill(engine)
        return Found({mode: await outcomes(engine, mode) for mode in MODES}, await strange(engine))

    engine = open_engine(Settings(data=data, embedding="default"))
    engine.start()
    try:
        return asyncio.run(work())
    finally:
        engine.close()


def ndcg(judged: Sequence[Outcome]) -> float:
    return average([outcome.measures for outcome in judged]).ndcg


def relevant(judged: Sequence[Outcome]) -> float:
    """The share of the questions with a hit that says it is relevant."""
    return mean([float(one.top is not None and one.top.score >= RELEVANT) for one in judged])


def write_baseline(found: Mapping[Mode, Sequence[Outcome]]) -> None:
    baseline = {
        "ndcg": {mode.value: round(ndcg(judged), 4) for mode, judged in found.items()},
        "relevant": {mode.value: round(relevant(judged), 4) for mode, judged in found.items()},
        "ranks": {outcome.question.text: outcome.rank for outcome in found[Mode.HYBRID]},
    }
    BASELINE.write_text(json.dumps(baseline, ensure_ascii=False, indent=1) + "\n", "utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder) / "data").outcomes
    write_baseline(found)
    for mode, judged in found.items():
        print(f"{mode.value:8} {average([one.measures for one in judged])}")
    for outcome in found[Mode.HYBRID]:
        if outcome.rank != 1:
            print(
                f"{outcome.rank!s:>4}  {outcome.question.text}  ->  {outcome.top.document.title if outcome.top else ''}"
            )


if __name__ == "__main__":
    main()
