"""Mail: who wrote to whom and when, the best of its bodies, and what is attached."""

from __future__ import annotations

import email
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import cast

from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.charset import decode
from knowledge.extract.mail.attachments import Attachment, attachment_pages
from knowledge.extract.text.plain import pages
from knowledge.extract.web.html import fragment_markdown
from knowledge.model import Json

HEADERS = ("From", "To", "Cc", "Date")
STUB = 200
"""Characters: a plain text below this may only say that the mail is in HTML."""


def extract(source: Source, doc_type: str) -> Extracted:
    message = read(source.read())
    return Extracted(_facts(message, doc_type), _pages(message, source))


def read(data: bytes) -> EmailMessage:
    if data.startswith(b"From "):  # the line with which a mailbox opens each of its mails
        data = data.partition(b"\n")[2]
    return email.message_from_bytes(data, policy=policy.default)


def _facts(message: EmailMessage, doc_type: str) -> Facts:
    metadata: Json = {}
    for name in ("To", "Cc"):
        if value := header(message, name):
            metadata[name.lower()] = value
    if date := sent(header(message, "Date")):
        metadata["created"] = date
    return Facts(doc_type, title=header(message, "Subject"), author=header(message, "From"), metadata=metadata)


def sent(value: str | None) -> str | None:
    try:
        return parsedate_to_datetime(value).isoformat() if value else None
    except (ValueError, TypeError):
        return None


def header(message: EmailMessage, name: str) -> str | None:
    try:
        value = message.get(name)
        return " ".join(str(value).split()) or None if value is not None else None
    except (ValueError, IndexError, AttributeError, TypeError):  # the parser of headers trips over some broken ones
        return None


def _pages(message: EmailMessage, source: Source) -> Iterator[PageText]:
    yield from pages([letter(message)])
    yield from attachment_pages(list(_attachments(message)), source)


def letter(message: EmailMessage) -> str:
    """A mail without its attachments: subject, headers, body."""
    values = {name: header(message, name) for name in HEADERS}
    lines = [f"{name}: {value}" for name, value in values.items() if value]
    subject = header(message, "Subject")
    return f"# {subject}\n\n" * bool(subject) + "\n".join(lines) + "\n\n" + body(message) + "\n\n"


def body(message: EmailMessage) -> str:
    """The plain text, unless it only says that there is HTML; and whatever else is to be read in its place."""
    chosen = {kind: message.get_body((kind,)) for kind in ("plain", "html")}
    texts = {kind: _text(part, kind).strip() if part is not None else "" for kind, part in chosen.items()}
    best = "html" if len(texts["plain"]) < STUB and len(texts["html"]) > 4 * len(texts["plain"]) else "plain"
    further = (_text(part, part.get_content_subtype()).strip() for part in _further(message, list(chosen.values())))
    return "\n\n".join(text for text in (texts[best], *further) if text)


def _further(message: EmailMessage, known: list[object]) -> Iterator[EmailMessage]:
    """Texts that stand beside the body, as programs make them that cut a mail into parts."""
    if message.get_content_type() != "multipart/mixed":
        return
    for part in cast(Iterator[EmailMessage], message.iter_parts()):
        named = part.get_filename() or part.get_content_disposition() == "attachment"
        if part.get_content_type() in ("text/plain", "text/html") and not named and part not in known:
            yield part


def _text(part: object, kind: str) -> str:
    payload = cast(EmailMessage, part).get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    declared = cast(EmailMessage, part).get_content_charset()
    try:
        text = data.decode(declared) if declared else decode(data)
    except (LookupError, UnicodeDecodeError):
        text = decode(data)
    return fragment_markdown(text) if kind == "html" else text


def _attachments(message: EmailMessage) -> Iterator[Attachment]:
    for part in _parts(message):
        if part.get_content_type() == "message/rfc822":
            inner = part.get_payload(0) if part.is_multipart() else None
            if isinstance(inner, EmailMessage):
                yield Attachment(f"{header(inner, 'Subject') or 'mail'}.eml", inner.as_bytes())
        elif part.get_filename() or part.get_content_disposition() == "attachment":
            payload = part.get_payload(decode=True)
            if isinstance(payload, bytes) and payload:
                yield Attachment(part.get_filename() or "attachment", payload)


def _parts(message: EmailMessage) -> Iterator[EmailMessage]:
    """Every part but those inside a mail that is itself attached."""
    if message.get_content_type() == "message/rfc822" or not message.is_multipart():
        yield message
    else:
        for part in cast(list[EmailMessage], message.get_payload()):
            yield from _parts(part)
