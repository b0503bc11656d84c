"""`knowledge reindex`: rebuilds the index, or embeds all passages with another model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from knowledge.engine.api import Engine
from knowledge.errors import ModelUnavailable
from knowledge.model import ModelStatus, RereadStatus
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.progress import show_progress
from knowledge.surfaces.cli.output.terminal import print_json, print_message, sanitize_text
from knowledge.surfaces.cli.session import CliSession

POLL_SECONDS = 0.2
FOLDER_PREFIX = "dir:"


@click.command(
    epilog=format_examples(
        "knowledge reindex",
        "knowledge reindex --model dir:~/models/minilm",
        "knowledge reindex --reread",
        "knowledge status",
    )
)
@click.option("--model", metavar="SPEC", help="Switch to this model: default, dir:PATH, hf:NAME or openai:URL#MODEL.")
@click.option("--reread", is_flag=True, help="Read scans, images and source code again that an older version read.")
@click.option("--no-wait", is_flag=True, help="With --model or --reread: return when the work has started.")
@common_options
@pass_session
def reindex(session: CliSession, model: str | None, reread: bool, no_wait: bool) -> None:
    """Rebuild the index from the database, or switch to another embedding model.

    Searches use the old index meanwhile. With --model all passages are embedded in the background, and the new vectors
    are used when all are done. The data folder stores the model.

    With --reread only originals are read again that an older version read: scans and images for the place of each word
    on its page, which does not change their texts, and source code to split it by its definitions.
    """
    if reread and model is not None:
        raise click.UsageError("--reread and --model cannot be used together.")
    if no_wait and model is None and not reread:
        raise click.UsageError("--no-wait needs --model or --reread.")
    if reread:
        print_reread(session, session.run(lambda engine: read_again(engine, wait=not no_wait)))
        return
    try:
        used = session.run(
            lambda engine: rebuild_index(engine, model and make_folder_absolute(model), wait=not no_wait)
        )
    except KeyboardInterrupt:
        print_message(
            "Embedding continues while a server or command runs; searches use the old vectors until it is done."
        )
        raise
    print_result(session, used if model else None)


def make_folder_absolute(spec: str) -> str:
    """Make a dir: spec absolute, because the engine may run in another working folder."""
    if not spec.startswith(FOLDER_PREFIX):
        return spec
    return f"{FOLDER_PREFIX}{Path(spec.removeprefix(FOLDER_PREFIX)).expanduser().absolute()}"


async def rebuild_index(engine: Engine, model: str | None, wait: bool) -> ModelStatus:
    await engine.reindex(model)
    status = (await engine.status()).model
    if model is not None and wait:
        return await wait_for_model_swap(engine, status)
    return status


async def wait_for_model_swap(engine: Engine, status: ModelStatus) -> ModelStatus:
    """Wait until the new model is in use, and show the progress of embedding."""
    while status.next is not None and status.next.left is None:
        await asyncio.sleep(POLL_SECONDS)
        status = (await engine.status()).model
    total = (status.next.left if status.next else 0) or 0
    with show_progress(1) as display:
        while status.next is not None:
            if status.next.error:
                raise ModelUnavailable(status.next.error)
            display.step(status.next.name, "embedding", total - (status.next.left or 0), total)
            await asyncio.sleep(POLL_SECONDS)
            status = (await engine.status()).model
    return status


async def read_again(engine: Engine, wait: bool) -> RereadStatus:
    """Queue the jobs, and show their progress until all have ended."""
    started = await engine.reread()
    status, total = started, started.waiting
    with show_progress(1) as display:
        while wait and status.waiting:
            display.step("documents", "reading again", total - status.waiting, total)
            await asyncio.sleep(POLL_SECONDS)
            status = await engine.reread(start=False)
    return RereadStatus(started.queued, status.waiting)


def print_reread(session: CliSession, status: RereadStatus) -> None:
    if session.as_json:
        print_json({"queued": status.queued, "waiting": status.waiting})
    elif status.waiting:
        click.echo(f"{status.waiting} documents are being read again; 'knowledge jobs' shows the progress.")
    elif status.queued:
        click.echo(f"Read {status.queued} documents again.")
    else:
        click.echo("No document has to be read again.")


def print_result(session: CliSession, used: ModelStatus | None) -> None:
    coming = used.next if used else None
    if session.as_json:
        print_json({"reindexed": coming is None, "model": used.name if used else None})
    elif coming is not None:
        click.echo(sanitize_text(f"Embedding with {coming.name} has started; 'knowledge status' shows the progress."))
    elif used is not None:
        click.echo(sanitize_text(f"The model {used.name} is in use; all passages are embedded."))
    else:
        click.echo("Rebuilt the index.")
