"""Source code and configuration as fenced code blocks, with their definitions if the language has a grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from knowledge.extract.base import CodePart, Extraction, Facts, PageText, Source
from knowledge.extract.charset import read_text, read_text_blocks
from knowledge.extract.clean_text import MAX_PIECE_CHARS, clean_text, cut_text, regroup_blocks

FENCE_LANGUAGES = {
    "bash": "bash", "bat": "bat", "c": "c", "cfg": "ini", "clj": "clojure", "cmake": "cmake", "conf": "ini",
    "cpp": "cpp", "cs": "csharp", "css": "css", "dart": "dart", "diff": "diff", "erl": "erlang", "ex": "elixir",
    "f90": "fortran", "fs": "fsharp", "go": "go", "gradle": "groovy", "graphql": "graphql", "groovy": "groovy",
    "h": "c", "hs": "haskell", "ini": "ini", "java": "java", "jl": "julia", "js": "javascript", "jsx": "jsx",
    "kt": "kotlin", "lisp": "lisp", "lua": "lua", "m": "objectivec", "ml": "ocaml", "nim": "nim", "pas": "pascal",
    "patch": "diff", "php": "php", "pl": "perl", "properties": "properties", "proto": "protobuf", "ps1": "powershell",
    "py": "python", "r": "r", "rb": "ruby", "rs": "rust", "scala": "scala", "scss": "scss", "sh": "bash",
    "sol": "solidity", "sql": "sql", "swift": "swift", "tf": "hcl", "toml": "toml", "ts": "typescript", "tsx": "tsx",
    "vb": "vbnet", "vue": "vue", "xml": "xml", "yaml": "yaml", "zig": "zig", "zsh": "bash",
}  # fmt: skip
"""Markdown fence language by type."""
SUFFIX_ALIASES = {
    "cpp": ("cpp", "cc", "cxx", "hpp", "hh"),
    "js": ("js", "mjs", "cjs"),
    "py": ("py", "pyi"),
    "yaml": ("yaml", "yml"),
    "kt": ("kt", "kts"),
    "ex": ("ex", "exs"),
    "f90": ("f90", "f"),
    "ml": ("ml", "mli"),
    "fs": ("fs", "fsx"),
    "pl": ("pl", "pm"),
    "ts": ("ts", "mts"),
    "xml": ("xml", "xsd", "xsl"),
}
"""All suffixes of types that have several."""
MAX_PAGE_CHARS = MAX_PIECE_CHARS - 1000
"""Room for the fence: a longer page would be cut when its text is cleaned."""
LINE_END = re.compile("\r\n?")
BACKTICKS = re.compile("`{3,}")


OTHER_BREAKS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Characters that are line breaks for the rest of the server, but not for the editors that count lines."""
MAX_STRUCTURED_BYTES = 4 << 20
"""Larger files are read block by block and without line numbers."""


def extract(source: Source, doc_type: str) -> Extraction:
    language = FENCE_LANGUAGES.get(doc_type, "")
    large = source.size > MAX_STRUCTURED_BYTES
    return Extraction(
        Facts(doc_type), _read_blocks(source, language) if large else _read_parts(source, doc_type, language)
    )


def _read_blocks(source: Source, language: str) -> Iterator[PageText]:
    for piece in regroup_blocks(read_text_blocks(source)):
        if piece.strip():
            yield PageText(fence_code(piece, language))


def _read_parts(source: Source, doc_type: str, language: str) -> Iterator[PageText]:
    """Yield the file with its outline, in pages of whole parts if it is long."""
    from knowledge.extract.code.outline import make_outline  # on demand: only the child needs the grammars

    text = clean_text(OTHER_BREAKS.sub(" ", LINE_END.sub("\n", read_text(source))))
    lines = [line.rstrip() for line in text.split("\n")]
    waiting: list[CodePart] = []
    size = 0
    for part in make_outline("\n".join(lines), doc_type):
        length = sum(len(line) + 1 for line in lines[part.first_line - 1 : part.last_line])
        if waiting and size + length > MAX_PAGE_CHARS:
            yield from _make_page(lines, waiting, language)
            waiting, size = [], 0
        waiting.append(part)
        size += length
    yield from _make_page(lines, waiting, language)


def _make_page(lines: Sequence[str], parts: Sequence[CodePart], language: str) -> Iterator[PageText]:
    text = "\n".join(lines[parts[0].first_line - 1 : parts[-1].last_line])
    if len(text) > MAX_PAGE_CHARS:  # one part that is longer than a page
        first = parts[0].first_line
        for piece in cut_text(text, MAX_PAGE_CHARS):
            rows = piece.count("\n")
            yield from _fence_page(piece, language, (CodePart(first, first + rows, parts[0].section),))
            first += rows
    else:
        yield from _fence_page(text, language, tuple(parts))


def _fence_page(text: str, language: str, outline: tuple[CodePart, ...]) -> Iterator[PageText]:
    mark = _find_fence(text)
    if text.strip():
        yield PageText(f"{mark}{language}\n{text.rstrip(chr(10))}\n{mark}", outline=outline)


def fence_code(text: str, language: str = "") -> str:
    """Return a fenced block whose fence is longer than any run of backticks in the text."""
    mark = _find_fence(text)
    return f"{mark}{language}\n{text.strip(chr(10))}\n{mark}"


def _find_fence(text: str) -> str:
    return "`" * (max((len(run) for run in BACKTICKS.findall(text)), default=2) + 1)
