"""How a child hands its pages to the parent: length-prefixed JSON over a pipe, the text of a page behind it.

The child may have been taken over by the document it read, so the parent believes nothing: sizes are bounded and every
field is checked. That is also why this is JSON and not pickle.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from enum import Enum
from typing import cast

from knowledge import errors
from knowledge.extract.base import Facts, PageText
from knowledge.model import Json, Method

HEADER = struct.Struct("!cI")
LARGEST = 16 << 20


class Mark(Enum):
    SANDBOX = b"S"
    """Sent first: what of the sandbox is missing on this machine."""
    FACTS = b"F"
    PAGE = b"P"
    ERROR = b"E"
    END = b"X"


class BrokenFrame(Exception):
    """What came over the pipe was not written by our own code."""


def dump(mark: Mark, body: Json, text: str = "") -> bytes:
    """JSON never holds a line end, so the first one ends it; text goes as it is, because quoting it costs the most."""
    head, tail = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), text.encode()
    return b"".join((HEADER.pack(mark.value, len(head) + 1 + len(tail)), head, b"\n", tail))


class FrameReader:
    """Puts the pieces that a pipe yields together again."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[Mark, Json]]:
        self._buffer += piece
        while len(self._buffer) >= HEADER.size:
            mark, length = HEADER.unpack_from(self._buffer)
            if length > LARGEST:
                raise BrokenFrame("a frame is larger than any page")
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            frame = _read(mark, self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield frame


def _read(mark: bytes, payload: bytearray) -> tuple[Mark, Json]:
    try:
        end = payload.index(b"\n")
        body = json.loads(payload[:end])
        if not isinstance(body, dict):
            raise ValueError("not an object")
        return Mark(mark), cast(Json, body) | {"text": str(memoryview(payload)[end + 1 :], "utf-8")}
    except ValueError as error:
        raise BrokenFrame(str(error)) from error


def load_missing(body: Json) -> dict[str, str]:
    missing = body.get("missing")
    items = missing.items() if isinstance(missing, dict) else ()
    return {name: reason for name, reason in items if isinstance(reason, str)}


def dump_facts(facts: Facts) -> bytes:
    body: Json = {
        "doc_type": facts.doc_type,
        "title": facts.title,
        "author": facts.author,
        "language": facts.language,
        "page_count": facts.page_count,
        "tags": list(facts.tags),
        "metadata": facts.metadata,
    }
    return dump(Mark.FACTS, body)


def load_facts(body: Json) -> Facts:
    tags, metadata = body.get("tags"), body.get("metadata")
    return Facts(
        doc_type=_text(body, "doc_type") or "",
        title=_text(body, "title"),
        author=_text(body, "author"),
        language=_text(body, "language"),
        page_count=_number(body, "page_count"),
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def dump_page(page: PageText) -> bytes:
    body: Json = {"number": page.number, "method": page.method.value, "warning": page.warning}
    return dump(Mark.PAGE, body, page.text)


def load_page(body: Json) -> PageText:
    try:
        method = Method(_text(body, "method") or "")
    except ValueError as error:
        raise BrokenFrame(str(error)) from error
    return PageText(_text(body, "text") or "", _number(body, "number"), method, _text(body, "warning"))


def dump_error(error: errors.KnowledgeError) -> bytes:
    body: Json = {"code": error.code, "message": str(error), "hint": error.hint, "details": error.details}
    return dump(Mark.ERROR, body)


def load_error(body: Json) -> errors.KnowledgeError:
    kind = errors.BY_CODE.get(_text(body, "code") or "", errors.Damaged)
    details = body.get("details")
    facts = details if isinstance(details, dict) else {}
    facts = {key: value for key, value in facts.items() if key not in ("message", "hint")}
    return kind(_text(body, "message") or "It could not be read", hint=_text(body, "hint"), **facts)


def _text(body: Json, key: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise BrokenFrame(f"{key} is not a text")
    return value


def _number(body: Json, key: str) -> int | None:
    value = body.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise BrokenFrame(f"{key} is not a number")
    return value
