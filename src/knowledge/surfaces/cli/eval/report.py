"""How an evaluation looks: on the terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.engine.evaluate.judge import Expectation, Outcome
from knowledge.engine.evaluate.metrics import DEPTH, Measures
from knowledge.model import Hit
from knowledge.surfaces.cli.eval.runs import Comparison, Place, Run, Setup
from knowledge.surfaces.cli.output.highlight import excerpt, on_one_line
from knowledge.surfaces.cli.output.json_shapes import (
    ComparisonShape,
    EvaluationShape,
    ExpectationShape,
    JudgedShape,
    MeasuresShape,
    TopShape,
)
from knowledge.surfaces.cli.output.screen import moment, print_facts, print_table, say, show


@dataclass(frozen=True, slots=True)
class Evaluation:
    setup: Setup
    measures: Measures
    outcomes: Sequence[Outcome]
    compared: Comparison | None
    notes: Sequence[str]
    missing: Sequence[str]


# -- for people -----------------------------------------------------------------------------------


def print_evaluation(evaluation: Evaluation) -> None:
    last = evaluation.compared.last if evaluation.compared else None
    print_table(
        ["rank", "last", "question", "on top instead"],
        [_row(outcome, last) for outcome in evaluation.outcomes],
        right=["rank", "last"],
    )
    show("")
    print_facts([*_figures(evaluation), *_changes(evaluation.compared)])
    for note in evaluation.notes:
        say(note)
    for name in evaluation.missing:
        say(f"No document is called '{name}', so it could not be found.")


def _row(outcome: Outcome, last: Run | None) -> list[str]:
    before = last.places.get(outcome.question.text) if last else None
    return [_rank(outcome.rank), _before(outcome, before), outcome.question.text, _instead(outcome)]


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _before(outcome: Outcome, before: Place | None) -> str:
    """The old rank, where it was another."""
    return "" if before is None or before.rank == outcome.rank else _rank(before.rank)


def _instead(outcome: Outcome) -> str:
    if outcome.rank == 1:
        return ""
    if outcome.top is None:
        return "nothing was found"
    hit = outcome.top
    if all(one.passage is None for one in outcome.question.expected):
        return hit.document.title
    return f"{hit.document.title}: {excerpt(on_one_line(hit.text), []).text}"


def _figures(evaluation: Evaluation) -> list[tuple[str, object]]:
    ranks = [outcome.rank for outcome in evaluation.outcomes]
    first, near = ranks.count(1), sum(rank is not None and rank <= DEPTH for rank in ranks)
    now, before = evaluation.measures, evaluation.compared.before if evaluation.compared else None
    return [
        ("nDCG@10", _figure(now.ndcg, before.ndcg if before else None)),
        ("recall@10", _figure(now.recall, before.recall if before else None)),
        ("MRR@10", _figure(now.mrr, before.mrr if before else None)),
        ("questions", f"{len(ranks)}, of which {first} have it on top and {near} in the first ten"),
    ]


def _figure(now: float, before: float | None) -> str:
    return f"{now:.4f}" if before is None else f"{now:.4f}  (last {before:.4f})"


def _changes(compared: Comparison | None) -> list[tuple[str, object]]:
    if compared is None:
        return []
    gain = compared.ndcg
    verdict = "better" if gain.low > 0 else "worse" if gain.high < 0 else "within the noise"
    return [
        ("last run", moment(compared.last.at)),
        ("difference", f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}] nDCG@10, {verdict}"),
        ("changed", f"{len(compared.better)} better, {len(compared.worse)} worse, of {compared.questions}"),
    ]


# -- for programs ---------------------------------------------------------------------------------


def dump_evaluation(evaluation: Evaluation) -> EvaluationShape:
    setup = evaluation.setup
    return {
        "file": setup.file,
        "mode": setup.mode,
        "collections": list(setup.collections),
        "questions": len(evaluation.outcomes),
        **_measures(evaluation.measures),
        "results": [_judged(outcome) for outcome in evaluation.outcomes],
        "last": _comparison(evaluation.compared) if evaluation.compared else None,
        "notes": list(evaluation.notes),
        "missing_documents": list(evaluation.missing),
    }


def _measures(measures: Measures) -> MeasuresShape:
    return {"ndcg": measures.ndcg, "recall": measures.recall, "mrr": measures.mrr}


def _judged(outcome: Outcome) -> JudgedShape:
    return {
        "question": outcome.question.text,
        "expected": [_expectation(one) for one in outcome.question.expected],
        "rank": outcome.rank,
        **_measures(outcome.measures),
        "top": _top(outcome.top) if outcome.top else None,
    }


def _expectation(one: Expectation) -> ExpectationShape:
    return {"document": one.document, "passage": one.passage}


def _top(hit: Hit) -> TopShape:
    document = hit.document
    return {
        "document_id": document.id,
        "title": document.title,
        "source_path": document.source_path,
        "text": hit.text,
        "score": hit.score,
    }


def _comparison(compared: Comparison) -> ComparisonShape:
    gain = compared.ndcg
    return {
        "at": compared.last.at.isoformat(),
        "questions": compared.questions,
        **_measures(compared.before),
        "ndcg_difference": {"mean": gain.mean, "low": gain.low, "high": gain.high},
        "better": list(compared.better),
        "worse": list(compared.worse),
    }
