"""Asks before something is gone for good."""

from __future__ import annotations

import sys

import click

from knowledge.surfaces.cli.output.screen import clean


def confirm(question: str, yes: bool) -> None:
    """Go on if the answer is yes; without a person to ask, --yes has to say so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("Nobody is there to be asked; add --yes to go on.")
    click.confirm(clean(question), abort=True, err=True)
