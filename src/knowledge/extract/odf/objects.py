"""Formulas and charts within an OpenDocument, which are documents of their own in the same archive."""

from __future__ import annotations

import zipfile
from xml.etree.ElementTree import Element, SubElement

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.odf.text import attribute
from knowledge.extract.safe_xml import local, words

MOST = 500
CHART_WORDS = ("title", "subtitle")


def bring_in(root: Element, archive: zipfile.ZipFile) -> None:
    """A formula becomes words of its paragraph, a chart a box with its title and its figures."""
    frames = [element for element in root.iter() if local(element.tag) == "frame"]
    names = set(archive.namelist())
    for frame in frames[:MOST]:
        target = next((attribute(child, "href") for child in frame if local(child.tag) == "object"), None)
        name = f"{(target or '').removeprefix('./').rstrip('/')}/content.xml"
        if name in names:
            _bring(frame, archive, name)


def _bring(frame: Element, archive: zipfile.ZipFile, name: str) -> None:
    try:
        inner = safe_xml.parse(safe_xml.member(archive, name))
    except errors.Damaged:  # the document can be read without it
        return
    if local(inner.tag) == "math":
        _speak(frame, inner)
    elif any(local(element.tag) == "chart" for element in inner.iter()):
        _draw(frame, inner)


def _speak(frame: Element, formula: Element) -> None:
    """As its author wrote it, where that is kept."""
    written = next((element for element in formula.iter() if local(element.tag) == "annotation"), formula)
    space, tail = frame.tag.removesuffix("frame"), frame.tail
    frame.clear()
    frame.tag, frame.text, frame.tail = f"{space}span", words(written), tail


def _draw(frame: Element, chart: Element) -> None:
    box = SubElement(frame, frame.tag.replace("}frame", "}text-box"))
    for element in chart.iter():
        if local(element.tag) in CHART_WORDS:
            SubElement(box, "p").text = words(element)
        elif local(element.tag) == "table":
            box.append(element)
