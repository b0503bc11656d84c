"""`knowledge search`: searches the documents."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from knowledge.engine.api import Engine
from knowledge.errors import MissingDependency, NotFound
from knowledge.model import Document, Query, SearchAnswer, SearchFilter, SearchMode
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.document_lookup import find_document, parse_collection_ref
from knowledge.surfaces.cli.output.terminal import print_json, print_message
from knowledge.surfaces.cli.session import CliSession


async def open_document(engine: Engine, document: Document) -> None:
    """Open a document in the desktop's program for it."""
    place = await find_location(engine, document)
    print_message(f"Opening {place}")
    if click.launch(place) != 0:
        raise MissingDependency(f"No program to open {place}", hint="Open the path in a program of your choice.")


async def find_location(engine: Engine, document: Document) -> str:
    """Return the source file if it still exists, else the URL, else a temporary copy of the original."""
    if document.source_path and Path(document.source_path).is_file():
        return document.source_path
    if document.url and document.url.startswith(("http://", "https://")):
        return document.url
    original = await engine.original(document.id)
    name = (
        Path(original.filename).name if Path(original.filename).suffix else f"{document.id}.{choose_suffix(document)}"
    )
    copy = Path(tempfile.mkdtemp(prefix="knowledge-")) / name
    with copy.open("wb") as file:
        async for piece in original.pieces:
            file.write(piece)
    return str(copy)


def choose_suffix(document: Document) -> str:
    return "txt" if document.doc_type == "note" else document.doc_type


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """The filter options of a command line, not parsed yet."""

    collections: tuple[str, ...]
    tags: tuple[str, ...]
    types: tuple[str, ...]
    documents: tuple[str, ...]
    date_from: str | None
    date_to: str | None
    trusted_only: bool

    async def to_filter(self, engine: Engine) -> SearchFilter:
        from knowledge.wire.values import load_date

        return SearchFilter(
            collections=tuple(parse_collection_ref(name) for name in self.collections),
            tags=self.tags,
            doc_types=tuple(kind.lower().removeprefix(".") for kind in self.types),
            documents=tuple([(await find_document(engine, document)).id for document in self.documents]),
            trusted_only=self.trusted_only,
            date_from=None if self.date_from is None else load_date(self.date_from, "--from"),
            date_to=None if self.date_to is None else load_date(self.date_to, "--to", end=True),
        )


FILTER_OPTIONS = (
    click.option("--collection", "-c", "collections", multiple=True, metavar="NAME", help="Search this collection."),
    click.option("--tag", "-t", "tags", multiple=True, metavar="TAG", help="Documents with this tag; all if repeated."),
    click.option("--type", "types", multiple=True, metavar="TYPE", help="Documents of this type: pdf, md, note, …"),
    click.option("--document", "-d", "documents", multiple=True, metavar="DOC", help="Search this document."),
    click.option("--from", "date_from", metavar="DATE", help="Documents added on this day or later (UTC)."),
    click.option("--to", "date_to", metavar="DATE", help="Documents added on this day or earlier (UTC)."),
    click.option("--trusted-only", is_flag=True, help="Documents of trusted collections only."),
)


def with_filter_options(function: F) -> Callable[..., Any]:
    """Add the filter options to a command and pass them as its argument `filters`."""

    @functools.wraps(function)
    def call_with_filters(*arguments: Any, **options: Any) -> Any:
        filters = FilterOptions(**{name: options.pop(name) for name in FilterOptions.__dataclass_fields__})
        return function(*arguments, filters=filters, **options)

    decorated: Callable[..., Any] = call_with_filters
    for option in reversed(FILTER_OPTIONS):
        decorated = option(decorated)
    return decorated


@click.command(
    epilog=format_examples(
        "knowledge search when is the kettle descaled",
        "knowledge search '\"exact phrase\" in the manual' --collection manuals --limit 3",
        "knowledge search invoice --type pdf --from 2026-01-01 --mode text",
        "knowledge search holiday rules --open 1",
        "knowledge search parseHTTPHeader --json | jq -r '.results[].source_path'",
    )
)
@click.argument("question", nargs=-1, required=True, metavar="QUESTION...")
@with_filter_options
@click.option(
    "--limit", "-n", type=click.IntRange(1, 100), default=5, show_default=True, help="Maximum number of results."
)
@click.option("--offset", type=click.IntRange(0, 1000), default=0, help="Number of results to skip.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in SearchMode]),
    default=SearchMode.HYBRID.value,
    show_default=True,
    help="Search by words and meaning, words only (text), meaning only (vector), or reranked.",
)
@click.option("--threshold", type=click.FloatRange(0, 1), default=0.0, help="Skip results with a lower score.")
@click.option("--budget-ms", type=click.IntRange(1, 600_000), help="Time limit for reranking, in milliseconds.")
@click.option("--full", is_flag=True, help="Print whole passages instead of excerpts.")
@click.option("--explain", is_flag=True, help="Print the scores of each search step.")
@click.option("--open", "opened", type=click.IntRange(1), metavar="N", help="Open the document of result N.")
@common_options
@pass_session
def search(
    session: CliSession,
    question: tuple[str, ...],
    filters: FilterOptions,
    limit: int,
    offset: int,
    mode: str,
    threshold: float,
    budget_ms: int | None,
    full: bool,
    explain: bool,
    opened: int | None,
) -> None:
    """Search for passages that answer QUESTION, best first.

    Passages with an exact "quoted phrase" come first.
    The number after the title is the relevance score, from 0 to 1.
    """
    query = Query(
        text=" ".join(question),
        limit=limit,
        offset=offset,
        mode=SearchMode(mode),
        threshold=threshold,
        budget_ms=budget_ms,
        explain=explain,
    )

    async def work(engine: Engine) -> SearchAnswer:
        answer = await search_when_ready(engine, replace(query, filter=await filters.to_filter(engine)))
        if opened is not None:
            await open_hit(engine, answer, opened - offset)
        return answer

    print_results(session, session.run(work), query, full)


def print_results(session: CliSession, answer: SearchAnswer, query: Query, full: bool) -> None:
    if session.as_json:
        from knowledge.wire import AnswerShape

        print_json(AnswerShape.from_answer(answer, query.text))
        return
    from knowledge.surfaces.cli.output.hits import print_answer, print_explanation

    print_answer(answer, query.text, full, query.offset + 1)
    if query.explain:
        print_explanation(answer)


async def search_when_ready(engine: Engine, query: Query) -> SearchAnswer:
    from knowledge.surfaces.waiting import wait_for_model

    if query.mode is not SearchMode.TEXT:
        await wait_for_model(engine)
    return await engine.search(query)


async def open_hit(engine: Engine, answer: SearchAnswer, number: int) -> None:
    if not 1 <= number <= len(answer.hits):
        raise NotFound(f"There is no result {number}: the search has {len(answer.hits)}", hint="Choose one of those.")
    await open_document(engine, answer.hits[number - 1].document)
