"""What an Office document says about itself, in a small XML file beside its text."""

from __future__ import annotations

import struct

import olefile

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.archive import open_archive
from knowledge.extract.base import Facts, Source
from knowledge.extract.charset import decode
from knowledge.model import Json

EARLIEST = 1980
"""Programs that know no date write the beginning of their calendar."""
CORE = "docProps/core.xml"
NAMES = {"created": "created", "modified": "modified", "subject": "subject", "keywords": "keywords"}


def office_facts(source: Source, doc_type: str, page_count: int | None = None) -> Facts:
    values = _core(source) if doc_type in ("docx", "pptx", "xlsx") else _summary(source)
    return Facts(
        doc_type,
        title=values.get("title"),
        author=values.get("creator"),
        language=values.get("language"),
        page_count=page_count,
        metadata=_metadata(values),
    )


def _metadata(values: dict[str, str]) -> Json:
    return {name: values[key] for key, name in NAMES.items() if key in values}


def _summary(source: Source) -> dict[str, str]:
    """The older formats keep a stream with the same facts."""
    try:
        with olefile.OleFileIO(source.read()) as container:
            found = container.get_metadata()
    except (OSError, ValueError, IndexError, KeyError, TypeError, struct.error):
        return {}
    times = {"created": found.create_time, "modified": found.last_saved_time}
    texts = {"title": found.title, "creator": found.author, "subject": found.subject, "keywords": found.keywords}
    spoken = {name: decode(value).strip("\0 ") for name, value in texts.items() if isinstance(value, bytes)}
    dated = {name: value.isoformat() for name, value in times.items() if value and value.year > EARLIEST}
    return {name: value for name, value in (spoken | dated).items() if value}


def _core(source: Source) -> dict[str, str]:
    """Missing or broken properties are no reason to refuse a document."""
    with open_archive(source) as archive:
        if CORE not in archive.namelist():
            return {}
        try:
            root = safe_xml.parse(safe_xml.member(archive, CORE))
        except errors.Damaged:
            return {}
    found = ((safe_xml.local(element.tag), safe_xml.words(element)) for element in root)
    return {name: value for name, value in found if value}
