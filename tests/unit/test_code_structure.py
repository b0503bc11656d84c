"""Source code is divided between its definitions, and its chunks know their lines."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.embed.granite import load_tokenizer
from knowledge.extract.base import CodePart, Source
from knowledge.extract.code.grammars import GRAMMARS
from knowledge.extract.code.outline import make_outline
from knowledge.extract.formats import extract
from knowledge.extract.text import source_code
from knowledge.split import SplitPassage, Splitter

SAMPLES = {
    "py": ("import os\n\n# Adds.\n@cache\ndef add(a):\n    return a\n", "# Adds.", "add"),
    "js": ("const x = 1;\n\n/** Adds. */\nexport function add(a) {\n  return a;\n}\n", "/** Adds. */", "add"),
    "jsx": ("let y;\n\n// Shows.\nconst App = () => {\n  return <p>hi</p>;\n};\n", "// Shows.", "App"),
    "ts": ("let y;\n\n/** A box. */\nexport interface Box {\n  size: number;\n}\n", "/** A box. */", "Box"),
    "tsx": ("let y;\n\n// Shows.\nfunction App(): any {\n  return <p>hi</p>;\n}\n", "// Shows.", "App"),
    "go": ("package tea\n\n// Boil boils.\nfunc (k *Kettle) Boil() int {\n\treturn 1\n}\n", "// Boil", "Kettle.Boil"),
    "rs": ("use std::fmt;\n\n/// A point.\n#[derive(Debug)]\npub struct Point {\n    x: i32,\n}\n", "/// A", "Point"),
    "java": ("package a.b;\n\n/** A. */\n@Service\npublic class A {\n  int x;\n}\n", "/** A. */", "A"),
    "c": ('#include "a.h"\n\n/* Adds. */\nstatic int *add(int a)\n{\n  return 0;\n}\n', "/* Adds. */", "add"),
    "h": ("#pragma once\n\n// A box.\nclass Box {\n public:\n  int size() const;\n};\n", "// A box.", "Box"),
    "cpp": ("#include <a>\n\n// Sets.\ntemplate <int T>\nvoid Box<T>::set() {\n  v = 1;\n}\n", "//", "Box<T>::set"),
    "cs": ("using System;\n\n/// <summary>A.</summary>\npublic class A {\n  int x;\n}\n", "/// <summary>", "A"),
    "rb": ("require 'a'\n\n# Makes.\ndef self.make\n  new\nend\n", "# Makes.", "make"),
    "php": ("<?php\n\n/** Helps. */\nfunction help() {\n  return 1;\n}\n", "/** Helps. */", "help"),
    "kt": ("import a.b\n\n/** Runs. */\nfun String.run(): Int {\n  return 1\n}\n", "/** Runs. */", "run"),
    "swift": ("import A\n\n/// A view.\nstruct A: View {\n  let x: Int\n}\n", "/// A view.", "A"),
    "bash": ("set -e\n\n# Says.\nhello() {\n  echo hi\n}\n", "# Says.", "hello"),
    "sh": ("set -e\n\n# Says.\nfunction hello {\n  echo hi\n}\n", "# Says.", "hello"),
    "zsh": ("set -e\n\n# Says.\nhello() {\n  echo hi\n}\n", "# Says.", "hello"),
    "sql": ("SELECT 1;\n\n-- Users.\nCREATE TABLE users (\n  id int\n);\n", "-- Users.", "users"),
}  # fmt: skip
"""Text, the comment above the definition, and its name, by document type."""

KETTLE = '''"""Kettles."""
import os

LIMIT = 100


class Kettle:
    """A kettle."""

    volume = 1

    def boil(self, degrees):
        """Boil."""
        if degrees > LIMIT:
            raise ValueError(degrees)
        return degrees

    # Pours.
    @property
    def pour(self):
        return os.sep
'''


def list_names(parts: tuple[CodePart, ...]) -> list[str]:
    return [" > ".join(part.section) for part in parts]


def assert_no_line_is_lost(parts: tuple[CodePart, ...], text: str) -> None:
    lines = [line for part in parts for line in range(part.first_line, part.last_line + 1)]
    assert lines == list(range(1, text.count("\n") + 2))


@pytest.mark.parametrize("doc_type", sorted(GRAMMARS))
def test_every_language_finds_a_definition_with_the_comment_above_it(doc_type: str) -> None:
    text, comment, name = SAMPLES[doc_type]
    parts = make_outline(text, doc_type)
    assert_no_line_is_lost(parts, text)
    found = [part for part in parts if part.section and part.section[-1] == name]
    assert len(found) == 1, parts
    assert text.split("\n")[found[0].first_line - 1].startswith(comment)


def test_a_long_class_is_divided_into_its_header_and_its_methods() -> None:
    parts = make_outline(KETTLE, "py")
    assert_no_line_is_lost(parts, KETTLE)
    assert list_names(parts) == ["", "Kettle", "Kettle > boil", "Kettle > pour"]
    assert KETTLE.split("\n")[parts[3].first_line - 1].strip() == "# Pours."


def test_the_declared_package_is_the_first_name() -> None:
    text = "package com.example;\n\nclass A {\n" + "  int f() {\n    return 1;\n  }\n\n" * 4 + "}\n"
    assert list_names(make_outline(text, "java"))[2] == "com.example > A > f"


def test_a_closing_brace_belongs_to_what_is_above_it() -> None:
    text = "namespace a {\n\nint f() {\n  return 1;\n}\n" + "\n" * 12 + "}  // namespace a\n"
    assert list_names(make_outline(text, "cpp")) == ["a", "a > f"]


@pytest.mark.parametrize(
    ("text", "doc_type"),
    [("%% ) not ( code {{{ <<< ]]\n" * 20, "py"), ("key: value\n", "yaml"), ("x = 1\n", "py"), ("", "py")],
)
def test_a_file_without_known_structure_is_one_part(text: str, doc_type: str) -> None:
    assert make_outline(text, doc_type) == (CodePart(1, text.count("\n") + 1, ()),)


@given(
    st.sampled_from(sorted(GRAMMARS)), st.lists(st.sampled_from([*"(){};:\n \"'#/*<>@", "def f", "class A", "\n  "]))
)
def test_any_text_is_divided_without_losing_a_line(doc_type: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    assert_no_line_is_lost(make_outline(text, doc_type), text)


# -- chunks -------------------------------------------------------------------------------------


def split_file(folder: Path, name: str, data: bytes) -> list[SplitPassage]:
    path = folder / name
    path.write_bytes(data)
    splitter = Splitter(load_tokenizer(), path.stem)
    pages = list(extract(Source(path, name)).pages)
    return [piece for page in pages for piece in splitter.feed(page)] + list(splitter.finish())


def assert_lines_are_right(chunks: list[SplitPassage], text: str) -> None:
    lines = [line.rstrip() for line in text.split("\n")]
    for chunk in chunks:
        assert chunk.lines is not None
        first, last = chunk.lines
        assert chunk.text.split("\n")[1:-1] == lines[first - 1 : last]


def make_module(functions: int, rows: int) -> str:
    body = "".join(f"    total_{row} = compute(value, {row})\n" for row in range(rows))
    return "import tea\n\n\n" + "\n\n".join(
        f"def brew_{number}(value):\n{body}    return value\n" for number in range(functions)
    )


def test_whole_functions_share_a_chunk_and_their_names_are_its_heading(tmp_path: Path) -> None:
    text = make_module(12, 4)
    chunks = split_file(tmp_path, "tea.py", text.encode())
    assert_lines_are_right(chunks, text)
    assert 1 < len(chunks) < 12
    for chunk in chunks:
        assert chunk.text.count("def brew_") == chunk.text.count("return value") >= 1
        assert chunk.section[0].startswith("brew_") and chunk.section[0].split(", ")[-1] in chunk.text


def test_a_long_function_is_cut_and_every_part_has_its_name(tmp_path: Path) -> None:
    text = make_module(1, 80)
    chunks = split_file(tmp_path, "tea.py", text.encode())
    assert_lines_are_right(chunks, text)
    assert len(chunks) > 2 and all(chunk.section == ("brew_0",) for chunk in chunks[1:])


def test_lines_are_counted_as_editors_count_them(tmp_path: Path) -> None:
    data = b"a = 1\r\n\x0c\r\nb = '\xe2\x80\xa8'\r\n\r\ndef f():\r\n    return 1   \r\n"
    [chunk] = split_file(tmp_path, "a.py", data)
    assert chunk.lines == (1, 6) and "def f():\n    return 1\n```" in chunk.text


def test_configuration_has_lines_too(tmp_path: Path) -> None:
    text = "\n\n" + "".join(f"key_{number}: value\n" for number in range(200))
    chunks = split_file(tmp_path, "a.yaml", text.encode())
    assert_lines_are_right(chunks, text)
    assert chunks[0].lines is not None and chunks[0].lines[0] == 3 and not any(chunk.section for chunk in chunks)


def test_a_long_file_is_read_in_pages_with_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_code, "MAX_PAGE_CHARS", 2000)
    text = make_module(10, 6) + "\n\nx = '" + "a b " * 1000 + "'\n"
    chunks = split_file(tmp_path, "a.py", text.encode())
    assert all(chunk.lines is not None for chunk in chunks)
    assert_lines_are_right(chunks[:-12], text)
    last = chunks[-1].lines
    assert last is not None and last[1] == text.count("\n")


def test_code_in_an_archive_has_no_lines_of_its_own(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("a.py", make_module(2, 3))
        archive.writestr("b.py", make_module(3, 3))
    chunks = split_file(tmp_path, "tea.zip", (tmp_path / "packed.zip").read_bytes())
    assert [chunk.section for chunk in chunks] == [("a.py",), ("b.py",)]
    assert all(chunk.lines is None and "def brew_1(value):" in chunk.text for chunk in chunks)


def test_a_very_large_file_is_read_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_code, "MAX_STRUCTURED_BYTES", 100)
    chunks = split_file(tmp_path, "a.py", make_module(3, 4).encode())
    assert chunks and all(chunk.lines is None and chunk.section == () for chunk in chunks)
