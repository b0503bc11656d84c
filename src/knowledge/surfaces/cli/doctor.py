"""`knowledge doctor`: what is wrong with this installation, in sentences, each with what mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from knowledge.surfaces.cli import faults
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.screen import count, print_json, say, show, styled
from knowledge.surfaces.cli.session import Session

if TYPE_CHECKING:
    from knowledge.surfaces.cli.checks import Verdict


@click.command(epilog=examples("knowledge doctor", "knowledge doctor --data ~/other --json"))
@common
@pass_session
@click.pass_context
def doctor(context: click.Context, session: Session) -> None:
    """Say what is wrong with this installation, and what mends it.

    The exit code is 1 if something is.
    """
    found = list(examine(session))
    wrong = [verdict for verdict in found if not verdict.ok]
    if session.as_json:
        print_json({"healthy": not wrong, "checks": [asdict(verdict) for verdict in found]})
    else:
        for verdict in found:
            print_verdict(verdict)
        say(f"{count(len(wrong), 'thing needs', 'things need')} mending." if wrong else "All is well.")
    context.exit(faults.FAILED if wrong else faults.OK)


def examine(session: Session) -> Iterable[Verdict]:
    from knowledge.surfaces.cli import checks
    from knowledge.surfaces.cli.checks_engine import engine

    settings = session.settings
    yield from checks.versions()
    yield from checks.clock(settings)
    if settings.engine_url:  # everything else is the business of the engine that is elsewhere
        yield from engine(session)
        return
    for check in (checks.disk, checks.model, checks.reading, checks.port):
        yield from check(settings)
    house = [*checks.folder(settings), *checks.database(settings)]
    yield from house
    if all(verdict.ok for verdict in house):  # else opening it would only say the same again
        yield from engine(session)


def print_verdict(verdict: Verdict) -> None:
    mark = styled("ok     ", "green") if verdict.ok else styled("wrong  ", "bold red")
    show(mark.append_text(styled(f"{verdict.about}: {verdict.says}")))
    if not verdict.ok and verdict.mend:
        show(styled(f"       → {verdict.mend}", "yellow"))
