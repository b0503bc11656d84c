"""How a command is declared: its own options, and the three that all share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from knowledge.surfaces.cli.session import CliSession

F = TypeVar("F", bound=Callable[..., Any])  # what click decorates

pass_session = click.make_pass_decorator(CliSession, ensure=True)


def common_options(function: F) -> F:
    """The options that stand on every command, and before it."""
    for option in reversed(
        (
            click.option(
                "--data",
                type=click.Path(file_okay=False, path_type=Path),
                metavar="DIR",
                help="The folder that holds everything.  [env: KNOWLEDGE_DATA]",
                callback=_store_option,
                expose_value=False,
            ),
            click.option(
                "--json", "as_json", is_flag=True, help="Answer in JSON.", callback=_store_option, expose_value=False
            ),
            click.option(
                "--debug",
                is_flag=True,
                help="Show the log and, when something breaks, where.",
                callback=_store_option,
                expose_value=False,
            ),
        )
    ):
        function = option(function)
    return function


def _store_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Remember an option that was given; one that was not leaves what stood before the command."""
    if value and parameter.name:
        setattr(context.ensure_object(CliSession), parameter.name, value)
        if parameter.name == "debug":
            from knowledge.surfaces.cli.errors import enable_debug_logging

            enable_debug_logging()


def format_examples(*lines: str) -> str:
    """The end of a help text: lines to copy."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
