"""Images: OCR of one page, or of each frame of a TIFF."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator

from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

from knowledge import errors
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.image import ocr
from knowledge.model import ExtractionMethod, Json
from knowledge.model.pages import PageWords, WordSource

MAX_PIXELS = 100_000_000
MAX_PAGES = 5_000
EXIF_DATE, EXIF_AUTHOR, EXIF_TITLE, EXIF_ORIENTATION = 306, 315, 270, 274
TURNED_ORIENTATIONS = (5, 6, 7, 8)
"""Values of EXIF_ORIENTATION that exchange width and height."""
Image.MAX_IMAGE_PIXELS = None  # check_pixel_count checks this with an error of ours


def extract(source: Source, doc_type: str) -> Extraction:
    ocr.check_languages(source.ocr_languages)
    image = open_image(source)
    count = count_pages(image)
    return Extraction(_read_facts(image, doc_type, count), _recognise_pages(image, count, source))


def count_pages(image: Image.Image) -> int:
    """Return the number of frames of a TIFF; other images are one page."""
    return min(getattr(image, "n_frames", 1), MAX_PAGES) if image.format == "TIFF" else 1


def open_image(source: Source) -> Image.Image:
    """Open an image and check its size before the pixels are decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(source.path if source.content is None else io.BytesIO(source.content))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise errors.Damaged(f"The image cannot be opened: {error}", filename=source.filename) from error
    try:
        check_pixel_count(image)
    except errors.ParserTooBig:
        image.close()
        raise
    return image


def check_pixel_count(image: Image.Image) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise errors.ParserTooBig(
            f"The image has {image.width} x {image.height} pixels; the limit is {MAX_PIXELS:,} pixels",
            hint="Scale the image down and add it again.",
            pixels=image.width * image.height,
            limit=MAX_PIXELS,
        )


def _read_facts(image: Image.Image, doc_type: str, count: int) -> Facts:
    exif = image.getexif()
    metadata: Json = {"width": image.width, "height": image.height}
    created = exif.get(EXIF_DATE)
    if isinstance(created, str) and created[:4].isdigit():
        metadata["created"] = created[:10].replace(":", "-") + "T" + created[11:19]
    title, author = exif.get(EXIF_TITLE), exif.get(EXIF_AUTHOR)
    return Facts(
        doc_type,
        title=title if isinstance(title, str) else None,
        author=author if isinstance(author, str) else None,
        page_count=count,
        metadata=metadata,
    )


def _recognise_pages(image: Image.Image, count: int, source: Source) -> Iterator[PageText]:
    with image:
        for number, frame in zip(range(1, count + 1), ImageSequence.Iterator(image), strict=False):
            yield _recognise_page(frame, number, source)


def _recognise_page(frame: Image.Image, number: int, source: Source) -> PageText:
    try:
        check_pixel_count(frame)
        upright = ImageOps.exif_transpose(frame)
        found = ocr.recognise_text(upright, source.ocr_languages)
        words = PageWords(number, upright.width, upright.height, found.words, WordSource.OCR)
        return PageText(found.text, number, ExtractionMethod.IMAGE_ANALYSIS, words=words)
    except (OSError, ValueError, SyntaxError, RuntimeError) as error:
        return PageText("", number, ExtractionMethod.IMAGE_ANALYSIS, f"Image {number} could not be read: {error}")
