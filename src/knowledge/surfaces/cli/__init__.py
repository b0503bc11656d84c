"""The command line interface: `cli` is the group of all commands."""

from knowledge.surfaces.cli.root import cli

__all__ = ["cli"]
