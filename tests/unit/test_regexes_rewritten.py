"""What was rewritten to be linear gives what the plain, slow regular expression for it gives."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from knowledge.config import RATE_LIMIT_PATTERN
from knowledge.extract import identify
from knowledge.extract.odf import reader as odf_sheets
from knowledge.extract.office.repairs import docx, workbooks
from knowledge.extract.pdf.repairs import titles, words
from knowledge.extract.text import markdown, markup
from knowledge.extract.web import html
from knowledge.split import blocks, cutter, passage
from knowledge.text import analyzer
from knowledge.toolsets.sage import page

TEXTS = 3_000
Reading = Callable[[str], object]


def replacing(pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> Reading:
    return lambda text: re.sub(pattern, replacement, text)


def groups(pattern: re.Pattern[str] | str, method: str) -> Reading:
    compiled = re.compile(pattern)

    def read(text: str) -> object:
        found = getattr(compiled, method)(text)
        if found is None or isinstance(found, list):
            return found
        return (found.span(), found.groups())

    return read


def slow_quotes(text: str) -> object:
    quoted = re.compile(r'"([^"]+)"|“([^”"]+)[”"]|„([^“”"]+)[“”"]|«([^»]+)»')
    return ["".join(found) for found in quoted.findall(text)], quoted.sub(" ", text)


def slow_heading(text: str) -> object:
    found = re.fullmatch(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*", text)
    title = blocks.strip_markup(found[2] or "") if found else ""
    return (found[1], title) if found and title else None


def heading(text: str) -> object:
    found = blocks._parse_heading(text)
    return None if found is None else ("#" * found.level, found.title)


def slow_first_heading(text: str) -> object:
    first = r"^#[ \t]+(.+?)[ \t]*#*$|^([^\n#>*`|=-][^\n]*)\n=+[ \t]*$"
    emphasis = r"[*`]|(?<!\w)_|_(?!\w)|!?\[([^\]]*)\]\([^)]*\)"
    found = re.search(first, text, re.MULTILINE)
    return re.sub(emphasis, lambda match: match[1] or "", found[1] or found[2]).strip() or None if found else None


def slow_org(text: str) -> object:
    found = re.match(r"(\*{1,6})\s+(?:TODO\s+|DONE\s+)?(\S.*?)(?:\s+:[\w@:]+:)?$", text)
    return [f"{'#' * len(found[1])} {found[2]}"] if found else list(markup.convert_org(iter([text])))


def slow_tex(text: str) -> object:
    if found := re.search(r"\\title\{(.+?)\}", text):
        return [f"# {found[1]}"]
    if found := re.search(r"\\(part|section)\*?(?:\[[^\[\]]*\])?\{(.+?)\}", text):
        return [f"{'#' * markup.TEX_LEVELS[found[1]]} {found[2]}"]
    return [text]


def slow_inline(text: str) -> object:
    text = re.sub(r":[\w:+-]+:`([^`<]+?)(?:\s*<[^`>]*>)?`", r"`\1`", text)
    text = re.sub(r"`([^`<]+?)\s*<([^`>]+)>`__?", r"[\1](\2)", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def slow_bare(text: str) -> object:
    numbering = r"^(?:[\s\d.:§)(-]+|(?:[IVXLC]+|[A-Z])[.)]\s+)|[\s.:]+$"
    return re.sub(numbering, "", text.replace("*", "")).strip().casefold()


def slow_reference(text: str) -> object:
    return re.sub(r"\[\.?([^\]]*)\]", lambda found: found[1].replace(":.", ":"), text)


def reference(text: str) -> object:
    return odf_sheets.CELL_REFERENCE.sub(lambda f: f[1].replace(":.", ":") if f[2] else f[0], text)


def slow_sounds(text: str) -> object:
    pattern = rb"<w:ruby>.*?<w:rubyBase>(.*?)</w:rubyBase>\s*</w:ruby>"
    return re.sub(pattern, rb"</w:r>\1<w:r>", text.encode(), flags=re.DOTALL)


def slow_markup(text: str) -> object:
    pattern = rb"(?i)(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--[^-]*-->\s*)*<(?:!doctype\s+)?(html|svg)\b"
    found = re.match(pattern, text.encode())
    return found and found[1]


def fast_markup(text: str) -> object:
    found = identify.MARKUP.match(head := text.encode(), identify._skip_comments(head))
    return found and found[1]


def slow_gaps(text: str) -> object:
    part, found = text.encode(), []
    for wide in re.finditer(rb'<w:gridSpan w:val="([1-9]\d{0,4})', part):
        depth = 1
        for border in re.finditer(rb"<w:tc[ >]|</w:tc>", part[wide.start() :]):
            depth += -1 if border[0] == b"</w:tc>" else 1
            if depth == 0:
                found.append((wide.start() + border.end(), min(63, int(wide[1])) - 1))
                break
    return sorted(found)


CELL = rb'<c ([^>]*?)s="(\d+)"([^>]*)>(<f[^>]*/>|<f[^>]*>[^<]*</f>)?<v>(-?[\d.]+(?:E-?\d+)?)</v></c>'
CASES: dict[str, tuple[Reading, Reading, tuple[str, ...]]] = {
    "tokens": (
        groups(analyzer._TOKEN.pattern.replace("{1,40}+", "+"), "findall"),
        groups(analyzer._TOKEN, "findall"),
        ("1", "000", ",", "12", "a", ".", "C++", " ", "x-y"),
    ),
    "quotes": (slow_quotes, analyzer.split_quoted, ('"', "“", "”", "„", "«", "»", "a", " b ")),
    "limits": (
        lambda text: bool(re.fullmatch(r"(?i)\s*[1-9]\d*\s*(/|\s*per\s)\s*([1-9]\d*\s*)?(second|minute)s?\s*", text)),
        lambda text: bool(RATE_LIMIT_PATTERN.fullmatch(text)),
        ("1", "20", " ", "/", "per ", "second", "minutes", "Per"),
    ),
    "titles of pages": (
        groups(r"(?m)^#[ \t]+(.+?)[ \t#]*$", "search"),
        groups(page.TITLE, "search"),
        ("#", "# ", " ", "a", "\t", "\n", "##"),
    ),
    "headings of pages": (
        groups(r"^##[ \t]+(.+?)[ \t#]*$", "match"),
        groups(page.HEADING, "match"),
        ("#", "## ", " ", "a", "\t", "##"),
    ),
    "anchors": (
        replacing(r"(?m)^(#{1,6} .*?)[ \u200b]*(?:[¶§🔗]|[ \u200b]#)?[ \u200b]*$", r"\1"),
        lambda text: html.HEADING_LINE.sub(html._strip_anchor, text),
        ("#", "# ", " ", "\u200b", "a", "¶", "§", "\n"),
    ),
    "markup": (
        slow_markup,
        fast_markup,
        ("<!-- a -->", "<!---->", "\n", " ", "<?xml a?>", "<html>", "<!DOCTYPE html>", "x", "<svg"),
    ),
    "first headings": (
        slow_first_heading,
        markdown.find_first_heading,
        ("# ", "#", "a", " ", "*", "_", "`", "[", "](", ")", "!", "\n", "=="),
    ),
    "images": (
        replacing(r"!\[([^\]]*)\]\([^)]*\)", r"\1"),
        markdown.replace_images,
        ("!", "[", "![", "]", "(", "](", ")", "a"),
    ),
    "TeX": (
        slow_tex,
        lambda text: list(markup.convert_tex(iter([text]))),
        ("\\title{", "\\section{", "\\part*", "[", "]", "{", "}", "a", " "),
    ),
    "Org": (
        slow_org,
        lambda text: list(markup.convert_org(iter([text]))),
        ("* ", "** ", "TODO", "DONE ", " ", "a", ":tag:", ":", "\t"),
    ),
    "references": (slow_reference, reference, ("[", ".", "]", "A1", ":.", "*")),
    "joined letters": (
        groups(r"[\w\x0b\x1b]*[\x0b\x1b][\w\x0b\x1b]*", "findall"),
        groups(words.WORD_WITH_LIGATURE, "findall"),
        ("a", "\x0b", "\x1b", " ", ".", "bc"),
    ),
    "bare titles": (slow_bare, titles.normalise_title, ("1", ".", " ", "IV", "A.", "a", ":", "B", ")", "*", "§")),
    "dashes": (
        groups(r"(\w{2,})([—–])\n(\w{2,})", "findall"),
        groups(words.DASHED_LINE_END, "findall"),
        ("a", "bc", "—\n", "–", "\n", " "),
    ),
    "inline markup": (
        slow_inline,
        markup._convert_inline,
        (":", "ref", ":ref:`", "`", "<", ">", "a", " ", ">`_", "`__", "+"),
    ),
    "number formats": (
        replacing(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', ""),
        lambda text: workbooks.LITERAL_PART.sub("", text),
        ('"', "\\", "[", "]", "h", "mm", "Red", "0"),
    ),
    "cells": (
        lambda text: re.findall(CELL, text.encode()),
        lambda text: workbooks.NUMBER_CELL.findall(text.encode()),
        ("<c ", 'r="A1" ', 's="3"', ">", "<f/>", "<f>A1</f>", '<f t="x">', "<v>", "1.5", "</v></c>", "E-2", "a"),
    ),
    "ruby": (
        slow_sounds,
        lambda text: docx.unwrap_ruby(text.encode()),
        ("<w:ruby>", "<w:rubyBase>", "</w:rubyBase>", "</w:ruby>", " ", "a", "</w:rubyBase></w:ruby>"),
    ),
    "wide cells": (
        slow_gaps,
        lambda text: sorted(docx._find_spans(text.encode())),
        ("<w:tc>", "</w:tc>", '<w:gridSpan w:val="2"/>', '<w:gridSpan w:val="3"/>', "a"),
    ),
    "words of Word": (
        lambda text: re.findall(rb"<w:t(?: [^>]*)?>([^<]*)</w:t>", text.encode()),
        lambda text: docx.RUN_TEXT.findall(text.encode()),
        ("<w:t>", '<w:t xml:space="preserve">', "a", "</w:t>", " ", "<w:r/>"),
    ),
    "headings": (slow_heading, heading, ("#", "# ", " ", "\t", "a", "##", "*", "C#")),
    "delimiters": (
        groups(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*", "fullmatch"),
        groups(blocks.TABLE_DELIMITER, "fullmatch"),
        ("|", "-", ":", " ", "\t", "---|"),
    ),
    "ends of sentences": (
        groups(r"[.!?…؟۔।]+[\"'”’)\]*_]*\s+(?![a-zß-ÿ])|[。！？]+[」』”）]*", "findall"),
        groups(cutter.TEXT_ENDS[1], "findall"),
        (".", "?", '"', ")", " ", "\n", "a", "B", "。", "」"),
    ),
    "ends of code": (
        lambda text: [found.span() for found in re.finditer(r"\n[ \t]*\n+(?=\S)", text)],
        lambda text: [found.span() for found in cutter.CODE_ENDS[0].finditer(text)],
        ("\n", " ", "\t", "a", "\n\n"),
    ),
    "hashes": (
        replacing(r"^#{1,6}\s+|\s+#+$", ""),
        lambda text: passage.HEADING_HASHES.sub("", text),
        ("#", " ", "\t", "a"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_linear_form_gives_what_the_plain_one_gives(name: str) -> None:
    slow, fast, parts = CASES[name]
    chance = random.Random(name)
    for _ in range(TEXTS):
        text = "".join(chance.choices(parts, k=chance.randint(1, 12)))
        assert fast(text) == slow(text), repr(text)
