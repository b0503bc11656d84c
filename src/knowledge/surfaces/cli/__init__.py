"""The command line: one small file for each command, and `cli`, the group that holds them."""

from knowledge.surfaces.cli.root import cli

__all__ = ["cli"]
