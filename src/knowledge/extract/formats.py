"""Every format we read: its type, its suffixes, and the module that reads it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

from knowledge import errors
from knowledge.extract import code
from knowledge.extract.base import Extracted, PageText, Source
from knowledge.extract.identify import identify_container, identify_opening
from knowledge.model import JsonValue


@dataclass(frozen=True, slots=True)
class Format:
    doc_type: str
    suffixes: tuple[str, ...]
    module: str
    name: str


def _code_formats() -> Iterator[Format]:
    for doc_type, language in code.LANGUAGES.items():
        suffixes = tuple(f".{suffix}" for suffix in code.ALIASES.get(doc_type, (doc_type,)))
        yield Format(doc_type, suffixes, "code", f"Source code and configuration ({language})")


FORMATS = (
    Format("md", (".md", ".markdown", ".mdx"), "markdown", "Markdown"),
    Format("txt", (".txt", ".text"), "plain", "Plain text"),
    Format("log", (".log",), "plain", "Log"),
    Format("srt", (".srt", ".vtt"), "plain", "Subtitles"),
    Format("html", (".html", ".htm", ".xhtml"), "html", "Web page"),
    Format("csv", (".csv",), "delimited", "Comma-separated values"),
    Format("tsv", (".tsv", ".tab"), "delimited", "Tab-separated values"),
    Format("json", (".json", ".geojson"), "structured", "JSON"),
    Format("jsonl", (".jsonl", ".ndjson"), "structured", "JSON Lines"),
    Format("ipynb", (".ipynb",), "structured", "Jupyter notebook"),
    Format("rst", (".rst", ".rest"), "markup", "reStructuredText"),
    Format("adoc", (".adoc", ".asciidoc"), "markup", "AsciiDoc"),
    Format("org", (".org",), "markup", "Org mode"),
    Format("tex", (".tex", ".latex"), "markup", "TeX"),
    Format("pdf", (".pdf",), "pdf", "PDF, also scanned"),
    Format("docx", (".docx", ".docm", ".dotx"), "word", "Word document"),
    Format("doc", (".doc", ".dot"), "word", "Word document, 97 to 2003"),
    Format("pptx", (".pptx", ".pptm", ".ppsx"), "slides", "PowerPoint presentation"),
    Format("ppt", (".ppt", ".pps"), "slides", "PowerPoint presentation, 97 to 2003"),
    Format("xlsx", (".xlsx", ".xlsm"), "sheets", "Excel workbook"),
    Format("xls", (".xls",), "sheets", "Excel workbook, 97 to 2003"),
    Format("odt", (".odt", ".ott"), "odf", "OpenDocument text"),
    Format("odp", (".odp",), "odf", "OpenDocument presentation"),
    Format("ods", (".ods",), "odf", "OpenDocument spreadsheet"),
    Format("rtf", (".rtf",), "rtf", "Rich Text Format"),
    Format("epub", (".epub",), "epub", "Electronic book"),
    Format("eml", (".eml",), "mail", "Mail with its attachments"),
    Format("msg", (".msg",), "outlook", "Outlook message with its attachments"),
    Format("zip", (".zip",), "bundle", "Archive of documents"),
    Format("svg", (".svg",), "svg", "SVG drawing"),
    Format("png", (".png",), "image", "PNG image, by text recognition"),
    Format("jpg", (".jpg", ".jpeg"), "image", "JPEG image, by text recognition"),
    Format("tiff", (".tiff", ".tif"), "image", "TIFF image, by text recognition"),
    Format("webp", (".webp",), "image", "WebP image, by text recognition"),
    Format("gif", (".gif",), "image", "GIF image, by text recognition"),
    Format("bmp", (".bmp",), "image", "BMP image, by text recognition"),
    *_code_formats(),
)
BY_TYPE = {format_.doc_type: format_ for format_ in FORMATS}
BY_SUFFIX = {suffix: format_ for format_ in FORMATS for suffix in format_.suffixes}
SUFFIXES = tuple(BY_SUFFIX)


class Reader(Protocol):
    """What every module of a format offers."""

    def extract(self, source: Source, doc_type: str) -> Extracted: ...


def supported(filename: str) -> bool:
    """Whether the name ends in a suffix that we know."""
    return Path(filename).suffix.lower() in BY_SUFFIX


def check_suffix(filename: str) -> Format:
    """The format that the name promises; UnsupportedFormat says which there are."""
    suffix = Path(filename).suffix.lower()
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    called = f"Files named *{suffix}" if suffix else "Files without a suffix"
    raise errors.UnsupportedFormat(
        f"{called} are not read",
        hint=f"Supported: {', '.join(suffix.lstrip('.') for suffix in SUFFIXES)}.",
        suffix=suffix,
        supported=[suffix.lstrip(".") for suffix in SUFFIXES],
    )


def identify_by_opening(source: Source) -> str | None:
    """The type of a file, as far as its first bytes tell; None for a container, which has to be opened to know."""
    return identify_opening(source, check_suffix(source.filename).doc_type)


def identify_source(source: Source) -> str:
    """The type of a file: by its content where that has a signature, else by its name. It opens archives, so it is for
    children."""
    return identify_by_opening(source) or identify_container(source)


def extract(source: Source) -> Extracted:
    """Read one document in this process. Servers go through `Parsers`, which runs this in a child."""
    doc_type = identify_source(source)
    module = cast(Reader, importlib.import_module(f"knowledge.extract.{BY_TYPE[doc_type].module}"))
    extracted = module.extract(source, doc_type)
    return replace(extracted, pages=_with_text(extracted.pages, source))


def _with_text(pages: Iterator[PageText], source: Source) -> Iterator[PageText]:
    """A document without any text is refused, with the reasons of its pages if they gave some."""
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
        raise errors.NoText("There is no text in it", filename=source.filename)
