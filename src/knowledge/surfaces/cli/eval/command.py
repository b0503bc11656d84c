"""`knowledge eval`: how well search answers questions whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.model import Filter, Mode, Query
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.output.progress import Display, progress_of
from knowledge.surfaces.cli.output.screen import print_json, say
from knowledge.surfaces.cli.session import Session

if TYPE_CHECKING:
    from knowledge.engine.evaluate.judge import Outcome, Question

DEPTH = 100
"""How many passages are looked at: enough for ten different documents, and to say how far down a right one is."""


@click.command(
    "eval",
    epilog=examples(
        "knowledge eval questions.jsonl",
        "knowledge eval questions.csv --collection manuals --mode text",
        "knowledge eval questions.yaml --min-ndcg 0.8 --json | jq '.results[] | select(.rank != 1)'",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.HYBRID.value,
    show_default=True,
    help="By words and meaning, words alone (text), meaning alone (vector), or fused and reranked.",
)
@click.option("--collection", "-c", "collections", multiple=True, metavar="NAME", help="Only in this collection.")
@click.option("--min-ndcg", type=click.FloatRange(0, 1), help="End with exit code 1 if nDCG@10 is lower.")
@common
@pass_session
@click.pass_context
def evaluate(
    context: click.Context,
    session: Session,
    file: Path,
    mode: str,
    collections: tuple[str, ...],
    min_ndcg: float | None,
) -> None:
    """Measure how well search answers the questions in FILE.

    FILE is JSON Lines, JSON, YAML, CSV or TSV. Each entry has a question and what should be found: a document (its
    title, path or id), a passage (its text), or both. The run is compared with the last one of the same file.
    """
    from knowledge.engine.evaluate.metrics import average
    from knowledge.surfaces.cli.eval.questions import read_questions
    from knowledge.surfaces.cli.eval.report import Evaluation, dump_evaluation, print_evaluation
    from knowledge.surfaces.cli.eval.runs import Run, Setup, compare, keep, last_run
    from knowledge.surfaces.cli.find_document import collection_ref

    questions = read_questions(file)
    wanted = Filter(collections=tuple(collection_ref(name) for name in collections))
    query = Query(text="", limit=DEPTH, mode=Mode(mode), filter=wanted)
    with progress_of(len(questions)) as display:
        outcomes, notes, missing = session.run(lambda engine: ask_all(engine, questions, query, display))
    setup, data = Setup.of(file, mode, collections), session.settings.data
    run = Run.of(setup, outcomes)
    compared = compare(run, last_run(data, setup))
    keep(data, run)
    evaluation = Evaluation(setup, average([one.measures for one in outcomes]), outcomes, compared, notes, missing)
    if session.as_json:
        print_json(dump_evaluation(evaluation))
    else:
        print_evaluation(evaluation)
    if min_ndcg is not None and evaluation.measures.ndcg < min_ndcg:
        say(f"nDCG@10 is {evaluation.measures.ndcg:.4f}, below {min_ndcg}.")
        context.exit(cli_errors.FAILED)


async def ask_all(
    engine: Engine, questions: Sequence[Question], query: Query, display: Display
) -> tuple[list[Outcome], list[str], list[str]]:
    """What became of each question, what the engine remarked, and the expected documents that are not there at all."""
    from knowledge.engine.evaluate.judge import judge
    from knowledge.surfaces.cli.commands.search import ask

    outcomes: list[Outcome] = []
    notes: dict[str, None] = {}
    for number, question in enumerate(questions, 1):
        display.step(f"question {number}", "", 0, 1)
        answer = await ask(engine, replace(query, text=question.text))
        outcomes.append(judge(question, answer.hits))
        notes.update(dict.fromkeys(answer.notes))
        display.end(f"question {number}")
    return outcomes, list(notes), await not_there(engine, outcomes)


async def not_there(engine: Engine, outcomes: Sequence[Outcome]) -> list[str]:
    """Expected documents that no search could have found; the documents are only listed when something is unmet."""
    from knowledge.engine.evaluate.judge import is_called
    from knowledge.model import DocumentFilter
    from knowledge.surfaces.cli.find_document import every_document

    names = dict.fromkeys(one.document for outcome in outcomes for one in outcome.unmet if one.document is not None)
    if not names:
        return []
    async for document in every_document(engine, DocumentFilter()):
        for name in [name for name in names if is_called(document, name)]:
            del names[name]
    return list(names)
