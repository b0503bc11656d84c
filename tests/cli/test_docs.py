"""Every `knowledge` command in the docs can be parsed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from knowledge.surfaces.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"```(?:sh|console|bash)\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`(knowledge [a-z][^`]*)`")
COMMAND = re.compile(r"(?:^|[|;&(] *|\$ )(knowledge(?: [^|&;>()]*|$))")


def commands(page: Path) -> Iterator[str]:
    text = page.read_text("utf-8")
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if not line.startswith("echo "):
                yield from COMMAND.findall(line)
    yield from INLINE.findall(text)


def parse_command(words: list[str], command: click.Command, context: click.Context) -> None:
    """Parse a command line with click, including subcommands, without running it."""
    below = command.make_context(words[0], words[1:], parent=context, resilient_parsing=False)
    with below:
        if isinstance(command, click.Group) and below._protected_args:
            name, child, rest = command.resolve_command(below, [*below._protected_args, *below.args])
            assert child is not None and name is not None
            parse_command([name, *rest], child, below)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_in_the_docs_can_be_parsed(page: Path) -> None:
    for line in commands(page):
        words = [word for word in shlex.split(line.partition("<")[0]) if word]
        if len(words) > 1 and not words[1].isupper():
            try:
                parse_command(words, cli, click.Context(click.Group("shell")))
            except click.exceptions.Exit as end:  # --help and --version
                assert end.exit_code == 0
            except click.MissingParameter as error:
                assert len(words) == 2, f"{page.name}: {line}: {error.message}"  # the bare name of a command
            except click.UsageError as error:
                pytest.fail(f"{page.name}: {line}: {error.message}")


def test_there_are_commands_in_the_docs() -> None:
    assert sum(len(list(commands(page))) for page in PAGES) > 50
