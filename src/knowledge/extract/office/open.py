"""Opening Office documents, old and new, with office-oxide."""

from __future__ import annotations

import re

import office_oxide

from knowledge import errors
from knowledge.extract.base import Source

LOCKED = re.compile("(?i)encrypt|password|protected")


def open_office(source: Source, doc_type: str) -> office_oxide.Document:
    try:
        return office_oxide.Document.from_bytes(source.read(), doc_type)
    except office_oxide.OfficeOxideError as error:
        if LOCKED.search(str(error)):
            raise errors.NeedsPassword("It is protected with a password", filename=source.filename) from error
        raise errors.Damaged(f"It cannot be opened: {error}", filename=source.filename) from error
