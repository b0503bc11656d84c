"""reStructuredText, AsciiDoc, Org and TeX: headings and code become Markdown's, all else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from knowledge.extract.base import Extracted, Facts, Source
from knowledge.extract.text.markdown import first_heading
from knowledge.extract.text.plain import lines, pages
from knowledge.extract.text.rst import restructured

Lines = Iterator[str]
TEX_HEADING = re.compile(r"\\(part|chapter|section|subsection|subsubsection|paragraph)\*?(?:\[[^\[\]]*+\])?\{")
TEX_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}
TEX_TITLE = re.compile(r"\\title\{")
TEX_COMMENT = re.compile(r"(?<!\\)%.*")


def extract(source: Source, doc_type: str) -> Extracted:
    converted = CONVERTERS[doc_type](lines(source))
    head = [line for _, line in zip(range(200), converted, strict=False)]

    def blocks() -> Lines:
        for line in (*head, *()):
            yield f"{line}\n"
        for line in converted:
            yield f"{line}\n"

    return Extracted(Facts(doc_type, title=first_heading("\n".join(head))), pages(blocks()))


def asciidoc(lines: Lines) -> Lines:
    fenced, language = False, ""
    for line in lines:
        if line.startswith("----") and not line.strip("-\n "):
            yield "```" if fenced else f"```{language}"
            fenced, language = not fenced, ""
        elif fenced:
            yield line
        elif found := re.match(r"(={1,6})\s+(\S.*)", line):
            yield f"{'#' * len(found[1])} {found[2]}"
        elif found := re.match(r"\[source,\s*(\w+)", line):
            language = found[1]
        elif not re.match(r":[\w-]+:|//", line):
            yield line


def org(lines: Lines) -> Lines:
    for line in lines:
        if found := re.match(r"(\*{1,6})\s++(?:(?:TODO|DONE)\s++)?(\S.*)$", line):
            yield f"{'#' * len(found[1])} {_without_tags(found[2])}"
        elif found := re.match(r"(?i)\s*#\+title:\s*(.+)", line):
            yield f"# {found[1]}"
        elif found := re.match(r"(?i)\s*#\+begin_(?:src|example)\s*(\S*)", line):
            yield f"```{found[1]}"
        elif re.match(r"(?i)\s*#\+end_(?:src|example)", line):
            yield "```"
        elif not re.match(r"(?i)\s*(#\+\w+:|:PROPERTIES:|:END:|:ID:)", line):
            yield line


def _without_tags(heading: str) -> str:
    """An Org heading without the tags at its end, as in `Prices :tea:coffee:`."""
    words, *tags = heading.rsplit(None, 1)
    has_tags = bool(tags) and heading.endswith(tags[0]) and re.fullmatch(r":[\w@:]+:", tags[0]) is not None
    return words if has_tags else heading


def tex(lines: Lines) -> Lines:
    for line in lines:
        line = TEX_COMMENT.sub("", line)
        if (found := TEX_TITLE.search(line)) and (words := _braced(line, found.end())):
            yield f"# {words}"
        elif (found := TEX_HEADING.search(line)) and (words := _braced(line, found.end())):
            yield f"{'#' * TEX_LEVELS[found[1]]} {words}"
        elif not re.match(r"\s*\\(documentclass|usepackage|maketitle|begin\{document\}|end\{document\})", line):
            yield line


def _braced(line: str, start: int) -> str:
    """What stands in braces that were opened right before; at least one character."""
    end = line.find("}", start + 1)
    return line[start:end] if end > 0 else ""


CONVERTERS: dict[str, Callable[[Lines], Lines]] = {"rst": restructured, "adoc": asciidoc, "org": org, "tex": tex}
