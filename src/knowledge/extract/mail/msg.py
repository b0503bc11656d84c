"""Outlook messages (MSG), read with python-oxmsg."""

from __future__ import annotations

import io
from collections.abc import Iterator

from oxmsg import Message

from knowledge import errors
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.mail.attachments import Attachment, read_attachments
from knowledge.extract.text.plain import to_pages
from knowledge.extract.web.html import convert_fragment
from knowledge.model import Json

READ_ERRORS = (OSError, KeyError, ValueError, IndexError)


def extract(source: Source, doc_type: str) -> Extraction:
    message = open_message(source)
    try:
        return Extraction(_read_facts(message, doc_type), _read_pages(message, source))
    except READ_ERRORS as error:
        raise _make_damaged_error(source, error) from error


def open_message(source: Source) -> Message:
    try:
        return Message.load(io.BytesIO(source.read()))
    except READ_ERRORS as error:
        raise _make_damaged_error(source, error) from error


def _make_damaged_error(source: Source, error: Exception) -> errors.Damaged:
    return errors.Damaged(f"The Outlook message cannot be opened: {error}", filename=source.filename)


def _format_recipients(message: Message) -> str:
    return ", ".join(f"{person.name} <{person.email_address}>" for person in message.recipients)


def _read_facts(message: Message, doc_type: str) -> Facts:
    metadata: Json = {}
    if recipients := _format_recipients(message):
        metadata["to"] = recipients
    if message.sent_date:
        metadata["created"] = message.sent_date.isoformat()
    return Facts(doc_type, title=message.subject or None, author=message.sender, metadata=metadata)


def _read_pages(message: Message, source: Source) -> Iterator[PageText]:
    yield from to_pages([render_message(message)])
    found = [Attachment(item.file_name or "attachment", item.file_bytes or b"") for item in message.attachments]
    yield from read_attachments([item for item in found if item.content], source)


def render_message(message: Message) -> str:
    """Render subject, headers and body, without attachments."""
    values = {
        "From": message.sender,
        "To": _format_recipients(message),
        "Date": message.sent_date.isoformat() if message.sent_date else None,
    }
    lines = [f"{name}: {value}" for name, value in values.items() if value]
    subject = f"# {message.subject}\n\n" if message.subject else ""
    return subject + "\n".join(lines) + "\n\n" + _render_body(message) + "\n\n"


def _render_body(message: Message) -> str:
    if message.body and message.body.strip():
        return str(message.body).strip()
    return convert_fragment(message.html_body).strip() if message.html_body else ""
