"""The command `knowledge`: the group of all commands, which prints errors without a traceback."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from typing import TextIO, cast

import click

from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.common_options import common_options
from knowledge.surfaces.cli.session import CliSession

SECTIONS = {
    "Documents": ("add", "note", "crawl", "search", "eval", "show", "read", "tag", "move", "remove", "extract"),
    "Collections and jobs": ("collections", "jobs"),
    "Server": ("serve", "user", "status", "verify", "reindex", "backup", "restore", "migrate", "doctor", "completion"),
}
MODULES = {
    "add": "add.command",
    "eval": "eval.command",
    "tag": "commands.edit",
    "move": "commands.edit",
    "verify": "commands.status",
    "restore": "commands.backup",
}
"""Modules of commands that are not `commands.<name>`."""
FUNCTION_NAMES = {"eval": "evaluate"}
"""Functions whose name differs from the command's."""


class RootGroup(click.Group):
    """Lists the commands in sections, imports a command on first use, and turns exceptions into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        file = import_module(f"knowledge.surfaces.cli.{MODULES.get(cmd_name, f'commands.{cmd_name}')}")
        return cast(click.Command, getattr(file, FUNCTION_NAMES.get(cmd_name, cmd_name)))

    def invoke(self, ctx: click.Context) -> object:
        replace_unencodable(sys.stdout)
        replace_unencodable(sys.stderr)
        session = ctx.ensure_object(CliSession)
        if not session.debug:
            cli_errors.silence_logging()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(cli_errors.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # the reader of a pipe, such as head, ended
                raise
            ctx.exit(cli_errors.report_error(error, session))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            listed = [(name, command) for name in names if (command := self.get_command(ctx, name))]
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(90)) for name, command in listed])


def replace_unencodable(stream: TextIO) -> None:
    """Print question marks for characters that the stream's encoding lacks, instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


@click.group(
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="'knowledge COMMAND --help' has examples. Exit codes: "
    + " ".join(f"{code} {meaning}" for code, meaning in cli_errors.EXIT_CODES.items()),
)
@click.version_option(None, "-V", "--version", package_name="knowledge-server", message="%(prog)s %(version)s")
@common_options
def cli() -> None:
    """Knowledge Server: add documents, and find the right passages from the shell and from AI agents."""
