"""`knowledge reindex`: the index built again, or all vectors made again by another model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from knowledge.engine.api import Engine
from knowledge.errors import ModelUnavailable
from knowledge.model import ModelStatus
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.progress import show_progress
from knowledge.surfaces.cli.output.terminal import print_json, print_message, sanitize_text
from knowledge.surfaces.cli.session import CliSession

POLL_SECONDS = 0.2
FOLDER_PREFIX = "dir:"


@click.command(
    epilog=format_examples("knowledge reindex", "knowledge reindex --model dir:~/models/minilm", "knowledge status")
)
@click.option("--model", metavar="SPEC", help="Move to this model: default, dir:PATH, hf:NAME or openai:URL#MODEL.")
@click.option("--no-wait", is_flag=True, help="With --model: return as soon as its vectors are being made.")
@common_options
@pass_session
def reindex(session: CliSession, model: str | None, no_wait: bool) -> None:
    """Build the index again from what is stored, or move to another embedding model.

    The old index answers meanwhile. With --model the new vectors are made in the background, while the old ones
    serve, and swapped in when all are there. The data folder keeps the choice.
    """
    if no_wait and model is None:
        raise click.UsageError("--no-wait goes with --model.")
    try:
        used = session.run(
            lambda engine: rebuild_index(engine, model and make_folder_absolute(model), wait=not no_wait)
        )
    except KeyboardInterrupt:
        print_message(
            "The old vectors serve; the new ones that were made are kept, and the rest is made while an engine runs."
        )
        raise
    print_result(session, used if model else None)


def make_folder_absolute(spec: str) -> str:
    """A folder as the engine finds it too, which may run elsewhere."""
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
    """When the other model answers; how many passages are left is shown meanwhile."""
    while status.next is not None and status.next.left is None:
        await asyncio.sleep(POLL_SECONDS)
        status = (await engine.status()).model
    total = (status.next.left if status.next else 0) or 0
    with show_progress(1) as display:
        while status.next is not None:
            if status.next.error:
                raise ModelUnavailable(status.next.error)
            display.step(status.next.name, "making vectors", total - (status.next.left or 0), total)
            await asyncio.sleep(POLL_SECONDS)
            status = (await engine.status()).model
    return status


def print_result(session: CliSession, used: ModelStatus | None) -> None:
    coming = used.next if used else None
    if session.as_json:
        print_json({"reindexed": coming is None, "model": used.name if used else None})
    elif coming is not None:
        click.echo(
            sanitize_text(f"The vectors of {coming.name} are being made; 'knowledge status' tells how many are left.")
        )
    elif used is not None:
        click.echo(sanitize_text(f"The model {used.name} answers now; all vectors are its own."))
    else:
        click.echo("The index was built again.")
