"""reStructuredText, AsciiDoc, Org and TeX: converts headings and code to Markdown and keeps the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice

from knowledge.extract.base import Extraction, Facts, Source
from knowledge.extract.text.markdown import find_first_heading
from knowledge.extract.text.plain import read_lines, to_pages

ADORNMENT = re.compile(r"([=\-~^\"'`:#*+.<>_])\1{2,}\s*$")
CODE_DIRECTIVE = re.compile(r"(\s*)\.\. (?:code-block|code|sourcecode|highlight)::\s*(\w*)")
DIRECTIVE_OPTION = re.compile(r"\s+:[\w-]+:")
RST_ROLE = re.compile(r"(?<![\w:+-])([\w+-]*+):[\w:+-]{2,}+(?<=:)`([^`<]++)(<[^`>]*+>)?`")
RST_LINK = re.compile(r"`([^`<]++)<([^`>]++)>`__?")
RST_LITERAL = re.compile(r"``([^`]+)``")


def convert_rst(lines: Iterator[str]) -> Iterator[str]:
    reader = _LookaheadLines(lines)
    styles: list[str] = []
    while (line := reader.next()) is not None:
        after = reader.peek()
        if (
            (found := ADORNMENT.match(line))
            and after
            and after.strip()
            and (second := reader.peek(1))
            and ADORNMENT.match(second)
        ):
            yield _convert_heading(after, f"{found[1]}{found[1]}", styles)
            reader.skip(2)
        elif (
            line.strip()
            and not line[0].isspace()
            and after
            and (found := ADORNMENT.match(after))
            and _is_underline_of(after, line)
        ):
            yield _convert_heading(line, found[1], styles)
            reader.skip(1)
        elif found := CODE_DIRECTIVE.match(line):
            yield from _convert_code(reader, len(found[1]), found[2])
        elif line.rstrip().endswith("::") and not line.lstrip().startswith(".."):
            yield _convert_inline(line.rstrip()[:-1]) if line.strip() != "::" else ""
            yield from _convert_code(reader, len(line) - len(line.lstrip()), "")
        else:
            yield _convert_inline(line)


class _LookaheadLines:
    """Iterator over lines that can be peeked at."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._ahead: list[str] = []

    def next(self) -> str | None:
        return self._ahead.pop(0) if self._ahead else next(self._lines, None)

    def peek(self, offset: int = 0) -> str | None:
        while len(self._ahead) <= offset:
            line = next(self._lines, None)
            if line is None:
                return None
            self._ahead.append(line)
        return self._ahead[offset]

    def skip(self, count: int) -> None:
        for _ in range(count):
            self.next()


def _is_underline_of(rule: str, title: str) -> bool:
    return len(rule.rstrip()) >= min(len(title.rstrip()), 4)


def _convert_heading(title: str, style: str, styles: list[str]) -> str:
    if style not in styles:
        styles.append(style)
    return f"{'#' * min(6, styles.index(style) + 1)} {_convert_inline(title).strip()}"


def _convert_code(reader: _LookaheadLines, indent: int, language: str) -> Iterator[str]:
    """Yield the following block that is indented deeper than indent as fenced code."""
    block: list[str] = []
    while (line := reader.peek()) is not None and (not line.strip() or len(line) - len(line.lstrip()) > indent):
        reader.skip(1)
        if block or not DIRECTIVE_OPTION.match(line):
            block.append(line)
    while block and not block[-1].strip():
        block.pop()
    while block and not block[0].strip():
        block.pop(0)
    if block:
        margin = min(len(line) - len(line.lstrip()) for line in block if line.strip())
        yield from ("", f"```{language}", *(line[margin:] for line in block), "```", "")


def _convert_inline(line: str) -> str:
    return RST_LITERAL.sub(r"`\1`", RST_LINK.sub(_convert_link, RST_ROLE.sub(_convert_role, line)))


def _convert_role(role: re.Match[str]) -> str:
    before, words, target = role.groups()
    return f"{before}`{_strip_target(words) if target else words}`"


def _convert_link(link: re.Match[str]) -> str:
    return f"[{_strip_target(link[1])}]({link[2]})"


def _strip_target(words: str) -> str:
    return words.rstrip() or words[0]


Lines = Iterator[str]
TEX_HEADING = re.compile(r"\\(part|chapter|section|subsection|subsubsection|paragraph)\*?(?:\[[^\[\]]*+\])?\{")
TEX_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}
TEX_TITLE = re.compile(r"\\title\{")
TEX_COMMENT = re.compile(r"(?<!\\)%.*")
TITLE_SEARCH_LINES = 200


def extract(source: Source, doc_type: str) -> Extraction:
    converted = CONVERTERS[doc_type](read_lines(source))
    head = list(islice(converted, TITLE_SEARCH_LINES))
    facts = Facts(doc_type, title=find_first_heading("\n".join(head)))
    return Extraction(facts, to_pages(f"{line}\n" for line in chain(head, converted)))


def convert_asciidoc(lines: Lines) -> Lines:
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


def convert_org(lines: Lines) -> Lines:
    for line in lines:
        if found := re.match(r"(\*{1,6})\s++(?:(?:TODO|DONE)\s++)?(\S.*)$", line):
            yield f"{'#' * len(found[1])} {_strip_org_tags(found[2])}"
        elif found := re.match(r"(?i)\s*#\+title:\s*(.+)", line):
            yield f"# {found[1]}"
        elif found := re.match(r"(?i)\s*#\+begin_(?:src|example)\s*(\S*)", line):
            yield f"```{found[1]}"
        elif re.match(r"(?i)\s*#\+end_(?:src|example)", line):
            yield "```"
        elif not re.match(r"(?i)\s*(#\+\w+:|:PROPERTIES:|:END:|:ID:)", line):
            yield line


def _strip_org_tags(heading: str) -> str:
    """Remove the tags at the end of an Org heading, as in `Prices :tea:coffee:`."""
    words, *tags = heading.rsplit(None, 1)
    has_tags = bool(tags) and heading.endswith(tags[0]) and re.fullmatch(r":[\w@:]+:", tags[0]) is not None
    return words if has_tags else heading


def convert_tex(lines: Lines) -> Lines:
    for line in lines:
        line = TEX_COMMENT.sub("", line)
        if (found := TEX_TITLE.search(line)) and (words := _read_braced(line, found.end())):
            yield f"# {words}"
        elif (found := TEX_HEADING.search(line)) and (words := _read_braced(line, found.end())):
            yield f"{'#' * TEX_LEVELS[found[1]]} {words}"
        elif not re.match(r"\s*\\(documentclass|usepackage|maketitle|begin\{document\}|end\{document\})", line):
            yield line


def _read_braced(line: str, start: int) -> str:
    """Return the text up to the closing brace, or "" if there is none."""
    end = line.find("}", start + 1)
    return line[start:end] if end > 0 else ""


CONVERTERS: dict[str, Callable[[Lines], Lines]] = {
    "rst": convert_rst,
    "adoc": convert_asciidoc,
    "org": convert_org,
    "tex": convert_tex,
}
