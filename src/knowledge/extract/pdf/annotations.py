"""What readers wrote on a page: sticky notes, remarks on what they marked, text they typed over it."""

from __future__ import annotations

import ctypes

import pypdfium2 as pdfium

WRITTEN = (
    pdfium.raw.FPDF_ANNOT_TEXT,
    pdfium.raw.FPDF_ANNOT_FREETEXT,
    pdfium.raw.FPDF_ANNOT_HIGHLIGHT,
    pdfium.raw.FPDF_ANNOT_UNDERLINE,
    pdfium.raw.FPDF_ANNOT_STRIKEOUT,
    pdfium.raw.FPDF_ANNOT_SQUIGGLY,
)
MOST = 1000
LONGEST = 20_000
"""Bytes of one note."""


def notes(page: pdfium.PdfPage) -> str:
    """Each note as a line below the page."""
    count = min(MOST, pdfium.raw.FPDFPage_GetAnnotCount(page))
    found = (_written(page, index) for index in range(count))
    return "".join(f"\n\nNote: {line}" for line in dict.fromkeys(found) if line)


def _written(page: pdfium.PdfPage, index: int) -> str:
    annotation = pdfium.raw.FPDFPage_GetAnnot(page, index)
    if not annotation:
        return ""
    try:
        if pdfium.raw.FPDFAnnot_GetSubtype(annotation) not in WRITTEN:
            return ""
        return " ".join(_contents(annotation).split())
    finally:
        pdfium.raw.FPDFPage_CloseAnnot(annotation)


def _contents(annotation: pdfium.raw.FPDF_ANNOTATION) -> str:
    length = pdfium.raw.FPDFAnnot_GetStringValue(annotation, b"Contents", None, 0)
    if not 2 < length <= LONGEST:
        return ""
    buffer = ctypes.create_string_buffer(length)
    letters = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort))
    pdfium.raw.FPDFAnnot_GetStringValue(annotation, b"Contents", letters, length)
    return buffer.raw[: length - 2].decode("utf-16-le", errors="replace")
