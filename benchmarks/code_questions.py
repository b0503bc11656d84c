"""Makes questions about functions from their documentation, and removes that documentation from the files.

Functions are found without a grammar, so that the questions do not depend on what is measured: in Python by the
standard library's `ast`, in other languages by a comment directly above a line that looks like a function.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

SEED = 7
MIN_WORDS, MAX_WORDS = 5, 40
MIN_ROWS, TARGET_ROWS = 4, 8
MAX_ROWS = 40
MAX_FILE_CHARS = 120_000
HIT_SHARE = 0.6
"""Share of the first rows of a function that a passage must contain."""
SUFFIXES = {
    "python": (".py",), "javascript": (".js", ".mjs"), "typescript": (".ts",), "go": (".go",), "rust": (".rs",),
    "java": (".java",), "c": (".c", ".h"), "c++": (".cc", ".cpp", ".hpp"), "c#": (".cs",), "ruby": (".rb",),
    "php": (".php",), "kotlin": (".kt",), "swift": (".swift",), "bash": (".sh", ".bash"),
}  # fmt: skip
FUNCTION_LINE = {
    "go": re.compile(r"func\b.*\{$"), "rust": re.compile(r".*\bfn\s+\w+.*"), "ruby": re.compile(r"def\s+\S+.*"),
    "php": re.compile(r".*\bfunction\s+&?\w+\s*\(.*"), "kotlin": re.compile(r".*\bfun\s+.*\(.*"),
    "swift": re.compile(r".*\bfunc\s+\w+.*"), "bash": re.compile(r"(?:function\s+)?[\w:-]+\s*\(\)\s*\{?$"),
}  # fmt: skip
ANY_FUNCTION_LINE = re.compile(
    r"(?!(?:if|for|while|switch|return|else|new|throw|class|struct|enum|namespace|import|typedef|#)\b)"
    r"[\w$<>\[\],.*&:~?\s@]+\([^;]*$"
)
COMMENT_LINE = re.compile(r"(?:///?!?|#(?!!)|\*/?|/\*\*?)\s?(.*)")
NAME = re.compile(
    r"(?:def|fn|func|fun|function)\s+(?:\([^)]*\)\s*)?(?:[\w<>]+\.)?&?([\w$?!]+)|([\w$~]+)\s*(?:<[^>]*>)?\("
)
SENTENCE = re.compile(r"(.+?[.!?])(?:\s|$)|(.+)", re.DOTALL)
MARKUP = re.compile(r"<[^>]+>|[`*{}]|@\w+")


@dataclass(frozen=True, slots=True)
class CodeQuestion:
    language: str
    path: str
    text: str
    """The first sentence of the documentation."""
    name: str
    rows: tuple[str, ...]
    """The first rows of the function, without its documentation."""

    def is_in(self, text: str) -> bool:
        lines = {line.strip() for line in text.split("\n")}
        return sum(row in lines for row in self.rows) >= HIT_SHARE * len(self.rows)


@dataclass(frozen=True, slots=True)
class CodeFile:
    path: str
    text: str
    """Without the documentation that became questions."""
    questions: tuple[CodeQuestion, ...]


def read_files(folder: Path, language: str, max_questions: int) -> list[CodeFile]:
    """Return files of a folder in a random order, until they have enough questions."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES[language] and path.is_file())
    random.Random(SEED).shuffle(paths)
    files: list[CodeFile] = []
    count = 0
    for path in paths:
        if "test" in str(path.relative_to(folder)).lower() or count >= max_questions:
            continue
        made = _read_file(path, str(path.relative_to(folder)), language)
        if made is not None:
            files.append(made)
            count += len(made.questions)
    asked = Counter(question.text for file in files for question in file.questions)
    return [
        replace(file, questions=tuple(question for question in file.questions if asked[question.text] == 1))
        for file in files
    ]


def _read_file(path: Path, name: str, language: str) -> CodeFile | None:
    try:
        text = path.read_text("utf-8")
    except (UnicodeDecodeError, OSError):
        return None
    if len(text) > MAX_FILE_CHARS or max(map(len, text.split("\n"))) > 2000:
        return None
    lines = text.split("\n")
    try:
        found = list(_find_in_python(text) if language == "python" else _find_by_comments(lines, language))
    except (SyntaxError, ValueError, RecursionError):
        return None
    removed = {row for comment, _, _ in found for row in comment}
    questions = []
    for _, doc, start in found:
        question = make_question(lines, doc, start, removed, language, name)
        if question is not None:
            questions.append(question)
    kept = "\n".join(line for row, line in enumerate(lines) if row not in removed)
    return CodeFile(name, kept, tuple(questions)) if questions else None


Documented = tuple[range, str, int]
"""Rows of the documentation, its text, and the first row of the function."""


def _find_in_python(text: str) -> Iterator[Documented]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (doc := ast.get_docstring(node)):
            said = node.body[0]
            if len(node.body) > 1 and node.body[1].lineno > (said.end_lineno or 0):
                yield range(said.lineno - 1, said.end_lineno or said.lineno), doc, node.lineno - 1


def _find_by_comments(lines: Sequence[str], language: str) -> Iterator[Documented]:
    start: int | None = None
    for row, line in enumerate(lines):
        if COMMENT_LINE.fullmatch(line.strip()):
            start = row if start is None else start
            continue
        if start is not None and _is_function(line.strip(), language):
            said = [found[1] for each in lines[start:row] if (found := COMMENT_LINE.fullmatch(each.strip()))]
            yield range(start, row), "\n".join(said), row
        start = None


def _is_function(line: str, language: str) -> bool:
    return FUNCTION_LINE.get(language, ANY_FUNCTION_LINE).fullmatch(line) is not None


def find_body(lines: Sequence[str], start: int, language: str) -> range:
    """Return the rows of a function, at most MAX_ROWS, by its indentation; none for a declaration without a body."""
    base = _measure_indent(lines[start])
    for row in range(start + 1, min(start + MAX_ROWS, len(lines))):
        text = lines[row].strip()
        if not text or _measure_indent(lines[row]) > base or text == "{" or text.endswith(("{", "):", ") ->")):
            continue
        if language == "python":
            return range(start, row) if row > start + 1 else range(0)
        return range(start, row + 1) if text[0] == "}" or text.startswith("end") else range(0)
    return range(start, min(start + MAX_ROWS, len(lines)))


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def make_question(
    lines: Sequence[str], doc: str, start: int, removed: set[int], language: str, path: str
) -> CodeQuestion | None:
    """Return the question of a function; None if its documentation or its body is too short."""
    first = doc.strip().split("\n\n")[0]
    sentence = SENTENCE.match(MARKUP.sub(" ", " ".join(first.split())))
    words = (sentence[1] or sentence[2]).split() if sentence else []
    name = NAME.search(lines[start])
    rows = [lines[row].strip() for row in find_body(lines, start, language) if row not in removed]
    kept = [row for row in rows if row][:TARGET_ROWS]
    if not MIN_WORDS <= len(words) <= MAX_WORDS or name is None or len(kept) < MIN_ROWS:
        return None
    return CodeQuestion(language, path, " ".join(words), name[1] or name[2], tuple(kept))
