"""The groups of an RTF file: what each control word does to the text that follows it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from knowledge.extract.rtf.paragraphs import Paragraphs

CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 255: "cp850",
}  # fmt: skip
KNOWN = {"shpinst": "silent", "shptxt": "text", "footnote": "footnote", "annotation": "footnote", "listtext": "mark",
         "pntext": "mark", "header": "header", "headerl": "header", "headerr": "header", "headerf": "header",
         "footer": "footer", "footerl": "footer", "footerr": "footer", "footerf": "footer"}  # fmt: skip
READ = {"fonttbl": "fonts", "stylesheet": "styles", "info": "silent", "title": "title", "author": "author",
        "subject": "subject", "keywords": "keywords", "creatim": "created", "revtim": "modified"}  # fmt: skip
SILENT = {
    "colortbl", "pict", "objdata", "themedata", "datastore", "colorschememapping", "latentstyles", "listtable",
    "listoverridetable", "rsidtbl", "generator", "xmlnstbl", "mmathPr", "fldinst", "shprslt", "nonshppict",
    "shppict", "bkmkstart", "bkmkend", "nesttableprops", "nonesttables", "revtbl", "filetbl", "pnseclvl", "ftnsep",
    "ftnsepc", "aftnsep", "aftnsepc", "atnid", "atnauthor", "company", "operator", "doccomm", "category", "manager",
    "printim", "buptim", "datafield", "formfield", "objclass", "objname", "xe", "tc", "background", "sp",
}  # fmt: skip
CHARACTERS = {
    "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
    "emspace": " ", "enspace": " ", "tab": "\t", "line": "\n",
}  # fmt: skip
SYMBOLS = {"~": "\u00a0", "_": "-", "-": "", "{": "{", "}": "}", "\\": "\\"}
EDGES, ENDS = ("header", "footer"), ("par", "cell", "row", "sect")
FACTS, DATES = ("title", "author", "subject", "keywords"), ("created", "modified")
SPEAKING = {"shptxt", "creatim", "revtim", *FACTS}
"""What is heard inside a destination that is silent itself."""
TITLE = re.compile(r"(?i)^(?:title|titel|titre|título|titolo);")
HEADING = re.compile(r"(?i)(?:heading|überschrift|titre|título|titolo|kop|rubrik)\s*(\d)")


@dataclass(frozen=True, slots=True)
class State:
    """What a group inherits and forgets when it closes."""

    destination: str = "text"
    encoding: str = "cp1252"
    skip: int = 1
    """How many characters stand after each Unicode one, for readers that do not know it."""
    hidden: bool = False


class Groups:
    def __init__(self) -> None:
        self.paragraphs = Paragraphs()
        self.info: dict[str, str] = {}
        self._states = [State()]
        self._bytes = bytearray()
        self._ignorable = False
        self._skip = 0
        self._default = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._style = 0
        self._gathered = ""

    @property
    def depth(self) -> int:
        return len(self._states)

    @property
    def _state(self) -> State:
        return self._states[-1]

    def _change(self, **values: object) -> None:
        self._states[-1] = replace(self._state, **values)  # type: ignore[arg-type]

    def open(self) -> None:
        self.flush()
        self._states.append(self._state)
        self._skip = 0

    def close(self) -> None:
        self.flush()
        if len(self._states) == 1:
            return
        ended = self._states.pop()
        if ended.destination != self._state.destination:
            self._ended(ended.destination)

    def _ended(self, destination: str) -> None:
        text = self._gathered.strip()
        if destination == "footnote" and self._state.destination != "silent":
            self.paragraphs.note(text)
        elif destination == "mark":
            self.paragraphs.mark(text)
        elif destination in EDGES:
            self.paragraphs.edge(destination, text)
        elif destination in DATES:
            self.info |= {destination: date} if (date := _date(text)) else {}
        elif destination in FACTS and text:
            self.info.setdefault(destination, text)
        if destination not in ("text", "silent"):
            self._gathered = ""

    def word(self, word: str, number: int | None) -> None:
        self.flush()
        ignorable, self._ignorable = self._ignorable, False
        if word == "u":
            self._unicode(number or 0)
        elif word in KNOWN or word in READ or word in SILENT:
            self._enter(word)
        elif ignorable:
            self._change(destination="silent")
        elif word in CHARACTERS:
            self._write(CHARACTERS[word])
        else:
            self._format(word, number)

    def _enter(self, word: str) -> None:
        """A destination; inside one that is silent only a text box speaks again."""
        if self._state.destination == "silent" and word not in SPEAKING:
            return
        self._change(destination=KNOWN.get(word) or READ.get(word) or "silent")
        if self._state.destination not in ("text", "silent"):
            self._gathered = ""

    def _format(self, word: str, number: int | None) -> None:
        if word == "ansicpg" and number:
            self._default = f"cp{number}"
            self._change(encoding=self._default)
        elif word == "f":
            self._font = number or 0
            self._change(encoding=self._fonts.get(self._font, self._default))
        elif word == "fcharset" and self._state.destination == "fonts":
            self._fonts[self._font] = CHARSETS.get(number or 0, self._default) if number else self._default
        elif word == "uc":
            self._change(skip=max(0, number if number is not None else 1))
        elif word in ("v", "deleted"):
            self._change(hidden=number != 0)
        elif word == "plain":
            self._change(hidden=False)
        elif self._state.destination in DATES:
            self._gathered += f"{number or 0:02d} "
        elif word in ("s", "sbasedon") and self._state.destination == "styles":
            self._in_style(word, number or 0)
        elif word in ENDS and self._state.destination in ("footnote", *EDGES):
            self._gathered += " "
        elif self._state.destination == "text":
            self.paragraphs.word(word, number)

    def _in_style(self, word: str, number: int) -> None:
        """Its own number, or that of the style it is made from, which may be a heading."""
        if word == "s":
            self._style = number
        elif number in self.paragraphs.headings:
            self.paragraphs.headings.setdefault(self._style, self.paragraphs.headings[number])

    def _unicode(self, number: int) -> None:
        self._write(chr(number & 0xFFFF))
        self._skip = self._state.skip

    def byte(self, value: int) -> None:
        if self._skip:
            self._skip -= 1
        else:
            self._bytes.append(value)

    def symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._ignorable = True
        elif symbol in "\r\n":
            self.flush()
            self.paragraphs.word("par", None)
        elif symbol in SYMBOLS:
            self.plain(SYMBOLS[symbol])

    def plain(self, text: str) -> None:
        skipped = min(self._skip, len(text))
        self._skip -= skipped
        self._bytes += text[skipped:].encode("latin-1", errors="replace")

    def flush(self) -> None:
        """Bytes gather until something else comes, because a character may be made of two."""
        if self._bytes:
            data = bytes(self._bytes)
            self._bytes.clear()
            self._write(_decode(data, self._state.encoding))

    def _write(self, text: str) -> None:
        state = self._state
        if state.hidden or state.destination == "silent":
            return
        if state.destination == "text":
            self.paragraphs.write(text)
        elif state.destination == "styles":
            if found := HEADING.search(text):
                self.paragraphs.headings[self._style] = int(found[1])
            elif TITLE.match(text.strip()):
                self.paragraphs.headings[self._style] = 1
        elif state.destination != "fonts":
            self._gathered += text


def _date(numbers: str) -> str | None:
    """Year, month, day, hour and minute, as they stand in the file."""
    parts = [*numbers.split(), "00", "00"]
    if len(parts) < 5 or int(parts[0]) < 1980:
        return None
    return f"{parts[0]}-{parts[1]}-{parts[2]}T{parts[3]}:{parts[4]}:00"


def _decode(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding, errors="replace")
    except LookupError:
        return data.decode("cp1252", errors="replace")
