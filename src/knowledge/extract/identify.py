"""Identifies the format of a file by content sniffing: a magic number decides, otherwise the suffix.

A suffix must be plausible: a format that always has a magic number is damaged without it.
"""

from __future__ import annotations

import re
import zipfile

from knowledge import errors
from knowledge.extract.base import Source
from knowledge.extract.charset import looks_binary
from knowledge.extract.zip_archive import MEMBER_ERRORS, open_archive

HEAD_BYTES = 4096
OLE_SIGNATURE = bytes.fromhex("d0cf11e0a1b11ae1")
CONTAINER_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06", OLE_SIGNATURE)
SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "png"),
    (re.compile(rb"\xff\xd8\xff"), "jpg"),
    (re.compile(rb"GIF8[79]a"), "gif"),
    (re.compile(rb"II\*\0|MM\0\*|II\+\0|MM\0\+"), "tiff"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "webp"),
    (re.compile(rb"BM....\0\0\0\0", re.DOTALL), "bmp"),
    (re.compile(rb"\s*\{\\rtf"), "rtf"),
)
PROGRAM_SIGNATURES = (
    b"MZ",
    b"\x7fELF",
    b"\xca\xfe\xba\xbe",
    b"\xcf\xfa\xed\xfe",
    b"\xce\xfa\xed\xfe",
    b"\0asm",
    b"!<arch>",
)
TYPES_WITH_SIGNATURE = {
    "pdf",
    "docx",
    "pptx",
    "xlsx",
    "odt",
    "odp",
    "ods",
    "epub",
    "zip",
    "png",
    "jpg",
    "gif",
    "tiff",
    "webp",
    "bmp",
}
"""Formats that are damaged without their magic number."""
OLE_TYPES_BY_SUFFIX = {"doc": "doc", "dot": "doc", "xls": "xls", "ppt": "ppt", "msg": "msg"}
OLE_STREAMS = (
    ("WordDocument", "doc"),
    ("PowerPoint Document", "ppt"),
    ("Workbook", "xls"),
    ("__substg1.0_", "msg"),
    ("Book", "xls"),
)
MARKUP_PROLOG = re.compile(rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>\s*+)?+", re.IGNORECASE)
MARKUP = re.compile(rb"<(?:!doctype\s++)?(html|svg)\b", re.IGNORECASE)
SPACE = re.compile(rb"\s*+")
MARKUP_TYPES = {"html", "svg", "xml", "md", "vue", "php"}
"""Formats that can start with `<html` or `<svg` and keep the type of their suffix."""


def identify_by_head(source: Source, suffix_type: str) -> str | None:
    """Return the type by magic number or suffix, or None for a ZIP or OLE container."""
    head = source.read(HEAD_BYTES)
    if not head:
        raise errors.NoText("The file is empty", filename=source.filename)
    if head.startswith(CONTAINER_SIGNATURES) and b"%PDF-" not in head[:1024]:
        return None
    found = _match_signature(head) or _match_markup(head, suffix_type)
    if found:
        return found
    _refuse_wrong_suffix(source, head, suffix_type)
    return suffix_type


def identify_container(source: Source) -> str:
    """Return the type of a ZIP or OLE container by its members."""
    return _identify_ole(source) if source.read(len(OLE_SIGNATURE)) == OLE_SIGNATURE else _identify_zip(source)


def _match_signature(head: bytes) -> str | None:
    if b"%PDF-" in head[:1024]:
        return "pdf"
    return next((doc_type for pattern, doc_type in SIGNATURES if pattern.match(head)), None)


def _match_markup(head: bytes, suffix_type: str) -> str | None:
    """Detect HTML and SVG under another suffix, such as a report saved as .xls."""
    found = MARKUP.match(head, _skip_comments(head))
    if not found or suffix_type in MARKUP_TYPES - {"html", "svg"}:
        return None
    return found[1].decode().lower()


def _skip_comments(head: bytes) -> int:
    """Skip XML comments in linear time; a regular expression backtracks (ReDoS)."""
    place = MARKUP_PROLOG.match(head).end()  # type: ignore[union-attr]  # it can match the empty string
    while head.startswith(b"<!--", place):
        end = head.find(b"-->", place + 4)
        if end < 0:
            break
        place = SPACE.match(head, end + 3).end()  # type: ignore[union-attr]
    return place


def _refuse_wrong_suffix(source: Source, head: bytes, suffix_type: str) -> None:
    if head.startswith(PROGRAM_SIGNATURES) and looks_binary(head):
        raise errors.Damaged(
            f"The file is named *.{suffix_type} but is an executable program", filename=source.filename
        )
    if suffix_type in TYPES_WITH_SIGNATURE or suffix_type in OLE_TYPES_BY_SUFFIX or suffix_type == "rtf":
        raise errors.Damaged(
            f"The file is named *.{suffix_type} but has no signature of that format",
            filename=source.filename,
        )


def _identify_zip(source: Source) -> str:
    """Tell OOXML, OpenDocument, EPUB and plain ZIP apart by their members."""
    with open_archive(source) as archive:
        names = set(archive.namelist())
        kind = _read_mimetype(archive, source) if "mimetype" in names else ""
    if "epub" in kind or "META-INF/container.xml" in names:
        return "epub"
    if "opendocument" in kind:
        return {"spreadsheet": "ods", "presentation": "odp"}.get(kind.split(".")[-1].split("-")[0], "odt")
    for folder, doc_type in (("word/", "docx"), ("ppt/", "pptx"), ("xl/", "xlsx")):
        if any(name.startswith(folder) for name in names):
            return doc_type
    return "zip"


def _read_mimetype(archive: zipfile.ZipFile, source: Source) -> str:
    try:
        with archive.open("mimetype") as file:
            return file.read(100).decode("latin-1").strip()
    except MEMBER_ERRORS as error:
        raise errors.Damaged(f"The ZIP container is damaged: {error}", filename=source.filename) from error


def _identify_ole(source: Source) -> str:
    """Tell Office 97 to 2003 formats and Outlook messages apart by the names of their streams."""
    data = source.read()
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise errors.NeedsPassword("The document is protected with a password", filename=source.filename)
    for stream, doc_type in OLE_STREAMS:
        if stream.encode("utf-16-le") in data:
            return doc_type
    raise errors.Damaged("The OLE container holds no Office document or Outlook message", filename=source.filename)
