"""Mail (EML): headers, the best body, and the attachments."""

from __future__ import annotations

import email
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import cast

from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.charset import decode_text
from knowledge.extract.mail.attachments import Attachment, read_attachments
from knowledge.extract.text.plain import to_pages
from knowledge.extract.web.html import convert_fragment
from knowledge.model import Json

SHOWN_HEADERS = ("From", "To", "Cc", "Date")
MAX_STUB_CHARS = 200
"""Plain text bodies below this length can be a mere hint that the mail is HTML."""


def extract(source: Source, doc_type: str) -> Extraction:
    message = parse_message(source.read())
    return Extraction(_read_facts(message, doc_type), _read_pages(message, source))


def parse_message(data: bytes) -> EmailMessage:
    if data.startswith(b"From "):  # separator line of the mbox format
        data = data.partition(b"\n")[2]
    return email.message_from_bytes(data, policy=policy.default)


def _read_facts(message: EmailMessage, doc_type: str) -> Facts:
    metadata: Json = {}
    for name in ("To", "Cc"):
        if value := read_header(message, name):
            metadata[name.lower()] = value
    if date := parse_date(read_header(message, "Date")):
        metadata["created"] = date
    return Facts(
        doc_type, title=read_header(message, "Subject"), author=read_header(message, "From"), metadata=metadata
    )


def parse_date(value: str | None) -> str | None:
    try:
        return parsedate_to_datetime(value).isoformat() if value else None
    except (ValueError, TypeError):
        return None


def read_header(message: EmailMessage, name: str) -> str | None:
    try:
        value = message.get(name)
        return " ".join(str(value).split()) or None if value is not None else None
    except (ValueError, IndexError, AttributeError, TypeError):  # email raises these for some malformed headers
        return None


def _read_pages(message: EmailMessage, source: Source) -> Iterator[PageText]:
    yield from to_pages([render_message(message)])
    yield from read_attachments(list(_list_attachments(message)), source)


def render_message(message: EmailMessage) -> str:
    """Render subject, headers and body, without attachments."""
    values = {name: read_header(message, name) for name in SHOWN_HEADERS}
    lines = [f"{name}: {value}" for name, value in values.items() if value]
    subject = read_header(message, "Subject")
    return f"# {subject}\n\n" * bool(subject) + "\n".join(lines) + "\n\n" + render_body(message) + "\n\n"


def render_body(message: EmailMessage) -> str:
    """Render the plain text, or the HTML if the plain text is a stub, followed by further inline texts."""
    chosen = {kind: message.get_body((kind,)) for kind in ("plain", "html")}
    texts = {kind: _decode_part(part, kind).strip() if part is not None else "" for kind, part in chosen.items()}
    best = "html" if len(texts["plain"]) < MAX_STUB_CHARS and len(texts["html"]) > 4 * len(texts["plain"]) else "plain"
    further = (
        _decode_part(part, part.get_content_subtype()).strip()
        for part in _find_further_texts(message, list(chosen.values()))
    )
    return "\n\n".join(text for text in (texts[best], *further) if text)


def _find_further_texts(message: EmailMessage, known: list[object]) -> Iterator[EmailMessage]:
    """Yield unnamed text parts beside the body, as some mail programs and list servers create them."""
    if message.get_content_type() != "multipart/mixed":
        return
    for part in cast(Iterator[EmailMessage], message.iter_parts()):
        named = part.get_filename() or part.get_content_disposition() == "attachment"
        if part.get_content_type() in ("text/plain", "text/html") and not named and part not in known:
            yield part


def _decode_part(part: object, kind: str) -> str:
    payload = cast(EmailMessage, part).get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    declared = cast(EmailMessage, part).get_content_charset()
    try:
        text = data.decode(declared) if declared else decode_text(data)
    except (LookupError, UnicodeDecodeError):
        text = decode_text(data)
    return convert_fragment(text) if kind == "html" else text


def _list_attachments(message: EmailMessage) -> Iterator[Attachment]:
    for part in _walk_parts(message):
        if part.get_content_type() == "message/rfc822":
            inner = part.get_payload(0) if part.is_multipart() else None
            if isinstance(inner, EmailMessage):
                yield Attachment(f"{read_header(inner, 'Subject') or 'mail'}.eml", inner.as_bytes())
        elif part.get_filename() or part.get_content_disposition() == "attachment":
            payload = part.get_payload(decode=True)
            if isinstance(payload, bytes) and payload:
                yield Attachment(part.get_filename() or "attachment", payload)


def _walk_parts(message: EmailMessage) -> Iterator[EmailMessage]:
    """Yield all leaf parts, without those of an attached mail."""
    if message.get_content_type() == "message/rfc822" or not message.is_multipart():
        yield message
    else:
        for part in cast(list[EmailMessage], message.get_payload()):
            yield from _walk_parts(part)
