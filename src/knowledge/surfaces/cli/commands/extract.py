"""`knowledge extract`: what would be stored of a file, without storing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from knowledge.errors import FileNotFound
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.output.screen import clean, print_json, say
from knowledge.surfaces.cli.session import Session

if TYPE_CHECKING:
    from knowledge.extract.base import Facts, PageText
    from knowledge.surfaces.cli.output.json_shapes import ExtractedShape, PageShape


@click.command(
    epilog=examples(
        "knowledge extract report.pdf", "knowledge extract scan.png --ocr", "knowledge extract a.docx --json"
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--ocr", "force_ocr", is_flag=True, help="Read pages as pictures even where they hold text.")
@common
@pass_session
def extract(session: Session, file: Path, force_ocr: bool) -> None:
    """Print the text that FILE gives, as Markdown; nothing is added."""
    if not file.is_file():
        raise FileNotFound(f"There is no file {file}", hint="Check the path.", file_path=str(file))
    facts, pages = read_file(session, file, force_ocr)
    if session.as_json:
        print_json(dump_extracted(facts, pages))
        return
    for page in pages:
        if page.number is not None:
            click.echo(f"<!-- page {page.number} -->")
        click.echo(clean(page.text))
        if page.warning:
            say(f"{page.warning}")


def read_file(session: Session, file: Path, force_ocr: bool) -> tuple[Facts, list[PageText]]:
    from knowledge.app import parsers
    from knowledge.extract.base import Source
    from knowledge.extract.formats import check_suffix

    check_suffix(file.name)
    source = Source(file, file.name, force_ocr=force_ocr, ocr_languages=session.settings.ocr_languages)
    with parsers(session.settings) as reader, reader.parse(source) as parsing:
        return parsing.facts, list(parsing)


def dump_extracted(facts: Facts, pages: list[PageText]) -> ExtractedShape:
    listed: list[PageShape] = [
        {"number": page.number, "text": page.text, "method": page.method.value, "warning": page.warning}
        for page in pages
    ]
    return {
        "doc_type": facts.doc_type,
        "title": facts.title,
        "author": facts.author,
        "language": facts.language,
        "page_count": facts.page_count,
        "tags": list(facts.tags),
        "metadata": facts.metadata,
        "pages": listed,
    }
