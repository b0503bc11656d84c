"""`knowledge doctor`: what is wrong with this installation, in sentences, each with what mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.output.screen import count, print_json, say, show, styled
from knowledge.surfaces.cli.session import Session

if TYPE_CHECKING:
    from knowledge.surfaces.cli.doctor.checks import Verdict


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
    warnings = sum(verdict.warning for verdict in found)
    if session.as_json:
        print_json({"healthy": not wrong, "checks": [asdict(verdict) for verdict in found]})
    else:
        for verdict in found:
            print_verdict(verdict)
        say(conclude(len(wrong), warnings))
    context.exit(cli_errors.FAILED if wrong else cli_errors.OK)


def examine(session: Session) -> Iterable[Verdict]:
    from knowledge.surfaces.cli.doctor import checks
    from knowledge.surfaces.cli.doctor.engine_checks import engine

    settings = session.settings
    yield from checks.versions()
    yield from checks.clock(settings)
    yield from checks.keys(settings)
    if settings.engine_url:  # everything else is the business of the engine that is elsewhere
        yield from engine(session)
        return
    for check in (checks.disk, checks.model, checks.reading, checks.port):
        yield from check(settings)
    house = [*checks.folder(settings), *checks.database(settings)]
    yield from house
    if all(verdict.ok for verdict in house):  # else opening it would only say the same again
        yield from engine(session)


def conclude(wrong: int, warnings: int) -> str:
    if wrong:
        return f"{count(wrong, 'thing needs', 'things need')} mending."
    return f"Nothing is broken, with {count(warnings, 'warning')}." if warnings else "All is well."


def print_verdict(verdict: Verdict) -> None:
    if not verdict.ok:
        mark = styled("wrong  ", "bold red")
    else:
        mark = styled("warning ", "yellow") if verdict.warning else styled("ok     ", "green")
    show(mark.append_text(styled(f"{verdict.about}: {verdict.says}")))
    if verdict.mend and (verdict.warning or not verdict.ok):
        show(styled(f"       → {verdict.mend}", "yellow"))
