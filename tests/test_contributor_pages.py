"""The how-to pages for contributors name files that exist, and the modules that they add can be loaded."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from knowledge.extract.base import Source
from knowledge.toolsets.base import Registry, ToolsetView
from tests.test_docs import ROOT, find_named_paths, resolve_path

PAGES = {
    "add-a-format.md": {"src/knowledge/extract/text/vcard.py"},
    "add-a-toolset.md": {
        "src/knowledge/toolsets/notes/__init__.py",
        "src/knowledge/toolsets/notes/errors.py",
        "src/knowledge/toolsets/notes/tools.py",
        "tests/contracts/notes/test_notes.py",
        "tests/contracts/notes/tools.json",
    },
    "add-an-engine-verb.md": {"tests/engine/test_tags.py"},
    "add-a-setting.md": set(),
}
"""The pages, and the files that following them creates."""


def read_page(name: str) -> str:
    return (ROOT / "docs" / "how-to" / name).read_text("utf-8")


def read_code_blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", read_page(name), re.DOTALL)


def load_module(name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(code, name, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_files_that_exist_or_that_it_creates(page: str) -> None:
    paths = set(find_named_paths(read_page(page)))
    assert {path for path in paths if not resolve_path(path)} == PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_the_names_that_a_page_changes_exist(page: str) -> None:
    """Names in capitals, such as `FORMATS`, are constants of a file that the page names."""
    text = read_page(page)
    constants = {name for name in re.findall(r"`([A-Z][A-Z_]+[A-Z])`", text) if not name.startswith("KNOWLEDGE_")}
    files = [place for path in find_named_paths(text) if (place := resolve_path(path)) and place.suffix == ".py"]
    code = "\n".join(place.read_text("utf-8") for place in files)
    assert [name for name in sorted(constants) if not re.search(rf"\b{name}\b", code)] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_is_valid(page: str) -> None:
    blocks = read_code_blocks(page)
    assert blocks
    for block in blocks:
        if not block.rstrip().endswith(","):  # not an entry of a table
            ast.parse(textwrap.dedent(block))


def test_the_format_of_the_page_reads_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vcard = load_module("knowledge.extract.text.vcard", read_code_blocks("add-a-format.md")[0], monkeypatch)
    path = tmp_path / "ada.vcf"
    path.write_text("BEGIN:VCARD\nFN:Ada Lovelace\nTEL;TYPE=work:+44 20 1234\nEND:VCARD\n", "utf-8")
    pages = vcard.extract(Source(path, path.name), "vcf").pages
    assert "".join(page.text for page in pages) == "\n## Ada Lovelace\n\nPhone: +44 20 1234\n"


def test_the_toolset_of_the_page_has_two_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, tools, *_ = read_code_blocks("add-a-toolset.md")
    monkeypatch.setitem(sys.modules, "knowledge.toolsets.notes", ModuleType("knowledge.toolsets.notes"))
    load_module("knowledge.toolsets.notes.errors", errors, monkeypatch)
    toolset = load_module("knowledge.toolsets.notes.tools", tools, monkeypatch).tools
    listed = Registry([toolset]).list_schemas(ToolsetView(("notes",)))
    assert [tool["name"] for tool in listed] == ["notes-keep", "notes-find"]
