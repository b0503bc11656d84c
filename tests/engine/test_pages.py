"""Drawn pages, words and the places of passages, in process and over HTTP."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from sqlalchemy import select, update

from knowledge.engine.api import Engine
from knowledge.engine.backup import restore_backup
from knowledge.engine.local import LocalEngine
from knowledge.errors import DocumentNotFound, InvalidParameter, NoPages, PageNotFound
from knowledge.extract.image.ocr import TurnedImage
from knowledge.extract.pages.packed_words import unpack_words
from knowledge.model import Content, Document, DocumentEdit, JobFilter, NewFile
from knowledge.model.pages import Box, PlacesNote, WordSource
from knowledge.store import schema
from knowledge.store.pages.words import PageWordStore
from knowledge.store.sqlite import SqliteDatabase
from tests.data.extract import documents
from tests.support import pdfs
from tests.support.engines import add_note, wait_until_done


async def add_bytes(engine: Engine, name: str, data: bytes, **more: object) -> Document:
    new = NewFile(filename=name, content=Content.from_bytes(data), **more)  # type: ignore[arg-type]
    job = await wait_until_done(engine, await engine.add(new))
    assert job.document_id is not None
    return await engine.document(job.document_id)


def overlaps(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def contains(outer: Box, inner: Box) -> bool:
    """Return whether the middle of a box is in another."""
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


async def test_a_page_of_a_pdf_is_drawn_as_webp(engine: Engine) -> None:
    data, _ = pdfs.make_columns(1)
    document = await add_bytes(engine, "harbour.pdf", data)
    listed = await engine.pages.sizes(document.id)
    assert (listed.page_count, [(page.page, page.width, page.height) for page in listed.pages]) == (1, [(1, 595, 842)])
    for width in (900, 1600):
        drawn = await engine.pages.image(document.id, 1, width)
        with Image.open(io.BytesIO(drawn.data)) as image:
            assert (image.format, image.width) == ("WEBP", width)
            assert abs(image.height - width * 842 / 595) < 2
            assert min(image.convert("L").tobytes()) < 100  # it has dark letters
    small = await engine.pages.thumbnail(document.id)
    with Image.open(io.BytesIO(small.data)) as image:
        assert image.width == 240


async def test_an_unknown_page_width_and_document_are_refused(engine: Engine) -> None:
    document = await add_bytes(engine, "harbour.pdf", pdfs.make_columns(1)[0])
    note = await add_note(engine, "A note has no pages")
    with pytest.raises(PageNotFound, match="no page 2: it has 1 page"):
        await engine.pages.image(document.id, 2, 900)
    with pytest.raises(PageNotFound):
        await engine.pages.words(document.id, 2)
    with pytest.raises(InvalidParameter):
        await engine.pages.image(document.id, 1, 901)
    with pytest.raises(DocumentNotFound):
        await engine.pages.image(999, 1, 900)
    with pytest.raises(NoPages):
        await engine.pages.sizes(note.id)
    with pytest.raises(NoPages):
        await engine.pages.thumbnail(note.id)
    assert (await engine.pages.places(note.id, 0, 0)).note is PlacesNote.NO_PAGES


async def test_the_words_of_a_page_have_boxes(engine: Engine) -> None:
    data, paragraphs = pdfs.make_columns(2)
    document = await add_bytes(engine, "harbour.pdf", data)
    found = await engine.pages.words(document.id, 1)
    assert (found.page, found.source) == (1, WordSource.TEXT)
    assert (
        " ".join(word.text for word in found.words[:5]) == paragraphs[0].text[: len("The orchard measures 10 barrels")]
    )
    first = len(paragraphs[0].text.split())
    assert all(contains(paragraphs[0].box, word.box) for word in found.words[:first])


# -- places ---------------------------------------------------------------------------------------


async def place_chunks(engine: Engine, document: Document) -> list[tuple[str, list[Box], float]]:
    """Return text, boxes and coverage of each chunk of a document of one page."""
    chunks = await engine.chunks(document.id)
    found = await engine.pages.places(document.id, 0, len(chunks) - 1)
    assert found.note is None
    by_chunk = {place.chunk: place for place in found.places}
    return [(chunk.text, [*by_chunk[chunk.index].boxes], by_chunk[chunk.index].coverage) for chunk in chunks]


def share_covered(words: list[Box], boxes: list[Box]) -> float:
    return sum(any(contains(box, word) for box in boxes) for word in words) / len(words)


async def check_paragraphs(
    engine: Engine, document: Document, paragraphs: list[pdfs.Paragraph], min_share: float = 0.95
) -> None:
    """Check that the boxes of each chunk cover the words of its paragraphs and touch no other paragraph."""
    page = await engine.pages.words(document.id, 1)
    placed = 0
    for text, boxes, coverage in await place_chunks(engine, document):
        own = [each for each in paragraphs if shares_words(each.text, text)]
        others = [each for each in paragraphs if each not in own]
        words = [word.box for word in page.words for each in own if contains(each.box, word.box)]
        if not words:
            continue
        placed += len(own)
        if all(" ".join(each.text.split()) in " ".join(text.split()) for each in own):
            assert share_covered(words, boxes) >= min_share, text
        assert coverage >= min_share
        assert [box for box in boxes for each in others if overlaps(each.box, box)] == []
    assert placed >= len(paragraphs)


def shares_words(paragraph: str, chunk: str) -> bool:
    """Return whether a chunk has a sentence of a paragraph; each sentence has a number of its own."""
    numbers = {word for word in paragraph.split() if word.isdigit()}
    return bool(numbers & set(chunk.replace("|", " ").split()))


@pytest.mark.parametrize(("columns", "rotate"), [(1, 0), (2, 0), (1, 90), (2, 180), (1, 270)])
async def test_the_boxes_of_a_passage_cover_its_words_and_no_other_paragraph(
    engine: Engine, columns: int, rotate: int
) -> None:
    data, paragraphs = pdfs.make_columns(columns, rotate)
    document = await add_bytes(engine, "harbour.pdf", data)
    await check_paragraphs(engine, document, paragraphs)


@pytest.mark.parametrize("by_column", [False, True])
async def test_the_boxes_of_a_table_cover_its_cells_and_no_other_paragraph(engine: Engine, by_column: bool) -> None:
    data, table, around = pdfs.make_table(by_column)
    document = await add_bytes(engine, "prices.pdf", data)
    await check_paragraphs(engine, document, [table, *around])


async def test_the_boxes_of_a_scan_cover_its_words_and_no_other_paragraph(engine: Engine) -> None:
    data, paragraphs = pdfs.make_scan()
    document = await add_bytes(engine, "scan.pdf", data)
    assert (await engine.pages.words(document.id, 1)).source is WordSource.OCR
    await check_paragraphs(engine, document, paragraphs, min_share=0.85)


@pytest.mark.parametrize("turned", [90, 180, 3])
async def test_the_boxes_of_a_turned_scan_are_on_the_page_as_it_is_drawn(engine: Engine, turned: int) -> None:
    image, paragraphs = pdfs.draw_scan(turned)
    document = await add_bytes(engine, "scan.png", documents.encode_image(image, "PNG"))
    turned_paragraphs = [replace(each, box=pdfs.turn_box(each.box, -turned % 360)) for each in paragraphs]
    await check_paragraphs(engine, document, turned_paragraphs, min_share=0.85)


async def test_the_frames_of_a_tiff_are_pages(engine: Engine) -> None:
    frames = [documents.draw_picture(f"Frame {word} of the harbour ledger") for word in ("one", "two", "three")]
    data = documents.encode_image(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    document = await add_bytes(engine, "ledger.tiff", data)
    assert (await engine.pages.sizes(document.id)).page_count == 3
    pictures = [(await engine.pages.image(document.id, page, 900)).data for page in (1, 2, 3)]
    assert len(set(pictures)) == 3
    assert "three" in [word.text for word in (await engine.pages.words(document.id, 3)).words]
    chunks = await engine.chunks(document.id)
    assert {place.page for place in (await engine.pages.places(document.id, 0, len(chunks) - 1)).places} == {1, 2, 3}


async def test_a_new_title_and_a_new_version_keep_boxes_in_step_with_the_pages(engine: Engine) -> None:
    first, second = (documents.encode_image(pdfs.draw_scan(turned)[0], "PNG") for turned in (0, 180))
    document = await add_bytes(engine, "scan.png", first, source_path="/scan.png")
    before = await engine.pages.words(document.id, 1)
    await engine.edit(document.id, DocumentEdit(title="Another title"))
    await wait_for_jobs(engine)
    assert await engine.pages.words(document.id, 1) == before
    assert (await add_bytes(engine, "scan.png", second, source_path="/scan.png")).id == document.id
    assert (await engine.pages.words(document.id, 1)).words[0].box[1] > 0.5  # upside down


async def wait_for_jobs(engine: Engine) -> None:
    for job in (await engine.jobs(JobFilter())).items:
        await wait_until_done(engine, job)


def test_a_box_of_a_turned_image_is_found_on_the_page() -> None:
    page = Image.new("L", (1000, 600))
    for degrees in (0, 90, 180, 270, 7):
        turned = TurnedImage(page, page.size).rotate(degrees)
        middle = turned.image.width // 2, turned.image.height // 2
        box = turned.locate(middle[0] - 10, middle[1] - 5, middle[0] + 10, middle[1] + 5)
        assert (box[0] + box[2]) / 2 == pytest.approx(0.5, abs=0.01)
        assert (box[1] + box[3]) / 2 == pytest.approx(0.5, abs=0.01)


async def test_a_passage_over_a_page_break_has_boxes_on_both_pages(engine: Engine) -> None:
    pdf = documents.Pdf()
    first = [(72, 760 - 20 * row, 11, line) for row, line in enumerate(pdfs.write_sentences(31, 20))]
    pdf.text(*first, (72, 100, 22, "Chapter of lighthouses"))
    pdf.text(*((72, 760 - 20 * row, 11, line) for row, line in enumerate(pdfs.write_sentences(32, 8))))
    document = await add_bytes(engine, "break.pdf", pdf.to_bytes())
    chunks = await engine.chunks(document.id)
    (index,) = (chunk.index for chunk in chunks if "Chapter of lighthouses" in chunk.text)
    found = await engine.pages.places(document.id, index, index)
    assert [place.page for place in found.places] == [1, 2]
    assert {place.coverage for place in found.places} == {1.0}
    heading, body = found.places
    assert [round(box[1], 2) for box in heading.boxes] == [pytest.approx(1 - 118 / 842, abs=0.02)]
    assert len(body.boxes) == 8
    everything = await engine.pages.places(document.id, 0, len(chunks) - 1)
    assert {(place.chunk, place.page) for place in everything.places} >= {(0, 1), (index, 1), (index, 2)}


async def test_damaged_boxes_are_found_by_verify_and_hurt_nothing_else(engine: Engine, local: LocalEngine) -> None:
    document = await add_bytes(engine, "scan.png", documents.encode_image(pdfs.draw_scan()[0], "PNG"))
    assert await engine.verify() == []
    values = update(schema.page_words).values(data=b"damaged")
    local._parts.database.write(lambda connection: connection.execute(values))
    (finding,) = await engine.verify()
    assert (finding.part, finding.document_id) == ("store", document.id)
    assert (await engine.pages.words(document.id, 1)).source is WordSource.NONE
    assert (await engine.pages.places(document.id, 0, 0)).places[0].boxes == ()


async def test_boxes_go_with_their_document_and_come_back_with_a_backup(
    engine: Engine, local: LocalEngine, tmp_path: Path
) -> None:
    document = await add_bytes(engine, "scan.png", documents.encode_image(pdfs.draw_scan()[0], "PNG"))
    words = await engine.pages.words(document.id, 1)
    archive = tmp_path / "backup.tar"
    archive.write_bytes(b"".join([piece async for piece in (await engine.backup()).pieces]))
    await engine.remove(document.id)
    with local._parts.database.read() as connection:
        assert connection.execute(select(schema.page_words)).all() == []
    with archive.open("rb") as file:
        restore_backup(file, tmp_path / "restored")
    restored = SqliteDatabase(tmp_path / "restored" / "knowledge.db")
    (data,) = PageWordStore(restored).find(document.id, [1]).values()
    restored.close()
    assert unpack_words(data, 1) == words


# -- titles ---------------------------------------------------------------------------------------


async def test_a_pdf_is_titled_by_its_metadata_its_first_heading_or_its_file_name(engine: Engine) -> None:
    def make(info: bytes, heading: bool) -> bytes:
        pdf = documents.Pdf()
        pdf.info = info
        lines = [(72, 700 - 20 * row, 11, sentence) for row, sentence in enumerate(pdfs.write_sentences(len(info), 8))]
        pdf.text(*([(72, 760, 24, "Tides of the harbour")] if heading else []), *lines)
        return pdf.to_bytes()

    expected = {
        "metadata.pdf": (make(b"/Title (Tide tables)", True), "Tide tables"),
        "heading.pdf": (make(b"/Title (Microsoft Word - heading.doc)", True), "Tides of the harbour"),
        "Harbour notes.pdf": (make(b"", False), "Harbour notes"),
    }
    for name, (data, title) in expected.items():
        assert (await add_bytes(engine, name, data)).title == title
    given = await add_bytes(engine, "given.pdf", make(b"/Title (Other tables)", True), title="Given")
    assert given.title == "Given"
