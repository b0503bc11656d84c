"""Imports at start: only modules that the first response needs."""

from __future__ import annotations

import subprocess
import sys

SERVER = (
    "import knowledge.app, knowledge.surfaces.cli.commands.serve, "
    "knowledge.surfaces.http.app, knowledge.surfaces.http.open_engine"
)
PAGES = "import sage.cli, knowledge.surfaces.sage, knowledge.surfaces.mcp.stdio"
COMMAND = "from knowledge.surfaces.cli import cli"
LATER = {"alembic", "faiss", "httpx", "onnxruntime", "pathspec", "rich"}


def loaded(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_server_starts_without_what_only_later_work_needs() -> None:
    assert not loaded(SERVER) & LATER


def test_a_command_reads_no_file_of_another_command() -> None:
    assert not loaded(COMMAND) & {
        "knowledge.surfaces.cli.add.command",
        "knowledge.surfaces.cli.commands.serve",
        "pydantic",
        "asyncio",
    }


def test_a_server_of_pages_knows_nothing_of_engines_elsewhere() -> None:
    assert not loaded(PAGES) & {*LATER, "knowledge.engine.remote.engine", "numpy", "sqlalchemy", "fastapi"}
