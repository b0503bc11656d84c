"""The frames that a child sends to its parent: length-prefixed, each a line of JSON followed by text or bytes.

A malicious document may have taken over the child, so the parent limits all sizes and validates every field. For the
same reason the format is JSON and not pickle.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from typing import cast

from knowledge import errors
from knowledge.error_codes import ERRORS_BY_CODE
from knowledge.extract.base import Facts, PageText
from knowledge.model import ExtractionMethod, Json

HEADER = struct.Struct("!cI")
MAX_FRAME_BYTES = 4 << 20
MAX_HEAD_BYTES = 1 << 20
"""Smaller than a frame, because parsed JSON takes up to twenty times the memory of its text."""
MAX_WARNING_CHARS = 2000


class FrameKind(Enum):
    SANDBOX = b"C"
    """The first frame: protections that this machine lacks."""
    FACTS = b"F"
    PAGE = b"P"
    PIECE = b"S"
    """A chunk of the document."""
    WORDS = b"W"
    """The packed words of a page that OCR has read."""
    MEMBER = b"M"
    """The name of a file in an archive; DATA frames follow."""
    DATA = b"D"
    DAMAGED = b"B"
    """The current member is damaged; the next one may be readable."""
    ANSWER = b"A"
    LINES = b"L"
    ERROR = b"E"
    END = b"X"


PROGRESS_KINDS = (FrameKind.PAGE, FrameKind.MEMBER)
"""Frames that extend the time limit."""


class BrokenFrame(Exception):
    """Invalid data from a child."""


@dataclass(frozen=True, slots=True)
class Payload:
    head: Json
    data: bytes

    @property
    def text(self) -> str:
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise BrokenFrame(str(error)) from error


def dump_frame(kind: FrameKind, body: Json, text: str = "") -> bytes:
    # text follows the JSON unquoted, because quoting is the most expensive part; JSON itself has no line end
    return dump_bytes_frame(kind, body, text.encode())


def dump_bytes_frame(kind: FrameKind, body: Json, data: bytes) -> bytes:
    head = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return b"".join((HEADER.pack(kind.value, len(head) + 1 + len(data)), head, b"\n", data))


def is_progress(frame: bytes) -> bool:
    return FrameKind(frame[:1]) in PROGRESS_KINDS


class FrameDecoder:
    """Decodes frames from an untrusted child."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add_bytes(self, piece: bytes) -> None:
        self._buffer += piece

    def take_frame(self) -> tuple[FrameKind, Payload] | None:
        """Return the next complete frame, or None."""
        if len(self._buffer) < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(self._buffer)
        if length > MAX_FRAME_BYTES:
            raise BrokenFrame(f"a frame of {length} bytes exceeds {MAX_FRAME_BYTES}")
        end = HEADER.size + length
        if len(self._buffer) < end:
            return None
        frame = _parse_frame(kind, bytes(memoryview(self._buffer)[HEADER.size : end]))
        del self._buffer[:end]
        return frame

    def decode_frames(self, piece: bytes) -> Iterator[tuple[FrameKind, Payload]]:
        self.add_bytes(piece)
        while (frame := self.take_frame()) is not None:
            yield frame


def _parse_frame(kind: bytes, payload: bytes) -> tuple[FrameKind, Payload]:
    try:
        end = payload.index(b"\n", 0, MAX_HEAD_BYTES + 1)
        body = json.loads(payload[:end])
        if not isinstance(body, dict):
            raise ValueError("not an object")
        return FrameKind(kind), Payload(cast(Json, body), payload[end + 1 :])
    except (ValueError, RecursionError) as error:
        raise BrokenFrame(str(error)) from error


def load_missing_protections(payload: Payload) -> dict[str, str]:
    missing = payload.head.get("missing")
    items = missing.items() if isinstance(missing, dict) else ()
    return {name: reason for name, reason in items if isinstance(reason, str)}


def dump_facts(facts: Facts) -> bytes:
    body: Json = {each.name: getattr(facts, each.name) for each in fields(facts)}
    frame = dump_frame(FrameKind.FACTS, body)
    return frame if len(frame) <= MAX_HEAD_BYTES else dump_frame(FrameKind.FACTS, body | {"metadata": {}})


def load_facts(payload: Payload) -> Facts:
    body = payload.head
    tags, metadata = body.get("tags"), body.get("metadata")
    return Facts(
        doc_type=read_text_field(body, "doc_type") or "",
        title=read_text_field(body, "title"),
        author=read_text_field(body, "author"),
        language=read_text_field(body, "language"),
        page_count=read_number_field(body, "page_count"),
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def dump_page(page: PageText) -> bytes:
    return dump_frame(FrameKind.PAGE, build_page_head(page), page.text)


def build_page_head(page: PageText) -> Json:
    warning = page.warning[:MAX_WARNING_CHARS] if page.warning else None
    return {"number": page.number, "method": page.method.value, "warning": warning}


def load_page(payload: Payload) -> PageText:
    body = payload.head
    try:
        method = ExtractionMethod(read_text_field(body, "method") or "")
    except ValueError as error:
        raise BrokenFrame(str(error)) from error
    return PageText(
        payload.text, read_number_field(body, "number"), method, read_text_field(body, "warning", MAX_WARNING_CHARS)
    )


def dump_error(error: errors.KnowledgeError) -> bytes:
    body: Json = {"code": error.code, "message": str(error)[:2000], "hint": error.hint, "details": error.details}
    frame = dump_frame(FrameKind.ERROR, body)
    return frame if len(frame) <= MAX_HEAD_BYTES else dump_frame(FrameKind.ERROR, body | {"details": {}})


def load_error(payload: Payload) -> errors.KnowledgeError:
    body = payload.head
    kind = ERRORS_BY_CODE.get(read_text_field(body, "code") or "", errors.Damaged)
    details = body.get("details")
    facts = details if isinstance(details, dict) else {}
    facts = {key: value for key, value in facts.items() if key not in ("message", "hint")}
    return kind(read_text_field(body, "message") or "The parser failed", hint=read_text_field(body, "hint"), **facts)


def read_text_field(body: Json, key: str, max_chars: int = MAX_HEAD_BYTES) -> str | None:
    value = body.get(key)
    if value is not None and (not isinstance(value, str) or len(value) > max_chars):
        raise BrokenFrame(f"{key} is not a text of at most {max_chars} characters")
    return value


def read_number_field(body: Json, key: str) -> int | None:
    value = body.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 53):
        raise BrokenFrame(f"{key} is not a number")
    return value


def read_flag_field(body: Json, key: str) -> bool:
    value = body.get(key)
    if not isinstance(value, bool):
        raise BrokenFrame(f"{key} is neither true nor false")
    return value
