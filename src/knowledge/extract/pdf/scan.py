"""Pages that have to be looked at, because their text layer is missing, tiny or rubbish."""

from __future__ import annotations

import re

import pypdfium2 as pdfium
from PIL import Image

from knowledge.extract.image import ocr

FEW, LITTLE = 16, 200
"""Letters: fewer than the first are no text layer, fewer than the second may be a stamp on a scan."""
COVERED = 0.5
MOST_PIXELS = 40_000_000
FINEST, LONG_SIDE = 300, 2300
"""A small page is drawn with more dots to the inch, up to the first, until its longer side has so many pixels."""
RUBBISH = re.compile("[\ufffd\ue000-\uf8ff]")
"""What a font without a table of characters yields."""
POINTS = 72


def needs_recognition(page: pdfium.PdfPage, text: str) -> bool:
    letters = sum(map(str.isalnum, text))
    if letters < FEW:
        return not _blank(page)
    if len(RUBBISH.findall(text)) > 0.3 * len(text):
        return True
    return letters < LITTLE and _covered(page) > COVERED


def _blank(page: pdfium.PdfPage) -> bool:
    """Whether nothing is drawn on it at all, seen from afar."""
    width, height = page.get_size()
    scale = min(1.0, 400 / max(width, height, 1))
    low, high = page.render(scale=scale, grayscale=True).to_pil().convert("L").getextrema()
    return bool(high - low < 16)


def _covered(page: pdfium.PdfPage) -> float:
    """The share of the page under its largest picture."""
    width, height = page.get_size()
    largest = 0.0
    for found in page.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = found.get_bounds()
        largest = max(largest, (right - left) * (top - bottom))
    return float(largest / max(1.0, width * height))


def render(document: pdfium.PdfDocument, index: int) -> Image.Image:
    page = document[index]
    try:
        width, height = page.get_size()
        wanted = max(ocr.RESOLUTION, min(FINEST, POINTS * LONG_SIDE / max(width, height, 1.0)))
        scale = min(wanted / POINTS, (MOST_PIXELS / max(1.0, width * height)) ** 0.5)
        image: Image.Image = page.render(scale=scale, grayscale=True).to_pil()
        return image
    finally:
        page.close()
