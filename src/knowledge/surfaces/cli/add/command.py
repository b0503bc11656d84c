"""`knowledge add`: adds files, folders, patterns or standard input, once or with --watch."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from knowledge.surfaces.cli.add.uploader import PendingUpload

from knowledge.engine.api import Engine
from knowledge.errors import FileNotFound, KnowledgeError
from knowledge.model import Content
from knowledge.surfaces.cli.add import outcomes
from knowledge.surfaces.cli.add.document_options import DocumentOptions, with_document_options
from knowledge.surfaces.cli.add.file_selection import FolderWalk, GatheredFiles, gather_files
from knowledge.surfaces.cli.add.outcomes import AddOutcome, AddResults, AddStatus
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.terminal import print_json
from knowledge.surfaces.cli.session import CliSession

STDIN_TARGET = "-"


@click.command(
    epilog=format_examples(
        "knowledge add report.pdf notes.md",
        "knowledge add ~/papers --collection papers --tag physics",
        "knowledge add 'docs/**/*.md'",
        "curl -s https://example.org/page.html | knowledge add - --name page.html",
        "knowledge add ~/notes --watch",
    )
)
@click.argument("targets", nargs=-1, required=True, metavar="FILE|FOLDER|PATTERN|-...")
@with_document_options
@click.option("--name", metavar="FILENAME", help="Filename for standard input; its suffix sets the format.")
@click.option("--ocr", "force_ocr", is_flag=True, help="Run OCR on all pages, also on those with text.")
@click.option("--hidden", is_flag=True, help="Include files and folders whose names begin with a dot.")
@click.option("--no-ignore", is_flag=True, help="Include files listed in .gitignore and .knowledgeignore.")
@click.option("--no-wait", is_flag=True, help="Return when the files are queued, before they are processed.")
@click.option("--watch", is_flag=True, help="Keep the collection in sync with the folders until Ctrl-C.")
@common_options
@pass_session
@click.pass_context
def add(
    context: click.Context,
    session: CliSession,
    targets: tuple[str, ...],
    about: DocumentOptions,
    name: str | None,
    force_ocr: bool,
    hidden: bool,
    no_ignore: bool,
    no_wait: bool,
    watch: bool,
) -> None:
    """Add files, folders, glob patterns or standard input (-).

    A file that was added before is replaced if it has changed and skipped if not. Folders are searched for all
    supported formats, without the files in .gitignore and .knowledgeignore; other files are counted as skipped.
    """
    about = replace(about, force_ocr=force_ocr)
    walk = FolderWalk(hidden, no_ignore, (session.settings.data,))
    if watch:
        from knowledge.surfaces.cli.add.watch import watch_folders

        check_watch_options(targets, about, no_wait)
        watch_folders(session, [Path(target).expanduser() for target in targets], walk, about)
        return
    check_standard_input(targets, name)
    sources = gather_files([target for target in targets if target != STDIN_TARGET], walk)
    if about.title is not None and len(sources.files) + (STDIN_TARGET in targets) > 1:
        raise click.UsageError("--title needs exactly one document.")
    results = AddResults(unsupported=sources.unsupported, empty=sources.empty)
    context.exit(
        add_sources(session, sources, about, name if STDIN_TARGET in targets else None, results, wait=not no_wait)
    )


def check_standard_input(targets: Sequence[str], name: str | None) -> None:
    if STDIN_TARGET in targets and not name:
        raise click.UsageError("Standard input needs a filename for its format, such as --name notes.md.")
    if name and STDIN_TARGET not in targets:
        raise click.UsageError("--name is only for standard input; pass - as the file.")


def check_watch_options(targets: Sequence[str], about: DocumentOptions, no_wait: bool) -> None:
    if not all(Path(target).expanduser().is_dir() for target in targets):
        raise click.UsageError("--watch needs existing folders.")
    if about.title is not None or no_wait:
        raise click.UsageError("--watch cannot be combined with --title or --no-wait.")


def add_sources(
    session: CliSession,
    sources: GatheredFiles,
    about: DocumentOptions,
    stdin_name: str | None,
    results: AddResults,
    wait: bool,
) -> int:
    """Add all files, print the results, and return the exit code."""
    for path in sources.missing:
        results.record(AddOutcome(path, AddStatus.FAILED, error=missing_file_error(path)))
    results.planned = len(sources.files) + len(sources.missing) + (stdin_name is not None)
    began = time.monotonic()
    failure: KnowledgeError | None = None
    try:
        if sources.files or stdin_name is not None:
            session.run(lambda engine: upload_sources(engine, session, sources, about, stdin_name, results, wait))
    except KeyboardInterrupt:
        results.interrupted = True
    except KnowledgeError as error:
        failure = error
    if failure is None or results.outcomes:
        print_results(session, results, time.monotonic() - began)
    if failure is not None:
        raise failure
    return outcomes.exit_code_for_results(results)


def print_results(session: CliSession, results: AddResults, seconds: float) -> None:
    if session.as_json:
        print_json(outcomes.dump_results(results))
    else:
        outcomes.print_summary(results, seconds)


async def upload_sources(
    engine: Engine,
    session: CliSession,
    sources: GatheredFiles,
    about: DocumentOptions,
    stdin_name: str | None,
    results: AddResults,
    wait: bool,
) -> None:
    from knowledge.surfaces.cli.add.uploader import MAX_IN_FLIGHT, Uploader
    from knowledge.surfaces.cli.output.progress import show_progress

    in_flight = max(MAX_IN_FLIGHT, 2 * session.settings.worker_count)
    with show_progress(results.planned - len(results.outcomes)) as display:
        upload = Uploader(
            engine, results, in_flight, wait, on_step=display.step, on_end=lambda outcome: display.end(outcome.name)
        )
        await upload.send_all(list_uploads(sources, about, stdin_name))


def list_uploads(sources: GatheredFiles, about: DocumentOptions, stdin_name: str | None) -> Iterator[PendingUpload]:
    from knowledge.surfaces.cli.add.uploader import PendingUpload

    for name, path in sources.files.items():
        yield PendingUpload(name, partial(about.new_file_from_path, path))
    if stdin_name is not None:
        yield PendingUpload(stdin_name, lambda: about.new_file(stdin_name, Content.from_bytes(sys.stdin.buffer.read())))


def missing_file_error(path: str) -> KnowledgeError:
    return FileNotFound("The file does not exist", hint="Check the path.", file_path=path)
