"""Source code and configuration as fenced code blocks; long files are cut at blank lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.charset import read_text_blocks
from knowledge.extract.clean_text import regroup_blocks

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
BACKTICKS = re.compile("`{3,}")


def extract(source: Source, doc_type: str) -> Extraction:
    return Extraction(Facts(doc_type), _read_pages(source, FENCE_LANGUAGES.get(doc_type, "")))


def _read_pages(source: Source, language: str) -> Iterator[PageText]:
    for piece in regroup_blocks(read_text_blocks(source)):
        if piece.strip():
            yield PageText(fence_code(piece, language))


def fence_code(text: str, language: str = "") -> str:
    """Return a fenced block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in BACKTICKS.findall(text)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{language}\n{text.strip(chr(10))}\n{mark}"
