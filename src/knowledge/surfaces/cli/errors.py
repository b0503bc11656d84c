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
from knowledge.surfaces.cli.output.terminal import sanitize_text
from knowledge.surfaces.cli.session import CliSession

OK, FAILED, USAGE, NOT_FOUND, UNREACHABLE, REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
EXIT_CODES = {
    OK: "Done.",
    FAILED: "Something failed, or a check found a difference.",
    USAGE: "The command line or a setting is wrong.",
    NOT_FOUND: "The document, collection, job or file is not there.",
    UNREACHABLE: "The engine cannot be reached, is starting, or does not answer in time.",
    REFUSED: "The key is missing or wrong, or does not allow this.",
    INTERRUPTED: "Stopped with Ctrl-C.",
}
EXIT_CODE_BY_ERROR: dict[type[BaseException], int] = {
    KnowledgeError: FAILED,
    Invalid: USAGE,
    NotFound: NOT_FOUND,
    EngineUnreachable: UNREACHABLE,
    Starting: UNREACHABLE,
    DeadlineExceeded: UNREACHABLE,
    Unauthenticated: REFUSED,
    Forbidden: REFUSED,
}


def exit_code_for(error: KnowledgeError) -> int:
    """The nearest class in the table decides."""
    return next(EXIT_CODE_BY_ERROR[kind] for kind in type(error).__mro__ if kind in EXIT_CODE_BY_ERROR)


def join_sentences(message: str, hint: str = "") -> str:
    """The message as a sentence, and after it what to do."""
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in (message, hint) if part)


def report_error(error: BaseException, session: CliSession) -> int:
    """Say it, and answer the exit code."""
    known = to_knowledge_error(error)
    if session.debug:
        traceback.print_exception(error, file=sys.stderr)
    if session.as_json:
        from knowledge.wire.errors import dump_error

        click.echo(json.dumps(dump_error(known)), err=True)
    else:
        click.echo(sanitize_text(join_sentences(str(known), known.hint)), err=True)
    return exit_code_for(known)


def to_knowledge_error(error: BaseException) -> KnowledgeError:
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


def silence_logging() -> None:
    """What the engine logs is for servers; a command says what matters itself."""
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def enable_debug_logging() -> None:
    """Everything, to stderr."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, force=True)
    logging.getLogger("knowledge").setLevel(logging.DEBUG)
