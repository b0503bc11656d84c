"""OpenDocument texts, presentations and spreadsheets, read from their XML."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.archive import open_archive
from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.odf import (
    objects as odf_objects,
)
from knowledge.extract.odf import (
    sheets as odf_sheets,
)
from knowledge.extract.odf import (
    styles as odf_styles,
)
from knowledge.extract.odf.text import blocks
from knowledge.extract.safe_xml import local
from knowledge.extract.text.plain import pages
from knowledge.model import Json

MANIFEST, CONTENT, META, STYLES = "META-INF/manifest.xml", "content.xml", "meta.xml", "styles.xml"
FACTS = {"creation-date": "created", "date": "modified", "subject": "subject"}


def extract(source: Source, doc_type: str) -> Extracted:
    with open_archive(source) as archive:
        names = set(archive.namelist())
        if MANIFEST in names and b"encryption-data" in safe_xml.member(archive, MANIFEST):
            raise errors.NeedsPassword("It is protected with a password", filename=source.filename)
        root = safe_xml.parse(safe_xml.member(archive, CONTENT))
        odf_objects.bring_in(root, archive)
        about = _part(archive, META, names)
        styles = _part(archive, STYLES, names)
    body = next((element for element in root.iter() if local(element.tag) == "body"), root)
    if doc_type == "ods":
        sheets = [element for element in body.iter() if local(element.tag) == "table"]
        return Extracted(_facts(about, doc_type, len(sheets)), odf_sheets.pages(sheets))
    odf_styles.count(body, root, styles)
    if doc_type == "odp":
        slides = [element for element in body.iter() if local(element.tag) == "page"]
        return Extracted(_facts(about, doc_type, len(slides)), _slides(slides))
    odf_styles.settle(root)
    text = (*odf_styles.edges(styles, "header"), *blocks(body), *odf_styles.edges(styles, "footer"))
    return Extracted(_facts(about, doc_type, None), pages(f"{block}\n\n" for block in text))


def _part(archive: zipfile.ZipFile, name: str, names: set[str]) -> Element:
    """Facts and styles may be missing."""
    return safe_xml.parse(safe_xml.member(archive, name)) if name in names else Element("none")


def _slides(slides: list[Element]) -> Iterator[PageText]:
    for number, slide in enumerate(slides, start=1):
        body = list(blocks(slide))
        if not any(block.startswith("#") for block in body):
            body.insert(0, f"## Slide {number}")
        yield PageText("\n\n".join(body), number)


def _facts(about: Element, doc_type: str, count: int | None) -> Facts:
    found: dict[str, str] = {}
    for element in about.iter():
        value = safe_xml.words(element) if len(element) == 0 else None
        if value:
            found.setdefault(local(element.tag), value)
    metadata: Json = {name: found[key] for key, name in FACTS.items() if key in found}
    return Facts(
        doc_type,
        title=found.get("title"),
        author=found.get("initial-creator") or found.get("creator"),
        language=found.get("language"),
        page_count=count,
        metadata=metadata,
    )
