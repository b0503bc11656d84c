"""Opens Office documents with office-oxide and reads their metadata."""

from __future__ import annotations

import re
import struct

import office_oxide
import olefile

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.base import Facts, Source
from knowledge.extract.charset import decode_text
from knowledge.extract.zip_archive import open_archive
from knowledge.model import Json

PASSWORD_ERROR = re.compile("(?i)encrypt|password|protected")


def open_office_document(source: Source, doc_type: str) -> office_oxide.Document:
    try:
        return office_oxide.Document.from_bytes(source.read(), doc_type)
    except office_oxide.OfficeOxideError as error:
        if PASSWORD_ERROR.search(str(error)):
            raise errors.NeedsPassword("The document is protected with a password", filename=source.filename) from error
        raise errors.Damaged(f"The document cannot be opened: {error}", filename=source.filename) from error


EARLIEST_YEAR = 1980
"""Programs without a date write the first day of their calendar: 1601 (FILETIME), 1970 or 1980."""
CORE_PROPERTIES = "docProps/core.xml"
METADATA_NAMES = {"created": "created", "modified": "modified", "subject": "subject", "keywords": "keywords"}


def read_office_facts(source: Source, doc_type: str, page_count: int | None = None) -> Facts:
    values = _read_core_properties(source) if doc_type in ("docx", "pptx", "xlsx") else _read_summary_stream(source)
    return Facts(
        doc_type,
        title=values.get("title"),
        author=values.get("creator"),
        language=values.get("language"),
        page_count=page_count,
        metadata=_select_metadata(values),
    )


def _select_metadata(values: dict[str, str]) -> Json:
    return {name: values[key] for key, name in METADATA_NAMES.items() if key in values}


def _read_summary_stream(source: Source) -> dict[str, str]:
    """Read the SummaryInformation stream of DOC, XLS and PPT."""
    try:
        with olefile.OleFileIO(source.read()) as container:
            found = container.get_metadata()
    except (OSError, ValueError, IndexError, KeyError, TypeError, struct.error):
        return {}
    times = {"created": found.create_time, "modified": found.last_saved_time}
    texts = {"title": found.title, "creator": found.author, "subject": found.subject, "keywords": found.keywords}
    decoded = {name: decode_text(value).strip("\0 ") for name, value in texts.items() if isinstance(value, bytes)}
    dated = {name: value.isoformat() for name, value in times.items() if value and value.year > EARLIEST_YEAR}
    return {name: value for name, value in (decoded | dated).items() if value}


def _read_core_properties(source: Source) -> dict[str, str]:
    """Read docProps/core.xml, or return nothing if it is missing or damaged."""
    with open_archive(source) as archive:
        if CORE_PROPERTIES not in archive.namelist():
            return {}
        try:
            root = safe_xml.parse_xml(safe_xml.read_member(archive, CORE_PROPERTIES))
        except errors.Damaged:
            return {}
    found = ((safe_xml.local_name(element.tag), safe_xml.read_words(element)) for element in root)
    return {name: value for name, value in found if value}
