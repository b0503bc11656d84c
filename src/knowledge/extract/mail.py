"""Mail: who wrote to whom and when, the best of its bodies, and what is attached."""

from __future__ import annotations

import email
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import cast

from knowledge.extract.attachments import Attachment, attachment_pages
from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.charset import decode
from knowledge.extract.html import fragment_markdown
from knowledge.extract.plain import pages
from knowledge.model import Json

HEADERS = ("From", "To", "Cc", "Date")


def extract(source: Source, doc_type: str) -> Extracted:
    data = source.read()
    if data.startswith(b"From "):  # the line with which a mailbox opens each of its mails
        data = data.partition(b"\n")[2]
    message = email.message_from_bytes(data, policy=policy.default)
    return Extracted(_facts(message, doc_type), _pages(message, source))


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
    values = {name: header(message, name) for name in HEADERS}
    lines = [f"{name}: {value}" for name, value in values.items() if value]
    subject = header(message, "Subject")
    yield from pages([*([f"# {subject}\n\n"] if subject else []), "\n".join(lines) + "\n\n", body(message) + "\n\n"])
    yield from attachment_pages(list(_attachments(message)), source)


def body(message: EmailMessage) -> str:
    """The plain text, or the HTML where there is no other or where the plain one says nothing."""
    for kind in ("plain", "html"):
        part = message.get_body((kind,))
        if part is not None and (text := _text(part, kind).strip()):
            return text
    return ""


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
    for part in message.walk():
        if part.is_multipart() or (not part.get_filename() and part.get_content_disposition() != "attachment"):
            continue
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes) and payload:
            yield Attachment(part.get_filename() or "attachment", payload)
