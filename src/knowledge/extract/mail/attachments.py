"""What is attached to a mail, read like any other document, one level deep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from knowledge import errors
from knowledge.extract.base import PageText, Source

MOST = 100
WRAPPERS = {"eml", "msg", "zip"}
"""An attached mail is read without its own attachments, an archive is named: one level is enough, also for bombs."""


@dataclass(frozen=True, slots=True)
class Attachment:
    filename: str
    content: bytes


def attachment_pages(attachments: list[Attachment], source: Source) -> Iterator[PageText]:
    for attachment in attachments[:MOST]:
        name = PurePosixPath(attachment.filename.replace("\\", "/")).name or "attachment"
        yield PageText(f"## Attachment: {name}\n\n")
        yield from _read(replace(source, path=source.path, filename=name, content=attachment.content))


def _read(source: Source) -> Iterator[PageText]:
    from knowledge.extract.formats import extract, identify_source, supported

    if not supported(source.filename):
        return
    try:
        doc_type = identify_source(source)
        if doc_type in WRAPPERS:
            yield from _letter(source, doc_type)
            return
        for page in extract(source).pages:
            yield replace(page, number=None)
    except errors.NoText:
        return
    except errors.KnowledgeError as error:
        yield PageText("", warning=f"Attachment {source.filename} could not be read: {error}")


def _letter(source: Source, doc_type: str) -> Iterator[PageText]:
    from knowledge.extract.mail import eml, msg

    if doc_type == "eml":
        yield PageText(eml.letter(eml.read(source.read())))
    elif doc_type == "msg":
        yield PageText(msg.letter(msg.read(source)))
