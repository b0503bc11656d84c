"""What went wrong, in a sentence or two on stderr, and as a number that scripts can read."""

from __future__ import annotations

import json
import logging
import sys
import traceback

import click

from knowledge.errors import (
    DeadlineExceeded,
    EngineUnreachable,
    Forbidden,
    Internal,
    Invalid,
    KnowledgeError,
    NotFound,
    Starting,
    StorageFailed,
    Unauthenticated,
)
from knowledge.surfaces.cli.output.screen import clean
from knowledge.surfaces.cli.session import Session

OK, FAILED, USAGE, MISSING, UNREACHABLE, REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
EXIT_CODES = {
    OK: "Done.",
    FAILED: "Something failed, or a check found a difference.",
    USAGE: "The command line or a setting is wrong.",
    MISSING: "The document, collection, job or file is not there.",
    UNREACHABLE: "The engine cannot be reached, is starting, or does not answer in time.",
    REFUSED: "The key is missing or wrong, or does not allow this.",
    INTERRUPTED: "Stopped with Ctrl-C.",
}
BY_ERROR: dict[type[BaseException], int] = {
    KnowledgeError: FAILED,
    Invalid: USAGE,
    NotFound: MISSING,
    EngineUnreachable: UNREACHABLE,
    Starting: UNREACHABLE,
    DeadlineExceeded: UNREACHABLE,
    Unauthenticated: REFUSED,
    Forbidden: REFUSED,
}


def exit_code(error: KnowledgeError) -> int:
    """The nearest class in the table decides."""
    return next(BY_ERROR[kind] for kind in type(error).__mro__ if kind in BY_ERROR)


def sentence(message: str, hint: str = "") -> str:
    """The message as a sentence, and after it what to do."""
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in (message, hint) if part)


def report(error: BaseException, session: Session) -> int:
    """Say it, and answer the exit code."""
    known = as_known(error)
    if session.debug:
        traceback.print_exception(error, file=sys.stderr)
    if session.as_json:
        from knowledge.wire.errors import dump_error

        click.echo(json.dumps(dump_error(known)), err=True)
    else:
        click.echo(clean(sentence(str(known), known.hint)), err=True)
    return exit_code(known)


def as_known(error: BaseException) -> KnowledgeError:
    """The same fault as one of ours; what nobody foresaw is a fault of the program."""
    if isinstance(error, KnowledgeError):
        return error
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return StorageFailed(f"{error.strerror}{where}")
    return Internal(
        f"This should not have happened: {type(error).__name__}: {error}",
        hint="Run the command again with --debug to see where, and please report it.",
    )


def quiet_log() -> None:
    """What the engine logs is for servers; a command says what matters itself."""
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def show_log() -> None:
    """Everything, to stderr."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, force=True)
    logging.getLogger("knowledge").setLevel(logging.DEBUG)
