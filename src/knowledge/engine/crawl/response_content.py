"""Determines the format, file name and charset of an HTTP response."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from knowledge.extract.charset import decode_text
from knowledge.extract.formats import FORMATS_BY_SUFFIX

if TYPE_CHECKING:  # this module also runs in a child process, which must not import the HTTP client
    from knowledge.engine.fetch.client import FetchResponse

SUFFIX_BY_MEDIA_TYPE = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/markdown": ".md",
    "text/x-markdown": ".md",
    "text/plain": ".txt",
    "text/csv": ".csv",
    "text/x-rst": ".rst",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/rtf": ".rtf",
    "application/epub+zip": ".epub",
    "application/msword": ".doc",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.presentation": ".odp",
}
VAGUE_MEDIA_TYPES = ("", "text/plain", "application/octet-stream", "binary/octet-stream", "application/x-download")
"""Media types for which the URL suffix is more reliable."""


def _parse_suffixes(names: str) -> frozenset[str]:
    return frozenset(f".{name}" for name in names.split())


# Images and source code can be added as files, but are not crawled: a site has too many of them.
CRAWLED_SUFFIXES = _parse_suffixes(
    "html htm xhtml md markdown mdx txt text rst adoc asciidoc org tex csv tsv json jsonl ipynb "
    "pdf docx pptx xlsx doc ppt xls odt ods odp rtf epub eml"
)
SKIPPED_SUFFIXES = _parse_suffixes(
    "png jpg jpeg gif webp bmp ico svg tif tiff avif mp3 mp4 m4a webm ogg wav avi mov mkv flac "
    "zip gz tgz bz2 xz 7z rar tar whl jar exe msi dmg pkg deb rpm iso bin apk "
    "css js mjs map woff woff2 ttf otf eot wasm rss atom xsd dtd"
)
"""URLs with these suffixes are skipped without a request."""
PLAIN_TEXT_SUFFIXES = _parse_suffixes("md markdown mdx txt text rst adoc asciidoc org tex csv tsv")
DECLARED_CHARSET = re.compile(
    rb"(?i)<meta[^>]{0,200}charset=[\"']?\s*([\w-]{1,40})|^\s*<\?xml[^>]{0,200}encoding=[\"']([\w-]{1,40})"
)
BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_STEM_CHARS = 100


def suffix_of(url: str) -> str:
    return PurePosixPath(unquote(urlsplit(url).path)).suffix.lower()


def find_skipped_suffix(url: str) -> str | None:
    """Return the suffix of the URL if it is in SKIPPED_SUFFIXES."""
    suffix = suffix_of(url)
    return suffix if suffix in SKIPPED_SUFFIXES else None


def format_of(fetched: FetchResponse) -> str | None:
    """Return the suffix of the format to parse the response as; None if it is not crawled."""
    media_type, url_suffix = fetched.content_type, suffix_of(fetched.url)
    if media_type not in VAGUE_MEDIA_TYPES:
        suffix = SUFFIX_BY_MEDIA_TYPE.get(media_type, "")
    elif url_suffix in CRAWLED_SUFFIXES:
        suffix = url_suffix
    else:
        suffix = ".txt" if media_type == "text/plain" else _sniff_suffix(fetched.body)
    return suffix if suffix in CRAWLED_SUFFIXES and suffix in FORMATS_BY_SUFFIX else None


def _sniff_suffix(body: bytes) -> str:
    head = body[:512].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return ".html"
    return ".pdf" if head.startswith(b"%pdf-") else ""


def filename_of(url: str, suffix: str) -> str:
    """Make a file name from the last path segment of the URL."""
    parts = urlsplit(url)
    last = PurePosixPath(unquote(parts.path)).name or parts.hostname or "page"
    stem = re.sub(r"[^\w.-]+", "-", last.removesuffix(suffix)).strip("-.")[:MAX_STEM_CHARS]
    return f"{stem or 'page'}{suffix}"


def charset_of(fetched: FetchResponse) -> str | None:
    """Return the charset of the Content-Type header, if Python knows it."""
    found = re.search(r"(?i)charset\s*=\s*[\"']?([\w.:-]{1,40})", fetched.headers.get("content-type", ""))
    try:
        return codecs.lookup(found[1]).name if found else None
    except LookupError:
        return None


def add_charset_meta(body: bytes, charset: str | None) -> bytes:
    return body if charset is None else f'<meta charset="{charset}">\n'.encode() + body


def find_charset_override(body: bytes, http_charset: str | None) -> str | None:
    """Return the charset if the page declares none or a wrong one; None if the HTML parser finds it by itself."""
    if body.startswith(BOMS):
        return None
    declared = find_declared_charset(body)
    if _decodes_as(body, "utf-8"):
        return None if body.isascii() or declared in (None, "utf-8") else "utf-8"
    if declared is not None and _decodes_as(body, declared):
        return None
    usable = http_charset not in (None, "utf-8", "ascii") and _decodes_as(body, str(http_charset))
    return http_charset if usable else None


def find_declared_charset(body: bytes) -> str | None:
    found = DECLARED_CHARSET.search(body[:4096])
    try:
        return codecs.lookup((found[1] or found[2]).decode("ascii")).name if found else None
    except LookupError:
        return None


def _decodes_as(body: bytes, charset: str) -> bool:
    try:
        body.decode(charset)
    except (UnicodeDecodeError, LookupError):
        return False
    return True


def transcode_to_utf8(body: bytes, http_charset: str | None) -> bytes | None:
    """Return a plain text in UTF-8; None if it needs no other charset than the one found in it."""
    charset = find_charset_override(body, http_charset)
    return None if charset in (None, "utf-8") else body.decode(str(charset)).encode("utf-8", "replace")


def decode_page(body: bytes, http_charset: str | None) -> str:
    """Decode an HTML page to find its links."""
    for charset in (find_charset_override(body, http_charset), find_declared_charset(body)):
        if charset is not None:
            try:
                return body.decode(charset)
            except (UnicodeDecodeError, LookupError):
                continue
    return decode_text(body)
