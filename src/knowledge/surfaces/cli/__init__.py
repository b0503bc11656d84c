"""The command line: one small file for each command, and `cli`, the group that holds them."""

from knowledge.surfaces.cli.add import add
from knowledge.surfaces.cli.backup import backup, restore
from knowledge.surfaces.cli.collections import collections
from knowledge.surfaces.cli.completion import completion
from knowledge.surfaces.cli.crawl import crawl
from knowledge.surfaces.cli.doctor import doctor
from knowledge.surfaces.cli.editing import move, tag
from knowledge.surfaces.cli.eval import evaluate
from knowledge.surfaces.cli.extract import extract
from knowledge.surfaces.cli.jobs import jobs
from knowledge.surfaces.cli.note import note
from knowledge.surfaces.cli.read import read
from knowledge.surfaces.cli.reindex import reindex
from knowledge.surfaces.cli.remove import remove
from knowledge.surfaces.cli.root import cli
from knowledge.surfaces.cli.search import search
from knowledge.surfaces.cli.serve import serve
from knowledge.surfaces.cli.show import show
from knowledge.surfaces.cli.upkeep import status, verify
from knowledge.surfaces.cli.user import user

__all__ = ["cli"]

for command in (
    *(add, note, crawl, search, evaluate, show, read, tag, move, remove, extract),
    *(collections, jobs),
    *(serve, user, status, verify, reindex, backup, restore, doctor, completion),
):
    cli.add_command(command)
