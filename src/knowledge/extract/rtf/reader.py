"""Rich Text Format: headings, lists, tables and footnotes, decoded by the code pages of the fonts.

Why this is not striprtf: docs/decisions/0015.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from knowledge import errors
from knowledge.extract import markdown_tables
from knowledge.extract.base import Extraction, Facts, Source
from knowledge.extract.text.plain import to_pages
from knowledge.model import Json

FONT_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 255: "cp850",
}  # fmt: skip
TEXT_DESTINATIONS = {
    "shpinst": "skipped",
    "shptxt": "text",
    "footnote": "footnote",
    "annotation": "footnote",
    "listtext": "mark",
    "pntext": "mark",
    "header": "header",
    "headerl": "header",
    "headerr": "header",
    "headerf": "header",
    "footer": "footer",
    "footerl": "footer",
    "footerr": "footer",
    "footerf": "footer",
}
INFO_DESTINATIONS = {
    "fonttbl": "fonts",
    "stylesheet": "styles",
    "info": "skipped",
    "title": "title",
    "author": "author",
    "subject": "subject",
    "keywords": "keywords",
    "creatim": "created",
    "revtim": "modified",
}
SKIPPED_DESTINATIONS = {
    "colortbl", "pict", "objdata", "themedata", "datastore", "colorschememapping", "latentstyles", "listtable",
    "listoverridetable", "rsidtbl", "generator", "xmlnstbl", "mmathPr", "fldinst", "shprslt", "nonshppict",
    "shppict", "bkmkstart", "bkmkend", "nesttableprops", "nonesttables", "revtbl", "filetbl", "pnseclvl", "ftnsep",
    "ftnsepc", "aftnsep", "aftnsepc", "atnid", "atnauthor", "company", "operator", "doccomm", "category", "manager",
    "printim", "buptim", "datafield", "formfield", "objclass", "objname", "xe", "tc", "background", "sp",
}  # fmt: skip
CHARACTER_WORDS = {
    "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
    "emspace": " ", "enspace": " ", "tab": "\t", "line": "\n",
}  # fmt: skip
SYMBOLS = {"~": "\u00a0", "_": "-", "-": "", "{": "{", "}": "}", "\\": "\\"}
EDGE_DESTINATIONS, PARAGRAPH_END_WORDS = ("header", "footer"), ("par", "cell", "row", "sect")
FACT_DESTINATIONS, DATE_DESTINATIONS = ("title", "author", "subject", "keywords"), ("created", "modified")
READ_INSIDE_SKIPPED = {"shptxt", "creatim", "revtim", *FACT_DESTINATIONS}
TITLE_STYLE = re.compile(r"(?i)^(?:title|titel|titre|título|titolo);")
HEADING_STYLE = re.compile(r"(?i)(?:heading|überschrift|titre|título|titolo|kop|rubrik)\s*(\d)")

TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|([^\\{}\r\n\0]+)|[\r\n\0]+|\\"
)
MAX_GROUP_DEPTH = 500

LIST_NUMBER = re.compile(r"\(?([0-9a-zA-Z]{1,4})[.)]")
BODY_TEXT_LEVEL = 9


@dataclass(frozen=True, slots=True)
class GroupState:
    """Formatting state that a group inherits and drops when it closes."""

    destination: str = "text"
    encoding: str = "cp1252"
    skip: int = 1
    """Value of \\uc: number of fallback characters after each \\u."""
    hidden: bool = False


class RtfInterpreter:
    def __init__(self) -> None:
        self.paragraphs = ParagraphBuilder()
        self.info: dict[str, str] = {}
        self._states = [GroupState()]
        self._bytes = bytearray()
        self._ignorable = False
        self._skip = 0
        self._default_encoding = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._style = 0
        self._destination_text = ""

    @property
    def depth(self) -> int:
        return len(self._states)

    @property
    def _state(self) -> GroupState:
        return self._states[-1]

    def _change_state(self, **values: object) -> None:
        self._states[-1] = replace(self._state, **values)  # type: ignore[arg-type]

    def open_group(self) -> None:
        self.flush()
        self._states.append(self._state)
        self._skip = 0

    def close_group(self) -> None:
        self.flush()
        if len(self._states) == 1:
            return
        ended = self._states.pop()
        if ended.destination != self._state.destination:
            self._end_destination(ended.destination)

    def _end_destination(self, destination: str) -> None:
        text = self._destination_text.strip()
        if destination == "footnote" and self._state.destination != "skipped":
            self.paragraphs.add_footnote(text)
        elif destination == "mark":
            self.paragraphs.set_list_mark(text)
        elif destination in EDGE_DESTINATIONS:
            self.paragraphs.add_page_edge(destination, text)
        elif destination in DATE_DESTINATIONS:
            self.info |= {destination: date} if (date := _format_date(text)) else {}
        elif destination in FACT_DESTINATIONS and text:
            self.info.setdefault(destination, text)
        if destination not in ("text", "skipped"):
            self._destination_text = ""

    def handle_word(self, word: str, number: int | None) -> None:
        self.flush()
        ignorable, self._ignorable = self._ignorable, False
        if word == "u":
            self._write_unicode(number or 0)
        elif word in TEXT_DESTINATIONS or word in INFO_DESTINATIONS or word in SKIPPED_DESTINATIONS:
            self._enter_destination(word)
        elif ignorable:
            self._change_state(destination="skipped")
        elif word in CHARACTER_WORDS:
            self._write_text(CHARACTER_WORDS[word])
        else:
            self._handle_formatting(word, number)

    def _enter_destination(self, word: str) -> None:
        """Switch to a destination; inside a skipped one, only those in READ_INSIDE_SKIPPED are entered."""
        if self._state.destination == "skipped" and word not in READ_INSIDE_SKIPPED:
            return
        self._change_state(destination=TEXT_DESTINATIONS.get(word) or INFO_DESTINATIONS.get(word) or "skipped")
        if self._state.destination not in ("text", "skipped"):
            self._destination_text = ""

    def _handle_formatting(self, word: str, number: int | None) -> None:
        if word == "ansicpg" and number:
            self._default_encoding = f"cp{number}"
            self._change_state(encoding=self._default_encoding)
        elif word == "f":
            self._font = number or 0
            self._change_state(encoding=self._fonts.get(self._font, self._default_encoding))
        elif word == "fcharset" and self._state.destination == "fonts":
            self._fonts[self._font] = (
                FONT_CHARSETS.get(number or 0, self._default_encoding) if number else self._default_encoding
            )
        elif word == "uc":
            self._change_state(skip=max(0, number if number is not None else 1))
        elif word in ("v", "deleted"):
            self._change_state(hidden=number != 0)
        elif word == "plain":
            self._change_state(hidden=False)
        elif self._state.destination in DATE_DESTINATIONS:
            self._destination_text += f"{number or 0:02d} "
        elif word in ("s", "sbasedon") and self._state.destination == "styles":
            self._define_style(word, number or 0)
        elif word in PARAGRAPH_END_WORDS and self._state.destination in ("footnote", *EDGE_DESTINATIONS):
            self._destination_text += " "
        elif self._state.destination == "text":
            self.paragraphs.handle_word(word, number)

    def _define_style(self, word: str, number: int) -> None:
        """Record the number of a style (\\s), or inherit the heading level of its base (\\sbasedon)."""
        if word == "s":
            self._style = number
        elif number in self.paragraphs.heading_levels:
            self.paragraphs.heading_levels.setdefault(self._style, self.paragraphs.heading_levels[number])

    def _write_unicode(self, number: int) -> None:
        self._write_text(chr(number & 0xFFFF))
        self._skip = self._state.skip

    def add_byte(self, value: int) -> None:
        if self._skip:
            self._skip -= 1
        else:
            self._bytes.append(value)

    def handle_symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._ignorable = True
        elif symbol in "\r\n":
            self.flush()
            self.paragraphs.handle_word("par", None)
        elif symbol in SYMBOLS:
            self.add_text(SYMBOLS[symbol])

    def add_text(self, text: str) -> None:
        skipped = min(self._skip, len(text))
        self._skip -= skipped
        self._bytes += text[skipped:].encode("latin-1", errors="replace")

    def flush(self) -> None:
        """Decode the collected bytes; they are collected because a character can take two."""
        if self._bytes:
            data = bytes(self._bytes)
            self._bytes.clear()
            self._write_text(_decode_bytes(data, self._state.encoding))

    def _write_text(self, text: str) -> None:
        state = self._state
        if state.hidden or state.destination == "skipped":
            return
        if state.destination == "text":
            self.paragraphs.add_text(text)
        elif state.destination == "styles":
            if found := HEADING_STYLE.search(text):
                self.paragraphs.heading_levels[self._style] = int(found[1])
            elif TITLE_STYLE.match(text.strip()):
                self.paragraphs.heading_levels[self._style] = 1
        elif state.destination != "fonts":
            self._destination_text += text


def _format_date(numbers: str) -> str | None:
    """Format year, month, day, hour and minute as an ISO 8601 date, or return None for a date before 1980."""
    parts = [*numbers.split(), "00", "00"]
    if len(parts) < 5 or int(parts[0]) < 1980:
        return None
    return f"{parts[0]}-{parts[1]}-{parts[2]}T{parts[3]}:{parts[4]}:00"


def _decode_bytes(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding, errors="replace")
    except LookupError:
        return data.decode("cp1252", errors="replace")


def extract(source: Source, doc_type: str) -> Extraction:
    document = parse_rtf(source.read().decode("latin-1"))
    info = document.info
    metadata: Json = {name: info[name] for name in ("subject", "keywords", "created", "modified") if name in info}
    facts = Facts(doc_type, title=info.get("title"), author=info.get("author"), metadata=metadata)
    return Extraction(facts, to_pages(f"{block}\n\n" for block in document.paragraphs.finish_blocks()))


def parse_rtf(text: str) -> RtfInterpreter:
    interpreter = RtfInterpreter()
    position = 0
    while (found := TOKEN.match(text, position)) is not None:
        position = found.end()
        word, number, code, symbol, brace, plain = found.groups()
        if brace == "{":
            if interpreter.depth > MAX_GROUP_DEPTH:
                raise errors.Damaged(f"RTF groups are nested deeper than {MAX_GROUP_DEPTH} levels")
            interpreter.open_group()
        elif brace == "}":
            interpreter.close_group()
        elif word == "bin":  # followed by that many raw bytes
            position += max(0, int(number or 0))
        elif word:
            interpreter.handle_word(word, int(number) if number is not None else None)
        elif code:
            interpreter.add_byte(int(code, 16))
        elif symbol:
            interpreter.handle_symbol(symbol)
        elif plain:
            interpreter.add_text(plain)
    interpreter.flush()
    return interpreter


class ParagraphBuilder:
    def __init__(self) -> None:
        self.heading_levels: dict[int, int] = {}
        """Heading level by style number."""
        self._page_edges: dict[tuple[str, str], None] = {}
        """Distinct page headers and footers in order; a dict as an ordered set."""
        self._blocks: list[str] = []
        self._text = ""
        self._mark = ""
        self._level = 0
        self._in_cell = False
        self._cells: list[str] = []
        self._rows: list[list[str]] = []

    def add_text(self, text: str) -> None:
        self._text += text

    def add_footnote(self, text: str) -> None:
        self._text += f" [{' '.join(text.split())}]" if text else ""

    def add_page_edge(self, name: str, text: str) -> None:
        if any(map(str.isalpha, text)):
            self._page_edges[name, " ".join(text.split())] = None

    def set_list_mark(self, text: str) -> None:
        """Set the marker of the current list item from its \\listtext: a number or a bullet."""
        found = LIST_NUMBER.match(text.strip())
        self._mark = f"{found[1]}. " if found else "- "

    def handle_word(self, word: str, number: int | None) -> None:
        if word in ("par", "sect", "page"):
            self._end_paragraph()
        elif word == "pard":
            self._level, self._in_cell = 0, False
        elif word == "intbl":
            self._in_cell = True
        elif word == "s":
            self._level = self.heading_levels.get(number or 0, 0)
        elif word == "outlinelevel" and number is not None and number < BODY_TEXT_LEVEL:
            self._level = number + 1
        elif word in ("cell", "nestcell"):
            self._cells.append(self._take_text())
        elif word == "row":
            self._rows.append(self._cells)
            self._cells = []

    def _take_text(self) -> str:
        text, self._text = self._mark + self._text.strip(), ""
        self._mark = ""
        return text

    def _end_paragraph(self) -> None:
        if self._cells or self._in_cell:  # a paragraph inside a cell
            self._text += " "
            return
        text = self._take_text()
        if not text.strip():
            return
        self._end_table()
        self._blocks.append(f"{'#' * min(6, self._level)} {' '.join(text.split())}" if self._level else text)

    def _end_table(self) -> None:
        if self._rows:
            self._blocks.append(markdown_tables.format_table(self._rows))
            self._rows = []

    def finish_blocks(self) -> Iterator[str]:
        self._cells, self._in_cell = [], False
        self._end_paragraph()
        self._end_table()
        yield from (text for name, text in self._page_edges if name == "header")
        yield from self._blocks
        yield from (text for name, text in self._page_edges if name == "footer")
