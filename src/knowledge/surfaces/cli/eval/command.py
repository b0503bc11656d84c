"""`knowledge eval`: measures search quality with questions whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.model import Query, SearchFilter, SearchMode
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.progress import ProgressDisplay, show_progress
from knowledge.surfaces.cli.output.terminal import print_json, print_message
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from knowledge.engine.evaluate import EvalQuestion, QuestionOutcome

SEARCH_DEPTH = 100
"""Hits per question: enough for ten different documents, and to report the rank of a late one."""


@click.command(
    "eval",
    epilog=format_examples(
        "knowledge eval questions.jsonl",
        "knowledge eval --feedback",
        "knowledge eval questions.csv --collection manuals --mode text",
        "knowledge eval questions.yaml --min-ndcg 0.8 --json | jq '.results[] | select(.rank != 1)'",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--feedback", is_flag=True, help="Use the passages that were marked as right on the web page.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in SearchMode]),
    default=SearchMode.HYBRID.value,
    show_default=True,
    help="Search by words and meaning, words only (text), meaning only (vector), or reranked.",
)
@click.option("--collection", "-c", "collections", multiple=True, metavar="NAME", help="Search this collection only.")
@click.option("--min-ndcg", type=click.FloatRange(0, 1), help="Exit with code 1 if nDCG@10 is lower.")
@common_options
@pass_session
@click.pass_context
def evaluate(
    context: click.Context,
    session: CliSession,
    file: Path | None,
    feedback: bool,
    mode: str,
    collections: tuple[str, ...],
    min_ndcg: float | None,
) -> None:
    """Measure how well search answers the questions in FILE.

    FILE is JSON Lines, JSON, YAML, CSV or TSV. Each entry has a question and the expected answer: a document (its
    title, path or id), a passage (its text), or both. The run is compared with the last run of the same file.
    With --feedback the questions are those whose passages were marked on the web page.
    """
    from knowledge.engine.evaluate import average_measures
    from knowledge.surfaces.cli.document_lookup import parse_collection_ref
    from knowledge.surfaces.cli.eval.questions import read_questions
    from knowledge.surfaces.cli.eval.report import Evaluation, dump_evaluation, print_evaluation
    from knowledge.surfaces.cli.eval.runs import EvaluationRun, EvaluationSetup, compare_runs, load_last_run, save_run

    if (file is None) is not feedback:
        raise click.UsageError("Give either FILE or --feedback.")
    questions = read_questions(file) if file is not None else session.run(read_feedback)
    wanted = SearchFilter(collections=tuple(parse_collection_ref(name) for name in collections))
    query = Query(text="", limit=SEARCH_DEPTH, mode=SearchMode(mode), filter=wanted)
    with show_progress(len(questions)) as display:
        outcomes, notes, missing = session.run(lambda engine: ask_questions(engine, questions, query, display))
    setup, data = EvaluationSetup.from_options(file, mode, collections), session.settings.data
    run = EvaluationRun.from_outcomes(setup, outcomes)
    compared = compare_runs(run, load_last_run(data, setup))
    save_run(data, run)
    evaluation = Evaluation(
        setup, average_measures([one.measures for one in outcomes]), outcomes, compared, notes, missing
    )
    if session.as_json:
        print_json(dump_evaluation(evaluation))
    else:
        print_evaluation(evaluation)
    if min_ndcg is not None and evaluation.measures.ndcg < min_ndcg:
        print_message(f"nDCG@10 is {evaluation.measures.ndcg:.4f}, below --min-ndcg {min_ndcg}.")
        context.exit(cli_errors.FAILED)


async def read_feedback(engine: Engine) -> list[EvalQuestion]:
    """Return the questions that have passages marked as right."""
    from knowledge.engine.evaluate import EvalQuestion, Expectation
    from knowledge.errors import NotFound

    expected: dict[str, list[Expectation]] = {}
    for rated in await engine.insight.ratings():
        if rated.good:
            expected.setdefault(rated.query, []).append(Expectation(str(rated.document_uid), rated.passage))
    if not expected:
        raise NotFound(
            "No passage is marked as right",
            hint="On the web page, click the score of a passage and answer whether it is right; or give a file.",
        )
    return [EvalQuestion(text, tuple(wanted)) for text, wanted in expected.items()]


async def ask_questions(
    engine: Engine, questions: Sequence[EvalQuestion], query: Query, display: ProgressDisplay
) -> tuple[list[QuestionOutcome], list[str], list[str]]:
    """Run all questions; return their outcomes, the engine's notes, and the expected documents that do not exist."""
    from knowledge.engine.evaluate import judge_hits
    from knowledge.surfaces.cli.commands.search import search_when_ready

    outcomes: list[QuestionOutcome] = []
    notes: dict[str, None] = {}
    for number, question in enumerate(questions, 1):
        display.step(f"question {number}", "", 0, 1)
        answer = await search_when_ready(engine, replace(query, text=question.text))
        outcomes.append(judge_hits(question, answer.hits))
        notes.update(dict.fromkeys(answer.notes))
        display.end(f"question {number}")
    return outcomes, list(notes), await find_missing_documents(engine, outcomes)


async def find_missing_documents(engine: Engine, outcomes: Sequence[QuestionOutcome]) -> list[str]:
    """Return the expected documents that do not exist; lists the documents only if an expectation is unmet."""
    from knowledge.engine.evaluate import has_name
    from knowledge.model import DocumentFilter
    from knowledge.surfaces.cli.document_lookup import iterate_documents

    names = dict.fromkeys(one.document for outcome in outcomes for one in outcome.unmet if one.document is not None)
    if not names:
        return []
    async for document in iterate_documents(engine, DocumentFilter()):
        for name in [name for name in names if has_name(document, name)]:
            del names[name]
    return list(names)
