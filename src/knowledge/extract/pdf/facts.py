"""What a PDF says about itself."""

from __future__ import annotations

import ctypes
import re

import pypdfium2 as pdfium

from knowledge.extract.base import Facts
from knowledge.model import Json

DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z|[+-]\d\d)'?(\d\d)?)?")
POINTLESS = re.compile(
    r"(?i)^(\(?(?:untitled|anonymous|unspecified|unknown)\)?|microsoft word - .*|"
    r".*\.(docx?|indd|pptx?|xlsx?|pdf|dvi|tex|qxd|rtf))$"
)
"""What a program put there because nobody had."""


def pdf_facts(document: pdfium.PdfDocument, doc_type: str) -> Facts:
    given = document.get_metadata_dict(skip_empty=True)
    info = {key: value.strip() for key, value in given.items() if not POINTLESS.match(value.strip())}
    metadata: Json = {
        "created": iso_date(info.get("CreationDate", "")),
        "modified": iso_date(info.get("ModDate", "")),
        "subject": info.get("Subject"),
        "keywords": info.get("Keywords"),
    }
    return Facts(
        doc_type,
        title=info.get("Title"),
        author=info.get("Author"),
        language=_language(document),
        page_count=len(document),
        metadata={key: value for key, value in metadata.items() if value},
    )


def iso_date(value: str) -> str | None:
    """The date of a PDF in the form that everybody else uses."""
    found = DATE.match(value)
    if not found:
        return None
    year, month, day, hour, minute, second, zone, offset = found.groups()
    zone = "+00:00" if zone in (None, "Z") else f"{zone}:{offset or '00'}"
    return f"{year}-{month or '01'}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}"


def _language(document: pdfium.PdfDocument) -> str | None:
    length = pdfium.raw.FPDFCatalog_GetLanguage(document, None, 0)
    if length <= 2:
        return None
    buffer = ctypes.create_string_buffer(length)
    pdfium.raw.FPDFCatalog_GetLanguage(document, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), length)
    return buffer.raw[: length - 2].decode("utf-16-le", errors="replace") or None
