"""`knowledge extract`: prints the text of a file without adding it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knowledge.errors import FileNotFound
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.terminal import print_json, print_message, sanitize_text
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from knowledge.extract.base import Facts, PageText
    from knowledge.surfaces.cli.output.json_shapes import ExtractedShape


@click.command(
    epilog=format_examples(
        "knowledge extract report.pdf", "knowledge extract scan.png --ocr", "knowledge extract a.docx --json"
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--ocr", "force_ocr", is_flag=True, help="Run OCR on all pages, also on those with text.")
@common_options
@pass_session
def extract(session: CliSession, file: Path, force_ocr: bool) -> None:
    """Print the text of FILE as Markdown, without adding it."""
    if not file.is_file():
        raise FileNotFound(f"The file {file} does not exist", hint="Check the path.", file_path=str(file))
    facts, pages = parse_file(session, file, force_ocr)
    if session.as_json:
        print_json(dump_extracted(facts, pages))
        return
    for page in pages:
        if page.number is not None:
            click.echo(f"<!-- page {page.number} -->")
        click.echo(sanitize_text(page.text))
        if page.warning:
            print_message(page.warning)


def parse_file(session: CliSession, file: Path, force_ocr: bool) -> tuple[Facts, list[PageText]]:
    from knowledge.app import build_parsers
    from knowledge.extract.base import Source
    from knowledge.extract.formats import check_suffix

    check_suffix(file.name)
    source = Source(file, file.name, force_ocr=force_ocr, ocr_languages=session.settings.ocr_languages)
    with build_parsers(session.settings) as reader, reader.parse(source) as parsing:
        return parsing.facts, list(parsing)


def dump_extracted(facts: Facts, pages: list[PageText]) -> ExtractedShape:
    from knowledge.surfaces.cli.output.json_shapes import ExtractedShape, PageShape

    listed = tuple(PageShape(page.number, page.text, page.method, page.warning) for page in pages)
    return ExtractedShape(**{each.name: getattr(facts, each.name) for each in fields(facts)}, pages=listed)
