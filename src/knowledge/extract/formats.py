"""The table of supported formats, and the entry point that reads a document."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

from knowledge import errors
from knowledge.extract.base import Extraction, PageText, Source
from knowledge.extract.identify import identify_by_head, identify_container
from knowledge.extract.text import source_code
from knowledge.model import JsonValue


@dataclass(frozen=True, slots=True)
class Format:
    doc_type: str
    suffixes: tuple[str, ...]
    module: str
    name: str


def _list_code_formats() -> Iterator[Format]:
    for doc_type, language in source_code.FENCE_LANGUAGES.items():
        suffixes = tuple(f".{suffix}" for suffix in source_code.SUFFIX_ALIASES.get(doc_type, (doc_type,)))
        yield Format(doc_type, suffixes, "text.source_code", f"Source code and configuration ({language})")


FORMATS = (
    Format("md", (".md", ".markdown", ".mdx"), "text.markdown", "Markdown"),
    Format("txt", (".txt", ".text"), "text.plain", "Plain text"),
    Format("log", (".log",), "text.plain", "Log"),
    Format("srt", (".srt", ".vtt"), "text.plain", "Subtitles"),
    Format("html", (".html", ".htm", ".xhtml"), "web.html", "Web page"),
    Format("csv", (".csv",), "text.csv_table", "Comma-separated values"),
    Format("tsv", (".tsv", ".tab"), "text.csv_table", "Tab-separated values"),
    Format("json", (".json", ".geojson"), "text.json_records", "JSON"),
    Format("jsonl", (".jsonl", ".ndjson"), "text.json_records", "JSON Lines"),
    Format("ipynb", (".ipynb",), "text.json_records", "Jupyter notebook"),
    Format("rst", (".rst", ".rest"), "text.markup", "reStructuredText"),
    Format("adoc", (".adoc", ".asciidoc"), "text.markup", "AsciiDoc"),
    Format("org", (".org",), "text.markup", "Org mode"),
    Format("tex", (".tex", ".latex"), "text.markup", "TeX"),
    Format("pdf", (".pdf",), "pdf.reader", "PDF, also scanned"),
    Format("docx", (".docx", ".docm", ".dotx"), "office.word", "Word document"),
    Format("doc", (".doc", ".dot"), "office.word", "Word document, 97 to 2003"),
    Format("pptx", (".pptx", ".pptm", ".ppsx"), "office.slides", "PowerPoint presentation"),
    Format("ppt", (".ppt", ".pps"), "office.slides", "PowerPoint presentation, 97 to 2003"),
    Format("xlsx", (".xlsx", ".xlsm"), "office.sheets", "Excel workbook"),
    Format("xls", (".xls",), "office.sheets", "Excel workbook, 97 to 2003"),
    Format("odt", (".odt", ".ott"), "odf.reader", "OpenDocument text"),
    Format("odp", (".odp",), "odf.reader", "OpenDocument presentation"),
    Format("ods", (".ods",), "odf.reader", "OpenDocument spreadsheet"),
    Format("rtf", (".rtf",), "rtf.reader", "Rich Text Format"),
    Format("epub", (".epub",), "epub.reader", "Electronic book"),
    Format("eml", (".eml",), "mail.eml", "Mail with its attachments"),
    Format("msg", (".msg",), "mail.msg", "Outlook message with its attachments"),
    Format("zip", (".zip",), "zip_bundle", "Archive of documents"),
    Format("svg", (".svg",), "image.svg", "SVG drawing"),
    Format("png", (".png",), "image.reader", "PNG image, by text recognition"),
    Format("jpg", (".jpg", ".jpeg"), "image.reader", "JPEG image, by text recognition"),
    Format("tiff", (".tiff", ".tif"), "image.reader", "TIFF image, by text recognition"),
    Format("webp", (".webp",), "image.reader", "WebP image, by text recognition"),
    Format("gif", (".gif",), "image.reader", "GIF image, by text recognition"),
    Format("bmp", (".bmp",), "image.reader", "BMP image, by text recognition"),
    *_list_code_formats(),
)
FORMATS_BY_TYPE = {format_.doc_type: format_ for format_ in FORMATS}
FORMATS_BY_SUFFIX = {suffix: format_ for format_ in FORMATS for suffix in format_.suffixes}
SUFFIXES = tuple(FORMATS_BY_SUFFIX)


class FormatModule(Protocol):
    """Interface of the module of a format."""

    def extract(self, source: Source, doc_type: str) -> Extraction: ...


def is_supported(filename: str) -> bool:
    return Path(filename).suffix.lower() in FORMATS_BY_SUFFIX


def check_suffix(filename: str) -> Format:
    """Return the format of a file name, or raise UnsupportedFormat with the list of formats."""
    suffix = Path(filename).suffix.lower()
    if suffix in FORMATS_BY_SUFFIX:
        return FORMATS_BY_SUFFIX[suffix]
    named = f"Files named *{suffix}" if suffix else "Files without a suffix"
    raise errors.UnsupportedFormat(
        f"{named} are not supported",
        hint=f"Supported: {', '.join(suffix.lstrip('.') for suffix in SUFFIXES)}.",
        suffix=suffix,
        supported=[suffix.lstrip(".") for suffix in SUFFIXES],
    )


def identify_by_first_bytes(source: Source) -> str | None:
    """Identify a file by its first bytes and its suffix, or return None for a container that must be opened."""
    return identify_by_head(source, check_suffix(source.filename).doc_type)


def identify_source(source: Source) -> str:
    """Identify a file by its content or its suffix; opens archives, so it runs only in the sandboxed child."""
    return identify_by_first_bytes(source) or identify_container(source)


def extract(source: Source) -> Extraction:
    """Read one document in this process; servers use `Parsers`, which runs this in a sandboxed child."""
    doc_type = identify_source(source)
    module = cast(FormatModule, importlib.import_module(f"knowledge.extract.{FORMATS_BY_TYPE[doc_type].module}"))
    extracted = module.extract(source, doc_type)
    return replace(extracted, pages=_require_text(extracted.pages, source))


def _require_text(pages: Iterator[PageText], source: Source) -> Iterator[PageText]:
    """Pass pages on, and raise Damaged or NoText at the end if none had text."""
    found = False
    warnings: list[JsonValue] = []
    for page in pages:
        found = found or any(map(str.isalnum, page.text))
        if page.warning:
            warnings.append(page.warning)
        yield page
    if not found and warnings:
        raise errors.Damaged(f"No page could be read: {warnings[0]}", filename=source.filename, warnings=warnings[:20])
    if not found:
        raise errors.NoText("The document contains no text", filename=source.filename)
