"""Prints errors to stderr and maps them to exit codes."""

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
    OK: "Success.",
    FAILED: "The command failed, or a check found a problem.",
    USAGE: "The command line or a setting is invalid.",
    NOT_FOUND: "The document, collection, job or file does not exist.",
    UNREACHABLE: "The engine is unreachable, starting, or timed out.",
    REFUSED: "The API key is missing, not valid, or lacks permission.",
    INTERRUPTED: "Interrupted with Ctrl-C.",
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
    """Return the exit code of the nearest base class in the table."""
    return next(EXIT_CODE_BY_ERROR[kind] for kind in type(error).__mro__ if kind in EXIT_CODE_BY_ERROR)


def join_sentences(message: str, hint: str = "") -> str:
    """Join message and hint as sentences, adding full stops."""
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in (message, hint) if part)


def report_error(error: BaseException, session: CliSession) -> int:
    """Print an error to stderr and return its exit code."""
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
    """Convert any exception to a KnowledgeError; unexpected ones become Internal."""
    if isinstance(error, KnowledgeError):
        return error
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return StorageFailed(f"{error.strerror}{where}")
    return Internal(
        f"Unexpected error: {type(error).__name__}: {error}",
        hint="Run the command again with --debug for a traceback, and please report it.",
    )


def silence_logging() -> None:
    """Discard log records, because commands print their own messages."""
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def enable_debug_logging() -> None:
    """Log everything to stderr."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, force=True)
    logging.getLogger("knowledge").setLevel(logging.DEBUG)
