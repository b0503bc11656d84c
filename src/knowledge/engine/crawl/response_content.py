"""What a site sent: which format it is, what it should be called, and in which letters it is written."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from knowledge.extract.charset import decode_text
from knowledge.extract.formats import FORMATS_BY_SUFFIX

if TYPE_CHECKING:  # a child reads pages, and has no use for what fetches them
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
"""Types that say less than a name does."""


def _parse_suffixes(names: str) -> frozenset[str]:
    return frozenset(f".{name}" for name in names.split())


CRAWLED_SUFFIXES = _parse_suffixes(
    "html htm xhtml md markdown mdx txt text rst adoc asciidoc org tex csv tsv json jsonl ipynb "
    "pdf docx pptx xlsx doc ppt xls odt ods odp rtf epub eml"
)
"""What a crawl takes in. Pictures, programs and style sheets are read elsewhere, but a site has too many of them."""
SKIPPED_SUFFIXES = _parse_suffixes(
    "png jpg jpeg gif webp bmp ico svg tif tiff avif mp3 mp4 m4a webm ogg wav avi mov mkv flac "
    "zip gz tgz bz2 xz 7z rar tar whl jar exe msi dmg pkg deb rpm iso bin apk "
    "css js mjs map woff woff2 ttf otf eot wasm rss atom xsd dtd"
)
"""What is not even asked for."""
PLAIN_TEXT_SUFFIXES = _parse_suffixes("md markdown mdx txt text rst adoc asciidoc org tex csv tsv")
DECLARED_CHARSET = re.compile(
    rb"(?i)<meta[^>]{0,200}charset=[\"']?\s*([\w-]{1,40})|^\s*<\?xml[^>]{0,200}encoding=[\"']([\w-]{1,40})"
)
BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_STEM_CHARS = 100


def suffix_of(url: str) -> str:
    return PurePosixPath(unquote(urlsplit(url).path)).suffix.lower()


def find_skipped_suffix(url: str) -> str | None:
    """The suffix of an address that is not worth asking for; None when it may be a page."""
    suffix = suffix_of(url)
    return suffix if suffix in SKIPPED_SUFFIXES else None


def format_of(fetched: FetchResponse) -> str | None:
    """The suffix under which the content is read; None when it is nothing that we read."""
    kind, named = fetched.content_type, suffix_of(fetched.url)
    if kind in VAGUE_MEDIA_TYPES:
        suffix = named if named in CRAWLED_SUFFIXES else _sniff_suffix(fetched.body) if kind != "text/plain" else ".txt"
    else:
        suffix = SUFFIX_BY_MEDIA_TYPE.get(kind, "")
    return suffix if suffix in CRAWLED_SUFFIXES and suffix in FORMATS_BY_SUFFIX else None


def _sniff_suffix(body: bytes) -> str:
    head = body[:512].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return ".html"
    return ".pdf" if head.startswith(b"%pdf-") else ""


def filename_of(url: str, suffix: str) -> str:
    """A name for the file, from the last part of its address."""
    parts = urlsplit(url)
    last = PurePosixPath(unquote(parts.path)).name or parts.hostname or "page"
    stem = re.sub(r"[^\w.-]+", "-", last.removesuffix(suffix)).strip("-.")[:MAX_STEM_CHARS]
    return f"{stem or 'page'}{suffix}"


def charset_of(fetched: FetchResponse) -> str | None:
    """The encoding that the site named beside the page, if there is one of that name."""
    found = re.search(r"(?i)charset\s*=\s*[\"']?([\w.:-]{1,40})", fetched.headers.get("content-type", ""))
    try:
        return codecs.lookup(found[1]).name if found else None
    except LookupError:
        return None


def add_charset(body: bytes, named: str | None) -> bytes:
    """The page with its encoding written where its reader looks for it, when that is known from elsewhere."""
    return add_charset_meta(body, find_charset_override(body, named))


def add_charset_meta(body: bytes, charset: str | None) -> bytes:
    return body if charset is None else f'<meta charset="{charset}">\n'.encode() + body


def find_charset_override(body: bytes, named: str | None) -> str | None:
    """The encoding, where the page itself does not tell it or tells it wrongly; None leaves it to its reader."""
    if body.startswith(BOMS):
        return None
    declared = find_declared_charset(body)
    if _decodes_as(body, "utf-8"):
        return None if body.isascii() or declared in (None, "utf-8") else "utf-8"
    if declared is not None and _decodes_as(body, declared):
        return None
    return named if named not in (None, "utf-8", "ascii") and _decodes_as(body, str(named)) else None


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


def as_utf8(body: bytes, named: str | None) -> bytes:
    """A plain text, written anew where only the site knows its encoding."""
    truth = find_charset_override(body, named)
    return body if truth in (None, "utf-8") else body.decode(str(truth)).encode("utf-8", "replace")


def decode_page(body: bytes, named: str | None) -> str:
    """The page as letters, for its links."""
    for charset in (find_charset_override(body, named), find_declared_charset(body)):
        if charset is not None:
            try:
                return body.decode(charset)
            except (UnicodeDecodeError, LookupError):
                continue
    return decode_text(body)
