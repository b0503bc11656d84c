"""Images and SVG drawings as pictures of pages; runs in the sandboxed child."""

from __future__ import annotations

from typing import cast

from PIL import Image, ImageOps

from knowledge import errors
from knowledge.extract.base import Source
from knowledge.extract.image import reader, svg
from knowledge.extract.pages.page_reader import check_page_number
from knowledge.extract.pages.pdf_pages import choose_scale
from knowledge.model.pages import PageSize

SVG_TYPE = "svg"
SVG_PROBE_PIXELS = 1000
"""Width at which the shape of a drawing is measured."""


def list_page_sizes(source: Source, doc_type: str, first: int, last: int) -> tuple[int, list[PageSize]]:
    if doc_type == SVG_TYPE:
        size = svg.render_drawing(source, SVG_PROBE_PIXELS).size
        return 1, [PageSize(1, *map(float, size))] if first <= 1 <= last else []
    image = reader.open_image(source)
    count = reader.count_pages(image)
    return count, [_measure_frame(image, number) for number in range(first, min(last, count) + 1)]


def draw_page(source: Source, doc_type: str, number: int, width: int) -> Image.Image:
    """Return a page at most this wide; a small image is not enlarged."""
    if doc_type == SVG_TYPE:
        check_page_number(number, 1)
        return scale_down(svg.render_drawing(source, width, with_fonts=True).convert("RGB"), width)
    image = reader.open_image(source)
    check_page_number(number, reader.count_pages(image))
    try:
        image.seek(number - 1)
        reader.check_pixel_count(image)
        image.draft("RGB", (2 * width, 2 * width * image.height // max(1, image.width)))  # decodes a JPEG smaller
        return scale_down(_flatten(ImageOps.exif_transpose(image)), width)
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise errors.Damaged(f"Image {number} cannot be read: {error}", page=number) from error


def scale_down(image: Image.Image, width: int) -> Image.Image:
    scale = min(1.0, choose_scale(image.width, image.height, width))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image if size == image.size else image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _measure_frame(image: Image.Image, number: int) -> PageSize:
    try:
        image.seek(number - 1)
        turned = image.getexif().get(reader.EXIF_ORIENTATION) in reader.TURNED_ORIENTATIONS
    except (OSError, ValueError, SyntaxError, EOFError):
        return PageSize(number, 0.0, 0.0)
    width, height = (image.height, image.width) if turned else image.size
    return PageSize(number, float(width), float(height))


def _flatten(image: Image.Image) -> Image.Image:
    """Return an image in RGB, on white where it is transparent."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    if image.mode.startswith(("I", "F")):
        low, high = cast("tuple[float, float]", image.getextrema())
        span = max(high - low, 1.0)
        return image.point(lambda value: (value - low) * 255 / span).convert("RGB")
    return image.convert("RGB")
