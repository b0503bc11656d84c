"""Hostile documents are drawn within limits, or refused with a clear error, and never in the server process."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from knowledge import errors
from knowledge.extract.base import Source
from knowledge.extract.pages.page_reader import PageReader
from knowledge.extract.pages.pdf_pages import MAX_PIXELS, MAX_SIDE_PIXELS
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.process.parsers import Parsers
from knowledge.testing import SharedParsers
from tests.data.extract import documents
from tests.support import pdfs

WORDS = b"BT /F1 12 Tf 10 10 Td (The breakwater is to be mended) Tj ET"


def write(tmp_path: Path, data: bytes, name: str) -> Source:
    path = tmp_path / "original"
    path.write_bytes(data)
    return Source(path, name)


def draw(parsers: Parsers, source: Source, width: int = 1600) -> Image.Image:
    data = PageReader(parsers).draw_page(source, source.suffix.lstrip("."), 1, width)
    return Image.open(io.BytesIO(data))


def make_sized(size: bytes, rotate: bytes = b"0") -> bytes:
    pdf = documents.Pdf()
    pdf.page(WORDS)
    page = pdf.to_bytes().replace(b"/MediaBox [0 0 595 842]", b"/MediaBox [%s]" % size)
    return page.replace(b"/Rotate 0", b"/Rotate " + rotate)


@pytest.mark.parametrize(
    "size", [b"0 0 14400 14400", b"0 0 1 14400", b"0 0 14400 1", b"0 0 1e9 1e9", b"0 0 3 9e8", b"0 0 0.01 0.01"]
)
def test_a_page_of_any_size_has_a_limited_number_of_pixels(parsers: SharedParsers, tmp_path: Path, size: bytes) -> None:
    source = write(tmp_path, make_sized(size), "a.pdf")
    try:
        image = draw(parsers, source)
    except errors.KnowledgeError as error:
        assert isinstance(error, errors.Unreadable), error
        return
    assert image.width <= 1600
    assert image.height <= MAX_SIDE_PIXELS
    assert image.width * image.height <= MAX_PIXELS


@pytest.mark.parametrize("size", [b"0 0 0 0", b"100 100 0 0", b"0 0 -595 -842", b"nan nan nan nan", b"0 0"])
def test_a_page_without_a_size_is_drawn_or_refused(parsers: SharedParsers, tmp_path: Path, size: bytes) -> None:
    source = write(tmp_path, make_sized(size), "a.pdf")
    reader = PageReader(parsers)
    (page,) = reader.list_pages(source, "pdf", 1, 10).pages
    assert page.width >= 0
    try:
        assert draw(parsers, source).width <= 1600
    except errors.Damaged as error:
        assert "has no size" in str(error)
    assert all(
        0 <= share <= 1 for found in reader.read_words(source, [1]) for word in found.words for share in word.box
    )


@pytest.mark.parametrize("rotate", [b"45", b"-90", b"450", b"36000090", b"99999999999999999999", b"/Name", b"[90]"])
def test_a_strange_rotation_turns_picture_and_words_alike(
    parsers: SharedParsers, tmp_path: Path, rotate: bytes
) -> None:
    source = write(tmp_path, make_sized(b"0 0 595 842", rotate), "a.pdf")
    image = draw(parsers, source, 900).convert("L")
    (found,) = PageReader(parsers).read_words(source, [1])
    assert found.words
    for word in found.words:
        left, top, right, bottom = (round(share * side) for share, side in zip(word.box, image.size * 2, strict=True))
        cut = image.crop((left - 2, top - 2, right + 2, bottom + 2))
        assert min(cut.tobytes()) < 128, f"no ink at {word}"


def test_a_locked_or_damaged_document_is_refused_with_its_reason(parsers: SharedParsers, tmp_path: Path) -> None:
    reader = PageReader(parsers)
    pdf = documents.Pdf()
    pdf.page(WORDS)
    locked = write(tmp_path, pdf.locked("secret"), "a.pdf")
    for call in (lambda: reader.list_pages(locked, "pdf", 1, 1), lambda: reader.draw_page(locked, "pdf", 1, 900)):
        with pytest.raises(errors.NeedsPassword):
            call()
    whole = pdfs.make_columns(1)[0]
    for broken in (whole[:300], b"%PDF-1.7\n" + b"\0" * 500, b""):
        with pytest.raises(errors.Damaged):
            reader.draw_page(write(tmp_path, broken, "a.pdf"), "pdf", 1, 900)
    scan = documents.encode_image(pdfs.draw_scan()[0], "PNG")
    with pytest.raises(errors.Damaged):
        reader.draw_page(write(tmp_path, scan[: len(scan) // 2], "a.png"), "png", 1, 900)


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(parsers: SharedParsers, tmp_path: Path) -> None:
    source = write(tmp_path, documents.png_claiming(60_000, 60_000), "a.png")
    with pytest.raises(errors.ParserTooBig, match="60000 x 60000 pixels"):
        PageReader(parsers).draw_page(source, "png", 1, 900)


def test_an_svg_is_drawn_without_what_it_refers_to(parsers: SharedParsers, tmp_path: Path) -> None:
    svg = b"""<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="40" height="20">
    <image href="file:///etc/passwd" width="9" height="9"/><image xlink:href="http://127.0.0.1:1/a.png" width="9"/>
    <script>alert(1)</script><rect x="10" width="10" height="20" fill="black"/></svg>"""
    image = draw(parsers, write(tmp_path, svg, "a.svg"), 900).convert("L")
    assert image.size == (900, 450)
    assert (image.getpixel((340, 200)), image.getpixel((800, 200))) == (0, 255)
    tall = b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1000000000"><rect width="1" height="9"/></svg>'
    with pytest.raises(errors.Unreadable):
        draw(parsers, write(tmp_path, tall, "a.svg"))


def test_drawing_that_takes_too_long_or_too_much_memory_ends(tmp_path: Path) -> None:
    slow = b"q " + b"1 0 0 1 0 0 cm 0 0 595 842 re W n " * 200_000 + b"/P sh Q"
    pdf = documents.Pdf()
    pdf.page(slow)
    source = write(tmp_path, pdf.to_bytes(), "a.pdf")
    scan = documents.encode_image(Image.new("RGB", (9000, 9000)), "BMP")
    with Parsers(ParserLimits(seconds=0.01, memory_bytes=60 << 20)) as parsers:
        reader = PageReader(parsers)
        with pytest.raises((errors.ParserTooSlow, errors.ParserTooBig)):
            reader.draw_page(source, "pdf", 1, 1600)
        with pytest.raises((errors.ParserTooSlow, errors.ParserTooBig)):
            reader.draw_page(write(tmp_path, scan, "a.bmp"), "bmp", 1, 1600)


def test_a_scale_never_exceeds_the_width() -> None:
    from knowledge.extract.pages.pdf_pages import choose_scale

    for width, height in ((595.0, 842.0), (1.0, 14400.0), (14400.0, 1.0), (1e9, 1e9), (1e-3, 1e-3)):
        scale = choose_scale(width, height, 1600)
        assert width * scale <= 1600
        assert width * height * scale * scale <= MAX_PIXELS
