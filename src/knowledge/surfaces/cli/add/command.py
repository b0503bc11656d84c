"""`knowledge add`: files, folders, patterns or standard input, once or for as long as a folder is watched."""

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
    from knowledge.surfaces.cli.add.uploader import Parcel

from knowledge.engine.api import Engine
from knowledge.errors import FileNotFound, KnowledgeError
from knowledge.model import Content
from knowledge.surfaces.cli.add import summary
from knowledge.surfaces.cli.add.document_options import About, about_options
from knowledge.surfaces.cli.add.gather_files import Sources, Walk, gather
from knowledge.surfaces.cli.add.outcomes import Fate, Outcome, Tally
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.output.screen import print_json
from knowledge.surfaces.cli.session import Session

STDIN = "-"


@click.command(
    epilog=examples(
        "knowledge add report.pdf notes.md",
        "knowledge add ~/papers --collection papers --tag physics",
        "knowledge add 'docs/**/*.md'",
        "curl -s https://example.org/page.html | knowledge add - --name page.html",
        "knowledge add ~/notes --watch",
    )
)
@click.argument("targets", nargs=-1, required=True, metavar="FILE|FOLDER|PATTERN|-...")
@about_options
@click.option("--name", metavar="FILENAME", help="What standard input is called; its suffix says what it is.")
@click.option("--ocr", "force_ocr", is_flag=True, help="Read pages as pictures even where they hold text.")
@click.option("--hidden", is_flag=True, help="Also files and folders whose names begin with a dot.")
@click.option("--no-ignore", is_flag=True, help="Also what .gitignore and .knowledgeignore leave out.")
@click.option("--no-wait", is_flag=True, help="Return when the files are accepted, before they are read.")
@click.option("--watch", is_flag=True, help="Stay, and keep folder and collection the same until Ctrl-C.")
@common
@pass_session
@click.pass_context
def add(
    context: click.Context,
    session: Session,
    targets: tuple[str, ...],
    about: About,
    name: str | None,
    force_ocr: bool,
    hidden: bool,
    no_ignore: bool,
    no_wait: bool,
    watch: bool,
) -> None:
    """Add files, folders, what matches a pattern, or standard input (-).

    A file that was added before is replaced when it has changed and left alone when it has not. In folders everything
    that can be read is taken, except what .gitignore and .knowledgeignore leave out; the rest is counted.
    """
    about = replace(about, force_ocr=force_ocr)
    walk = Walk(hidden, no_ignore, (session.settings.data,))
    if watch:
        from knowledge.surfaces.cli.add.watch import watch_folders

        refuse_with_watch(targets, about, no_wait)
        watch_folders(session, [Path(target).expanduser() for target in targets], walk, about)
        return
    check_standard_input(targets, name)
    sources = gather([target for target in targets if target != STDIN], walk)
    if about.title is not None and len(sources.files) + (STDIN in targets) > 1:
        raise click.UsageError("--title is for one document; these are several.")
    tally = Tally(unsupported=sources.unsupported, empty=sources.empty)
    context.exit(run(session, sources, about, name if STDIN in targets else None, tally, wait=not no_wait))


def check_standard_input(targets: Sequence[str], name: str | None) -> None:
    if STDIN in targets and not name:
        raise click.UsageError("Standard input needs a name that says what it is, such as --name notes.md.")
    if name and STDIN not in targets:
        raise click.UsageError("--name is for standard input: give - as the file.")


def refuse_with_watch(targets: Sequence[str], about: About, no_wait: bool) -> None:
    if not all(Path(target).expanduser().is_dir() for target in targets):
        raise click.UsageError("--watch is for folders that are there.")
    if about.title is not None or no_wait:
        raise click.UsageError("--watch goes with neither --title nor --no-wait.")


def run(session: Session, sources: Sources, about: About, stdin: str | None, tally: Tally, wait: bool) -> int:
    """Add them all, tell what became of them, and answer the exit code."""
    for path in sources.missing:
        tally.note(Outcome(path, Fate.FAILED, error=missing(path)))
    tally.planned = len(sources.files) + len(sources.missing) + (stdin is not None)
    began = time.monotonic()
    failure: KnowledgeError | None = None
    try:
        if sources.files or stdin is not None:
            session.run(lambda engine: send(engine, session, sources, about, stdin, tally, wait))
    except KeyboardInterrupt:
        tally.interrupted = True
    except KnowledgeError as error:
        failure = error
    if failure is None or tally.outcomes:
        tell(session, tally, time.monotonic() - began)
    if failure is not None:
        raise failure
    return summary.exit_code(tally)


def tell(session: Session, tally: Tally, seconds: float) -> None:
    if session.as_json:
        print_json(summary.dump_tally(tally))
    else:
        summary.print_summary(tally, seconds)


async def send(
    engine: Engine, session: Session, sources: Sources, about: About, stdin: str | None, tally: Tally, wait: bool
) -> None:
    from knowledge.surfaces.cli.add.uploader import IN_FLIGHT, Upload
    from knowledge.surfaces.cli.output.progress import progress_of

    in_flight = max(IN_FLIGHT, 2 * session.settings.worker_count)
    with progress_of(tally.planned - len(tally.outcomes)) as display:
        upload = Upload(
            engine, tally, in_flight, wait, on_step=display.step, on_end=lambda outcome: display.end(outcome.name)
        )
        await upload.send(parcels(sources, about, stdin))


def parcels(sources: Sources, about: About, stdin: str | None) -> Iterator[Parcel]:
    from knowledge.surfaces.cli.add.uploader import Parcel

    for name, path in sources.files.items():
        yield Parcel(name, partial(about.file, path))
    if stdin is not None:
        yield Parcel(stdin, lambda: about.content(stdin, Content.of(sys.stdin.buffer.read())))


def missing(path: str) -> KnowledgeError:
    return FileNotFound("There is no such file", hint="Check the path.", file_path=path)
