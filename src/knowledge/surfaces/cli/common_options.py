"""Decorators for commands: the options --data, --json and --debug that all commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from knowledge.surfaces.cli.session import CliSession

F = TypeVar("F", bound=Callable[..., Any])

pass_session = click.make_pass_decorator(CliSession, ensure=True)


def common_options(function: F) -> F:
    """Add the options that every command and the group accept."""
    for option in reversed(
        (
            click.option(
                "--data",
                type=click.Path(file_okay=False, path_type=Path),
                metavar="DIR",
                help="Data folder of the knowledge base.  [env: KNOWLEDGE_DATA]",
                callback=_store_option,
                expose_value=False,
            ),
            click.option(
                "--json", "as_json", is_flag=True, help="Print JSON.", callback=_store_option, expose_value=False
            ),
            click.option(
                "--debug",
                is_flag=True,
                help="Print the log and tracebacks to stderr.",
                callback=_store_option,
                expose_value=False,
            ),
        )
    ):
        function = option(function)
    return function


def _store_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store an option in the session; an option that is not set keeps the value given before the command."""
    if value and parameter.name:
        setattr(context.ensure_object(CliSession), parameter.name, value)
        if parameter.name == "debug":
            from knowledge.surfaces.cli.errors import enable_debug_logging

            enable_debug_logging()


def format_examples(*lines: str) -> str:
    """Format the examples at the end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
