"""The names that `knowledge` exports, and the programs of docs/how-to/use-from-python.md."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

import knowledge
from knowledge import KnowledgeError, app, open_engine
from knowledge.testing import make_test_engine
from tests.support.server_process import run_server_process

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "use-from-python.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
OUTPUTS = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
HANDBOOK = "# Handbook\n\n## Office\n\nThe printer is on the second floor, next to the kitchen.\n"
TIMEOUT_SECONDS = 120.0


def run_program(program: str, folder: Path) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=inherited, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    (tmp_path / "handbook.md").write_text(HANDBOOK, "utf-8")
    first, second, elsewhere, errors = PROGRAMS
    assert run_program(first, tmp_path) == OUTPUTS[0]
    assert run_program(first, tmp_path) == OUTPUTS[0]  # adding again makes no duplicate
    assert run_program(second, tmp_path).splitlines() == [
        f"Handbook › Office None {tmp_path / 'handbook.md'}",
        "2 Handbook ('office',) 1",
    ]
    assert run_program(errors, tmp_path).startswith("document_not_found – ")
    with run_server_process(tmp_path, KB_API_KEY="secret") as server:
        server.http.headers["X-API-Key"] = "secret"
        server.wait_for_outcome(server.add_file("printer.txt", b"The printer is upstairs."))
        program = elsewhere.replace("http://127.0.0.1:8000", server.url).replace("…", "secret")
        assert "The printer is upstairs." in run_program(program, tmp_path)


def test_the_program_of_the_readme_runs(tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert re.fullmatch(r"[01]\.\d\d  The printer is on the second floor\.\n", run_program(program, tmp_path))


def test_every_public_name_is_there_and_listed() -> None:
    assert [name for name in knowledge.__all__ if not hasattr(knowledge, name)] == []
    assert set(knowledge.__all__) <= set(dir(knowledge))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        knowledge.nothing  # type: ignore[attr-defined]  # noqa: B018


PUBLIC_API = """
open_engine(data=None, *, url=None, key=None)
KnowledgeBase.add_file(path, *, title=None, collection='documents', tags=(), metadata=None)
KnowledgeBase.add_text(text, *, title=None, collection='documents', tags=(), metadata=None)
KnowledgeBase.documents(*, collection=None, tag=None)
KnowledgeBase.read(document)
KnowledgeBase.remove(document)
KnowledgeBase.search(question, *, limit=10, collection=None, tags=(), mode='hybrid', threshold=0.0)
Chunk: id uid document_id index text page section lines
Document: id uid title kind doc_type collection collection_id owner tags metadata filename source_path url sha256
 size_bytes status method warnings language page_count chunk_count created_at updated_at added_by vector_count access
Hit: chunk document score matched_by text indexes explanation highlights lines
KnowledgeError: code status hint details
"""


def describe_public_api() -> str:
    methods = {
        f"KnowledgeBase.{name}": value for name, value in vars(knowledge.KnowledgeBase).items() if name[0] != "_"
    }
    functions = {
        "open_engine": open_engine,
        **{name: methods[name] for name in sorted(methods) if callable(methods[name])},
    }
    kinds = (knowledge.Chunk, knowledge.Document, knowledge.Hit)
    error = KnowledgeError("")
    lines = [
        *(f"{name}{describe_parameters(function)}" for name, function in functions.items()),
        *(f"{kind.__name__}: {' '.join(each.name for each in fields(kind))}" for kind in kinds),
        f"KnowledgeError: {' '.join(name for name in ('code', 'status', 'hint', 'details') if hasattr(error, name))}",
    ]
    return " ".join(lines)


def describe_parameters(function: Callable[..., object]) -> str:
    signature = inspect.signature(function)
    plain = [each.replace(annotation=each.empty) for name, each in signature.parameters.items() if name != "self"]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def test_the_public_api_changes_only_with_the_version() -> None:
    """An addition goes into PUBLIC_API; anything else breaks the promise of semantic versioning."""
    assert describe_public_api().split() == PUBLIC_API.split()


def test_importing_the_package_loads_nothing_else_of_it() -> None:
    program = "import knowledge, sys; print(*[name for name in sys.modules if name.startswith('knowledge.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.fixture(autouse=True)
def small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "open_engine", make_test_engine)


async def test_a_text_is_found_read_and_removed(tmp_path: Path) -> None:
    async with open_engine(tmp_path / "data") as kb:
        note = await kb.add_text("The harbour master keeps a ledger.", tags=["harbour"], metadata={"floor": 2})
        assert (note.tags, note.metadata) == (("harbour",), {"floor": 2})
        assert [hit.document.id for hit in await kb.search("harbour ledger")] == [note.id]
        assert await kb.search("harbour ledger", tags=["elsewhere"]) == []
        assert await kb.read(note) == await kb.read(note.uid) == "The harbour master keeps a ledger."
        await kb.remove(note)
        assert [document async for document in kb.documents()] == []


async def test_the_same_text_again_is_the_same_document(tmp_path: Path) -> None:
    async with open_engine(tmp_path / "data") as kb:
        assert await kb.add_text("Twice.") == await kb.add_text("Twice.")


async def test_a_changed_file_replaces_its_document(tmp_path: Path) -> None:
    path = tmp_path / "ship.md"
    async with open_engine(tmp_path / "data") as kb:
        path.write_text("The ship is blue.", "utf-8")
        first = await kb.add_file(path)
        path.write_text("The ship is red.", "utf-8")
        second = await kb.add_file(str(path))
        assert (second.id, await kb.read(second)) == (first.id, "The ship is red.")


async def test_adding_an_unusable_file_raises(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 nothing else")
    async with open_engine(tmp_path / "data") as kb:
        with pytest.raises(FileNotFoundError):
            await kb.add_file(tmp_path / "missing.md")
        with pytest.raises(KnowledgeError, match="archive"):
            await kb.add_file(tmp_path / "many.zip")
        with pytest.raises(KnowledgeError):
            await kb.add_file(tmp_path / "broken.pdf")


async def test_documents_of_many_pages_are_all_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge.surfaces.python.PAGE_DOCUMENTS", 2)
    async with open_engine(tmp_path / "data") as kb:
        added = [await kb.add_text(f"Note {number}.") for number in range(5)]
        assert [document.id async for document in kb.documents()] == [note.id for note in added]


async def test_the_folder_that_is_named_wins_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWLEDGE_DATA", str(tmp_path / "other"))
    monkeypatch.setenv("KB_ENGINE_URL", "http://127.0.0.1:9")
    async with open_engine(tmp_path / "data") as kb:
        await kb.add_text("Here.")
    assert (tmp_path / "data" / "knowledge.db").exists() and not (tmp_path / "other").exists()
    with pytest.raises(ValueError, match="not both"):
        async with open_engine(tmp_path, url="http://127.0.0.1:9"):
            pass
