"""Reads the attachments of a mail like other documents, one level deep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from knowledge import errors
from knowledge.extract.base import PageText, Source

MAX_ATTACHMENTS = 100
CONTAINER_TYPES = {"eml", "msg", "zip"}
"""Not unpacked: an attached mail is read without its attachments, an archive only named (limits nested bombs)."""


@dataclass(frozen=True, slots=True)
class Attachment:
    filename: str
    content: bytes


def read_attachments(attachments: list[Attachment], source: Source) -> Iterator[PageText]:
    for attachment in attachments[:MAX_ATTACHMENTS]:
        name = PurePosixPath(attachment.filename.replace("\\", "/")).name or "attachment"
        yield PageText(f"## Attachment: {name}\n\n")
        yield from _read_attachment(replace(source, filename=name, content=attachment.content))


def _read_attachment(source: Source) -> Iterator[PageText]:
    from knowledge.extract.formats import extract, identify_source, is_supported

    if not is_supported(source.filename):
        return
    try:
        doc_type = identify_source(source)
        if doc_type in CONTAINER_TYPES:
            yield from _read_attached_mail(source, doc_type)
            return
        for page in extract(source).pages:
            yield replace(page, number=None, outline=())  # its lines are not those of the mail
    except errors.NoText:
        return
    except errors.KnowledgeError as error:
        yield PageText("", warning=f"Attachment {source.filename} could not be read: {error}")


def _read_attached_mail(source: Source, doc_type: str) -> Iterator[PageText]:
    from knowledge.extract.mail import eml, msg

    if doc_type == "eml":
        yield PageText(eml.render_message(eml.parse_message(source.read())))
    elif doc_type == "msg":
        yield PageText(msg.render_message(msg.open_message(source)))
