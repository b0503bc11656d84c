"""Prints an evaluation on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.engine.evaluate import CUTOFF_RANK, Expectation, Measures, QuestionOutcome
from knowledge.model import Hit
from knowledge.surfaces.cli.eval.runs import EvaluationRun, EvaluationSetup, QuestionResult, RunComparison
from knowledge.surfaces.cli.output.hits import join_lines, make_excerpt
from knowledge.surfaces.cli.output.json_shapes import (
    ComparisonShape,
    EvaluationShape,
    ExpectationShape,
    JudgedShape,
    MeasuresShape,
    TopShape,
)
from knowledge.surfaces.cli.output.terminal import format_time, print_facts, print_message, print_output, print_table


@dataclass(frozen=True, slots=True)
class Evaluation:
    setup: EvaluationSetup
    measures: Measures
    outcomes: Sequence[QuestionOutcome]
    comparison: RunComparison | None
    notes: Sequence[str]
    missing: Sequence[str]


# -- text -----------------------------------------------------------------------------------------


def print_evaluation(evaluation: Evaluation) -> None:
    last = evaluation.comparison.last if evaluation.comparison else None
    print_table(
        ["rank", "last", "question", "first hit"],
        [_format_row(outcome, last) for outcome in evaluation.outcomes],
        right=["rank", "last"],
    )
    print_output("")
    print_facts([*_format_measures(evaluation), *_format_changes(evaluation.comparison)])
    for note in evaluation.notes:
        print_message(note)
    for name in evaluation.missing:
        print_message(f"The expected document '{name}' does not exist.")


def _format_row(outcome: QuestionOutcome, last: EvaluationRun | None) -> list[str]:
    before = last.places.get(outcome.question.text) if last else None
    return [
        _format_rank(outcome.rank),
        _format_previous_rank(outcome, before),
        outcome.question.text,
        _format_top_hit(outcome),
    ]


def _format_rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _format_previous_rank(outcome: QuestionOutcome, before: QuestionResult | None) -> str:
    """Return the rank of the last run if it differs."""
    return "" if before is None or before.rank == outcome.rank else _format_rank(before.rank)


def _format_top_hit(outcome: QuestionOutcome) -> str:
    if outcome.rank == 1:
        return ""
    if outcome.top_hit is None:
        return "no results"
    hit = outcome.top_hit
    if all(one.passage is None for one in outcome.question.expected):
        return hit.document.title
    return f"{hit.document.title}: {make_excerpt(join_lines(hit.text), []).text}"


def _format_measures(evaluation: Evaluation) -> list[tuple[str, object]]:
    ranks = [outcome.rank for outcome in evaluation.outcomes]
    first, near = ranks.count(1), sum(rank is not None and rank <= CUTOFF_RANK for rank in ranks)
    now, before = evaluation.measures, evaluation.comparison.before if evaluation.comparison else None
    return [
        ("nDCG@10", _format_measure(now.ndcg, before.ndcg if before else None)),
        ("recall@10", _format_measure(now.recall, before.recall if before else None)),
        ("MRR@10", _format_measure(now.mrr, before.mrr if before else None)),
        ("questions", f"{len(ranks)}, of which {first} have the answer first and {near} in the first ten"),
    ]


def _format_measure(now: float, before: float | None) -> str:
    return f"{now:.4f}" if before is None else f"{now:.4f}  (last {before:.4f})"


def _format_changes(comparison: RunComparison | None) -> list[tuple[str, object]]:
    if comparison is None:
        return []
    gain = comparison.ndcg
    verdict = "better" if gain.low > 0 else "worse" if gain.high < 0 else "not significant"
    return [
        ("last run", format_time(comparison.last.at)),
        ("difference", f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}] nDCG@10, {verdict}"),
        ("changed", f"{len(comparison.better)} better, {len(comparison.worse)} worse, of {comparison.questions}"),
    ]


# -- JSON -----------------------------------------------------------------------------------------


def dump_evaluation(evaluation: Evaluation) -> EvaluationShape:
    setup = evaluation.setup
    return {
        "file": setup.file,
        "mode": setup.mode,
        "collections": list(setup.collections),
        "questions": len(evaluation.outcomes),
        **_dump_measures(evaluation.measures),
        "results": [_dump_outcome(outcome) for outcome in evaluation.outcomes],
        "last": _dump_comparison(evaluation.comparison) if evaluation.comparison else None,
        "notes": list(evaluation.notes),
        "missing_documents": list(evaluation.missing),
    }


def _dump_measures(measures: Measures) -> MeasuresShape:
    return {"ndcg": measures.ndcg, "recall": measures.recall, "mrr": measures.mrr}


def _dump_outcome(outcome: QuestionOutcome) -> JudgedShape:
    return {
        "question": outcome.question.text,
        "expected": [_dump_expectation(one) for one in outcome.question.expected],
        "rank": outcome.rank,
        **_dump_measures(outcome.measures),
        "top": _dump_top_hit(outcome.top_hit) if outcome.top_hit else None,
    }


def _dump_expectation(one: Expectation) -> ExpectationShape:
    return {"document": one.document, "passage": one.passage}


def _dump_top_hit(hit: Hit) -> TopShape:
    document = hit.document
    return {
        "document_id": document.id,
        "title": document.title,
        "source_path": document.source_path,
        "text": hit.text,
        "score": hit.score,
    }


def _dump_comparison(comparison: RunComparison) -> ComparisonShape:
    gain = comparison.ndcg
    return {
        "at": comparison.last.at.isoformat(),
        "questions": comparison.questions,
        **_dump_measures(comparison.before),
        "ndcg_difference": {"mean": gain.mean, "low": gain.low, "high": gain.high},
        "better": list(comparison.better),
        "worse": list(comparison.worse),
    }
