"""Rich Text Format: headings, lists, tables and footnotes, in whatever code pages its fonts ask for."""

from __future__ import annotations

import re

from knowledge import errors
from knowledge.extract.base import Extracted, Facts, Source
from knowledge.extract.rtf.groups import Groups
from knowledge.extract.text.plain import pages
from knowledge.model import Json

TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|([^\\{}\r\n\0]+)|[\r\n\0]+|\\"
)
DEEPEST = 500


def extract(source: Source, doc_type: str) -> Extracted:
    groups = read(source.read().decode("latin-1"))
    info = groups.info
    metadata: Json = {name: info[name] for name in ("subject", "keywords", "created", "modified") if name in info}
    facts = Facts(doc_type, title=info.get("title"), author=info.get("author"), metadata=metadata)
    return Extracted(facts, pages(f"{block}\n\n" for block in groups.paragraphs.finished()))


def read(text: str) -> Groups:
    groups = Groups()
    position = 0
    while (found := TOKEN.match(text, position)) is not None:
        position = found.end()
        word, number, code, symbol, brace, plain = found.groups()
        if brace == "{":
            if groups.depth > DEEPEST:
                raise errors.Damaged("Its groups are nested deeper than any document needs")
            groups.open()
        elif brace == "}":
            groups.close()
        elif word == "bin":  # so many raw bytes follow
            position += max(0, int(number or 0))
        elif word:
            groups.word(word, int(number) if number is not None else None)
        elif code:
            groups.byte(int(code, 16))
        elif symbol:
            groups.symbol(symbol)
        elif plain:
            groups.plain(plain)
    groups.flush()
    return groups
