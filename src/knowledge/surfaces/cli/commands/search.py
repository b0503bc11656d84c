"""`knowledge search`: the passages that answer a question."""

from __future__ import annotations

from dataclasses import replace

import click

from knowledge.engine.api import Engine
from knowledge.errors import NotFound
from knowledge.model import Answer, Mode, Query
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.filter_options import Narrowing, filter_options
from knowledge.surfaces.cli.output.screen import print_json
from knowledge.surfaces.cli.session import Session


@click.command(
    epilog=examples(
        "knowledge search when is the kettle descaled",
        "knowledge search '\"exact phrase\" in the manual' --collection manuals --limit 3",
        "knowledge search invoice --type pdf --from 2026-01-01 --mode text",
        "knowledge search holiday rules --open 1",
        "knowledge search parseHTTPHeader --json | jq -r '.results[].source_path'",
    )
)
@click.argument("question", nargs=-1, required=True, metavar="QUESTION...")
@filter_options
@click.option("--limit", "-n", type=click.IntRange(1, 100), default=5, show_default=True, help="How many passages.")
@click.option("--offset", type=click.IntRange(0, 1000), default=0, help="How many to leave out first.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.HYBRID.value,
    show_default=True,
    help="By words and meaning, words alone (text), meaning alone (vector), or fused and reranked.",
)
@click.option("--threshold", type=click.FloatRange(0, 1), default=0.0, help="Leave out what is less relevant.")
@click.option("--budget-ms", type=click.IntRange(1, 600_000), help="How long reranking may take.")
@click.option("--full", is_flag=True, help="Show whole passages instead of excerpts.")
@click.option("--explain", is_flag=True, help="Show what each step contributed, as a table.")
@click.option("--open", "opened", type=click.IntRange(1), metavar="N", help="Open the document of passage N.")
@common
@pass_session
def search(
    session: Session,
    question: tuple[str, ...],
    narrowing: Narrowing,
    limit: int,
    offset: int,
    mode: str,
    threshold: float,
    budget_ms: int | None,
    full: bool,
    explain: bool,
    opened: int | None,
) -> None:
    """Find the passages that answer QUESTION, best first.

    Passages that hold words in "quotation marks" side by side come first.
    The number after the title is the relevance, from 0 to 1.
    """
    query = Query(
        text=" ".join(question),
        limit=limit,
        offset=offset,
        mode=Mode(mode),
        threshold=threshold,
        budget_ms=budget_ms,
        explain=explain,
    )

    async def work(engine: Engine) -> Answer:
        answer = await ask(engine, replace(query, filter=await narrowing.read(engine)))
        if opened is not None:
            await open_hit(engine, answer, opened - offset)
        return answer

    tell(session, session.run(work), query, full)


def tell(session: Session, answer: Answer, query: Query, full: bool) -> None:
    if session.as_json:
        from knowledge.wire import dump_answer

        print_json(dump_answer(answer, query.text))
        return
    from knowledge.surfaces.cli.output.hits import print_answer, print_explanation

    print_answer(answer, query.text, full, query.offset + 1)
    if query.explain:
        print_explanation(answer)


async def ask(engine: Engine, query: Query) -> Answer:
    from knowledge.surfaces.cli.readiness import model_ready

    if query.mode is not Mode.TEXT:
        await model_ready(engine)
    return await engine.search(query)


async def open_hit(engine: Engine, answer: Answer, number: int) -> None:
    from knowledge.surfaces.cli.open_in_desktop import open_document

    if not 1 <= number <= len(answer.hits):
        raise NotFound(f"There is no passage {number}: {len(answer.hits)} were found", hint="Choose one of those.")
    await open_document(engine, answer.hits[number - 1].document)
