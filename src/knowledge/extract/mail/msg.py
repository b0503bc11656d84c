"""Outlook's own messages, read with python-oxmsg like any other mail."""

from __future__ import annotations

import io
from collections.abc import Iterator

from oxmsg import Message

from knowledge import errors
from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.mail.attachments import Attachment, attachment_pages
from knowledge.extract.text.plain import pages
from knowledge.extract.web.html import fragment_markdown
from knowledge.model import Json

BROKEN = (OSError, KeyError, ValueError, IndexError)


def extract(source: Source, doc_type: str) -> Extracted:
    message = read(source)
    try:
        return Extracted(_facts(message, doc_type), _pages(message, source))
    except BROKEN as error:
        raise _damaged(source, error) from error


def read(source: Source) -> Message:
    try:
        return Message.load(io.BytesIO(source.read()))
    except BROKEN as error:
        raise _damaged(source, error) from error


def _damaged(source: Source, error: Exception) -> errors.Damaged:
    return errors.Damaged(f"It is no message that can be opened: {error}", filename=source.filename)


def _recipients(message: Message) -> str:
    return ", ".join(f"{person.name} <{person.email_address}>" for person in message.recipients)


def _facts(message: Message, doc_type: str) -> Facts:
    metadata: Json = {}
    if recipients := _recipients(message):
        metadata["to"] = recipients
    if message.sent_date:
        metadata["created"] = message.sent_date.isoformat()
    return Facts(doc_type, title=message.subject or None, author=message.sender, metadata=metadata)


def _pages(message: Message, source: Source) -> Iterator[PageText]:
    yield from pages([letter(message)])
    found = [Attachment(item.file_name or "attachment", item.file_bytes or b"") for item in message.attachments]
    yield from attachment_pages([item for item in found if item.content], source)


def letter(message: Message) -> str:
    """A message without its attachments: subject, headers, body."""
    values = {
        "From": message.sender,
        "To": _recipients(message),
        "Date": message.sent_date.isoformat() if message.sent_date else None,
    }
    lines = [f"{name}: {value}" for name, value in values.items() if value]
    subject = f"# {message.subject}\n\n" if message.subject else ""
    return subject + "\n".join(lines) + "\n\n" + _body(message) + "\n\n"


def _body(message: Message) -> str:
    if message.body and message.body.strip():
        return str(message.body).strip()
    return fragment_markdown(message.html_body).strip() if message.html_body else ""
