"""Word documents as Markdown; hidden and deleted text of Word 97 to 2003 is left out."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import replace

import olefile

from knowledge.extract.base import Extraction, Source
from knowledge.extract.office import docx_repairs
from knowledge.extract.office.document import open_office_document, read_office_facts
from knowledge.extract.text.markdown import find_first_heading, replace_images
from knowledge.extract.text.plain import to_pages

EMPTY_HEADING = re.compile(r"\n#{1,6}[ \t*_]*(?=\n)")
RAISED_TAG = re.compile(r"</?(?:sup|sub|u)>")
RAISED_END_TAGS = ("</sup>", "</sub>", "</u>")
NESTED_TABLE_RULE = re.compile(r"<br>\|(?: --- \|)+")
"""Below the header of a table that stands in a cell of another."""
LINK = re.compile(r"\[([^\]\[]+)\]\([^()\s]*\)")

TEXT_STREAM = "WordDocument"
TABLE_STREAMS = ("0Table", "1Table")
FLAGS_OFFSET, FORMATS_OFFSET, PIECES_OFFSET = 0x0A, 0xFA, 0x1A2
"""Where the head of the text says which table stream is in use, and where the two lists lie in that stream."""
SECOND_TABLE_FLAG = 0x0200
DELETED_PROPERTY, HIDDEN_PROPERTY = 0x0800, 0x083C
OPERAND_BYTES = (1, 1, 2, 4, 2, 2, None, 3)
"""Bytes behind a property, by the last three bits of its name; None where the next byte says how many."""
PAGE_BYTES = 512
FILLER = "\x1f"
"""What stands in place of an unseen letter, so that no other letter moves; nobody writes it."""
ByteRange = tuple[int, int]


def extract(source: Source, doc_type: str) -> Extraction:
    modern = doc_type == "docx"
    with open_office_document(
        docx_repairs.repair_docx(source) if modern else blank_hidden_text(source), doc_type
    ) as document:
        text = _tidy_markdown(document.to_markdown())
    if modern:
        text = docx_repairs.mark_headings(source, text)
    facts = read_office_facts(source, doc_type)
    return Extraction(replace(facts, title=facts.title or find_first_heading(text)), to_pages([text]))


def _tidy_markdown(text: str) -> str:
    """Links keep their words only, pictures their description, and headings without words go."""
    if "<br>" in text:  # each is looked for first, because a long text without any is the rule
        text = NESTED_TABLE_RULE.sub("", text).replace("<br>", " ")
    if any(mark in text for mark in RAISED_END_TAGS):
        text = RAISED_TAG.sub("", text)
    if "](" in text:
        text = LINK.sub(_unwrap_link, replace_images(text))
    text = EMPTY_HEADING.sub("", text)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text


def _unwrap_link(link: re.Match[str]) -> str:
    """Its words; brackets that the author wrote have a backslash before them and stay."""
    return link[0] if link[1].endswith("\\") else link[1]


def blank_hidden_text(source: Source) -> Source:
    """The document with its unseen words struck out, or as it is where it has none."""
    try:
        data = bytearray(source.read())
        with olefile.OleFileIO(io.BytesIO(data)) as container:
            text = container.openstream(TEXT_STREAM).read()
            table = container.openstream(
                TABLE_STREAMS[bool(_read_number(text, FLAGS_OFFSET, "<H") & SECOND_TABLE_FLAG)]
            ).read()
        struck = _overwrite_hidden_text(text, table)
        return replace(source, content=_write_text_stream(data, struck)) if struck != text else source
    except (OSError, ValueError, IndexError, struct.error):  # office-oxide says what is wrong with it
        return source


def _overwrite_hidden_text(text: bytes, table: bytes) -> bytes:
    struck = bytearray(text)
    pieces = list(_read_pieces(_read_list(text, table, PIECES_OFFSET)))
    for start, end in _find_hidden_ranges(text, _read_list(text, table, FORMATS_OFFSET)):
        for first, last, width in pieces:
            for place in range(max(start, first), min(end, last), width):
                if any(text[place + 1 : place + width]) or text[place] >= ord(" "):
                    struck[place : place + width] = FILLER.encode("utf-16-le")[:width]
    return bytes(struck)


def _write_text_stream(data: bytearray, struck: bytes) -> bytes:
    file = io.BytesIO(data)
    with olefile.OleFileIO(file, write_mode=True) as container:
        container.write_stream(TEXT_STREAM, struck)
        return file.getvalue()


def _read_list(text: bytes, table: bytes, place: int) -> bytes:
    start, length = struct.unpack_from("<II", text, place)
    return table[start : start + length]


def _read_pieces(listed: bytes) -> Iterator[tuple[int, int, int]]:
    """Where text lies: its first byte, the one behind its last, and how many bytes each letter takes."""
    place = 0
    while listed[place] == 1:
        place += 3 + _read_number(listed, place + 1, "<H")
    count = (_read_number(listed, place + 1, "<I") - 4) // 12
    letters = struct.unpack_from(f"<{count + 1}I", listed, place + 5)
    for number in range(count):
        start = _read_number(listed, place + 5 + 4 * (count + 1) + 8 * number + 2, "<I")
        narrow, length = bool(start & 1 << 30), letters[number + 1] - letters[number]
        start = (start & ~(1 << 30)) // 2 if narrow else start
        yield start, start + length * (1 if narrow else 2), 1 if narrow else 2


def _find_hidden_ranges(text: bytes, listed: bytes) -> Iterator[ByteRange]:
    count = (len(listed) - 4) // 8
    for number in struct.unpack_from(f"<{count}I", listed, 4 * (count + 1)):
        page = text[PAGE_BYTES * (number & 0x3FFFFF) :][:PAGE_BYTES]
        runs = page[PAGE_BYTES - 1]
        borders = struct.unpack_from(f"<{runs + 1}I", page)
        for run in range(runs):
            place = 2 * page[4 * (runs + 1) + run]
            if place and _has_hidden_property(page[place + 1 : place + 1 + page[place]]):
                yield borders[run], borders[run + 1]


def _has_hidden_property(properties: bytes) -> bool:
    place = 0
    while place + 3 <= len(properties):
        name = _read_number(properties, place, "<H")
        if name in (DELETED_PROPERTY, HIDDEN_PROPERTY) and properties[place + 2] & 1:
            return True
        size = OPERAND_BYTES[name >> 13]
        place += 2 + (size if size is not None else 1 + properties[place + 2])
    return False


def _read_number(data: bytes, place: int, form: str) -> int:
    value: int = struct.unpack_from(form, data, place)[0]
    return value
