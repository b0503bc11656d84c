"""Every document format gives its text in reading order, with pages, headings, tables and metadata."""

from __future__ import annotations

import random
from pathlib import Path

import office_oxide
import pytest
from PIL import Image, ImageChops, ImageOps

from knowledge import errors
from knowledge.extract.base import Source
from knowledge.extract.zip_bundle import read_members
from knowledge.model import ExtractionMethod
from tests.data.extract import documents
from tests.data.extract.read_sample import join_text, read_pages

SENTENCES = (
    "The quick brown fox jumps over the lazy dog",
    "and runs away into the dark forest at night",
    "where nobody will ever find it again, they say",
    "until the morning comes with golden light",
)


# -- PDF ----------------------------------------------------------------------------------------


def report() -> documents.Pdf:
    pdf = documents.Pdf()
    pdf.text((72, 760, 11, "Annual Results"), (72, 720, 11, "Income rose in the third quarter of the year."))
    pdf.text((72, 760, 11, "What comes next (soon)"), (72, 700, 11, "We expect more of the same next year."))
    return pdf


def test_a_pdf_gives_its_pages_and_facts(tmp_path: Path) -> None:
    pdf = report()
    pdf.info = b"/Title (The Report) /Author (Ada) /CreationDate (D:20240301120000+01'00')"
    facts, pages = read_pages(tmp_path, "a.pdf", pdf.to_bytes())
    assert (facts.title, facts.author, facts.language, facts.page_count) == ("The Report", "Ada", "en-GB", 2)
    assert facts.metadata["created"] == "2024-03-01T12:00:00+01:00"
    assert [page.number for page in pages] == [1, 2]
    assert "third quarter" in pages[0].text
    assert "next year" in pages[1].text


def test_the_outline_of_a_pdf_makes_headings(tmp_path: Path) -> None:
    pdf = report()
    pdf.outline(("Annual Results", 1), ("Nowhere on the page", 2), ("What comes next (soon)", 2))
    _, pages = read_pages(tmp_path, "a.pdf", pdf.to_bytes())
    assert "# Annual Results" in pages[0].text.splitlines()
    assert pages[1].text.splitlines()[0] == "# Nowhere on the page"
    assert "# What comes next (soon)" in pages[1].text.splitlines()


def test_two_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    left = [f"Left column line {word} of the first story" for word in ("one", "two", "three", "four", "five", "six")]
    right = [f"Right column line {word} of the second story" for word in ("one", "two", "three", "four", "five", "six")]
    pdf = documents.Pdf()
    lines = [(50, 700 - 14 * place, 9, line) for place, line in enumerate(left)]
    lines += [(320, 700 - 14 * place, 9, line) for place, line in enumerate(right)]
    pdf.text(*lines)
    text = join_text(read_pages(tmp_path, "a.pdf", pdf.to_bytes())[1])
    places = [text.replace("\n", " ").find(line) for line in (*left, *right)]
    assert -1 not in places
    assert places == sorted(places)


def test_a_scanned_page_is_recognised_and_says_so(tmp_path: Path) -> None:
    pdf = report()
    pdf.picture(documents.draw_picture(*SENTENCES, size=(1654, 2339)))
    _, pages = read_pages(tmp_path, "a.pdf", pdf.to_bytes())
    assert [page.method for page in pages] == [
        ExtractionMethod.TEXT_EXTRACTION,
        ExtractionMethod.TEXT_EXTRACTION,
        ExtractionMethod.OCR,
    ]
    assert "quick brown fox jumps over the lazy dog" in pages[2].text


def test_force_ocr_recognises_every_page(tmp_path: Path) -> None:
    pdf = documents.Pdf()
    pdf.text(*((72, 760 - 30 * place, 14, line) for place, line in enumerate(SENTENCES)))
    _, pages = read_pages(tmp_path, "a.pdf", pdf.to_bytes(), force_ocr=True)
    assert pages[0].method is ExtractionMethod.OCR
    assert "jumps over the lazy dog" in pages[0].text


def test_a_missing_language_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(errors.MissingDependency) as caught:
        read_pages(tmp_path, "a.pdf", report().to_bytes(), force_ocr=True, ocr_languages="eng+tlh")
    assert caught.value.hint == "pip install tessdata.tlh"


def test_a_form_gives_what_was_entered(tmp_path: Path) -> None:
    pdf = documents.Pdf()
    field = pdf.add(
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (city) /TU (City of birth) /V (Besan\xe7on) "
        b"/Rect [72 600 300 620] >>"
    )
    pdf.extra = b" /AcroForm << /Fields [%d 0 R] >>" % field
    pdf.text((72, 760, 12, "Application for a passport"))
    data = pdf.to_bytes().replace(b"/Type /Page /", b"/Annots [%d 0 R] /Type /Page /" % field)
    assert "City of birth: Besançon" in join_text(read_pages(tmp_path, "a.pdf", data)[1])


def test_a_blank_page_is_a_page(tmp_path: Path) -> None:
    pdf = documents.Pdf()
    pdf.text()
    pdf.text((72, 760, 12, "The second page has words"))
    facts, pages = read_pages(tmp_path, "a.pdf", pdf.to_bytes())
    assert facts.page_count == 2
    assert [bool(page.text.strip()) for page in pages] == [False, True]


# -- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("turned", [0, 6, 90, 180, 270])
def test_a_rotated_picture_is_read(tmp_path: Path, turned: int) -> None:
    facts, pages = read_pages(
        tmp_path, "a.png", documents.encode_image(documents.draw_picture(*SENTENCES, turned=turned), "PNG")
    )
    assert (facts.page_count, pages[0].method) == (1, ExtractionMethod.IMAGE_ANALYSIS)
    assert "quick brown fox" in pages[0].text
    assert "forest at night" in pages[0].text


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP"])
def test_every_kind_of_picture_is_read(tmp_path: Path, kind: str) -> None:
    image = documents.draw_picture(*SENTENCES[:2], size=(1300, 400)).convert("RGB")
    _, pages = read_pages(tmp_path, f"a.{kind.lower()}", documents.encode_image(image, kind))
    assert "lazy dog" in pages[0].text


@pytest.mark.parametrize("ink", [0, 255])
def test_black_and_white_text_on_a_transparent_background_is_read(tmp_path: Path, ink: int) -> None:
    words = documents.draw_picture(*SENTENCES[:2], size=(1300, 400))
    image = Image.merge("LA", (Image.new("L", words.size, ink), ImageOps.invert(words)))
    assert "lazy dog" in join_text(read_pages(tmp_path, "a.png", documents.encode_image(image, "PNG"))[1])


def test_a_cmyk_picture_is_read(tmp_path: Path) -> None:
    image = documents.draw_picture(*SENTENCES[:2], size=(1300, 400)).convert("CMYK")
    assert "lazy dog" in join_text(read_pages(tmp_path, "a.jpg", documents.encode_image(image, "JPEG"))[1])


def test_noise_between_the_letters_does_not_hide_them(tmp_path: Path) -> None:
    clean = documents.draw_picture(*SENTENCES).convert("L")
    noise = Image.frombytes("L", clean.size, random.Random(5).randbytes(clean.width * clean.height))
    grainy = ImageChops.add(clean, noise, offset=-128)
    _, [page] = read_pages(tmp_path, "a.png", documents.encode_image(grainy, "PNG"))
    assert "runs away into the dark forest" in page.text


def test_a_tiff_has_a_page_for_each_picture(tmp_path: Path) -> None:
    frames = [documents.draw_picture(line, line, size=(1300, 400)) for line in SENTENCES[:2]]
    data = documents.encode_image(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    facts, pages = read_pages(tmp_path, "a.tif", data)
    assert facts.page_count == 2
    assert ["lazy dog" in pages[0].text, "dark forest" in pages[1].text] == [True, True]


def test_a_picture_without_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.NoText):
        read_pages(tmp_path, "a.png", documents.encode_image(documents.draw_picture(), "PNG"))


def test_a_drawing_gives_its_words(tmp_path: Path) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><title>Plan</title><text>Kitchen <tspan>North</tspan></text></svg>'
    facts, pages = read_pages(tmp_path, "a.svg", svg.encode())
    assert (facts.title, join_text(pages).split("\n")[:2]) == ("Plan", ["Plan", "Kitchen North"])


def test_lines_of_a_drawing_do_not_run_into_each_other(tmp_path: Path) -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg"><text><tspan x="1" y="1">First line</tspan><tspan x="1" dy="9">second'
        "</tspan></text><foreignObject><div><p>Page words</p><p>more</p></div></foreignObject></svg>"
    )
    assert join_text(read_pages(tmp_path, "a.svg", svg.encode())[1]).split("\n")[:2] == [
        "First line second",
        "Page words more",
    ]


def test_a_drawing_without_text_elements_is_recognised_by_ocr(tmp_path: Path) -> None:
    import base64

    picture = base64.b64encode(documents.encode_image(documents.draw_picture(*SENTENCES), "PNG")).decode()
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="484">'
        f'<image width="800" height="484" href="data:image/png;base64,{picture}"/></svg>'
    )
    _, pages = read_pages(tmp_path, "a.svg", svg.encode())
    assert pages[0].method is ExtractionMethod.IMAGE_ANALYSIS
    assert "brown fox" in pages[0].text


# -- Office ---------------------------------------------------------------------------------------

MARKDOWN = "# Handbook\n\nFirst words.\n\n## Rules\n\n- one\n- two\n\n| Name | Price |\n| --- | --- |\n| Tea | 12 |\n"


def office(tmp_path: Path, kind: str, markdown: str = MARKDOWN) -> bytes:
    path = tmp_path / f"made.{kind}"
    office_oxide.create_from_markdown(markdown, kind, str(path))
    return path.read_bytes()


def test_a_word_document_keeps_headings_lists_and_tables(tmp_path: Path) -> None:
    facts, pages = read_pages(tmp_path, "a.docx", office(tmp_path, "docx"))
    lines = join_text(pages).splitlines()
    assert facts.title == "Handbook"
    for line in ("# Handbook", "## Rules", "- two", "| Tea | 12 |"):
        assert line in lines


def test_slides_are_pages(tmp_path: Path) -> None:
    writer = office_oxide.PptxWriter()
    for title in ("First slide", "Second slide"):
        slide = writer.add_slide()
        writer.set_slide_title(slide, title)
        writer.add_slide_text(slide, f"Words on the {title.lower()}")
    facts, pages = read_pages(tmp_path, "a.pptx", writer.to_bytes())
    assert facts.page_count == 2
    assert [page.text.split("\n\n")[:2] for page in pages] == [
        ["## First slide", "Words on the first slide"],
        ["## Second slide", "Words on the second slide"],
    ]


def workbook(rows: int) -> bytes:
    writer = office_oxide.XlsxWriter()
    first = writer.add_sheet("Prices")
    writer.set_cell(first, 0, 0, "Price list for the spring")
    for column, name in enumerate(("Name", "Price", "Origin")):
        writer.set_cell(first, 2, column, name)
    for row in range(rows):
        writer.set_cell(first, row + 3, 0, f"Tea {row}")
        writer.set_cell(first, row + 3, 1, row + 0.5)
        writer.set_cell(first, row + 3, 2, "Uji | Japan")
    second = writer.add_sheet("Notes")
    writer.set_cell(second, 0, 0, "Nothing else")
    return bytes(writer.to_bytes())


def test_sheets_are_pages_and_rows_keep_their_header(tmp_path: Path) -> None:
    facts, pages = read_pages(tmp_path, "a.xlsx", workbook(3))
    assert facts.page_count == 2
    lines = pages[0].text.splitlines()
    assert lines[0] == "## Prices"
    assert "Price list for the spring" in lines
    assert lines[lines.index("| Name | Price | Origin |") + 1] == "| --- | --- | --- |"
    assert "| Tea 2 | 2.5 | Uji \\| Japan |" in lines
    assert (pages[-1].number, "Nothing else" in pages[-1].text) == (2, True)


def test_every_piece_of_a_long_sheet_repeats_its_header(tmp_path: Path) -> None:
    _, pages = read_pages(tmp_path, "a.xlsx", workbook(6000))
    pieces = [page.text for page in pages if page.number == 1]
    assert len(pieces) > 2
    assert all("| Name | Price | Origin |\n| --- | --- | --- |" in piece for piece in pieces)
    assert sum(piece.count("Uji") for piece in pieces) == 6000


def test_a_document_with_the_suffix_of_another_format_is_read(tmp_path: Path) -> None:
    facts, pages = read_pages(tmp_path, "a.pdf", office(tmp_path, "docx"))
    assert (facts.doc_type, "# Handbook" in join_text(pages)) == ("docx", True)
    facts, _ = read_pages(tmp_path, "a.docx", report().to_bytes())
    assert facts.doc_type == "pdf"


def test_a_web_page_saved_as_a_workbook_is_read_as_a_page(tmp_path: Path) -> None:
    html = b"<html><body><table><tr><td>Tea</td><td>12</td></tr></table></body></html>"
    facts, pages = read_pages(tmp_path, "report.xls", html)
    assert (facts.doc_type, "Tea" in join_text(pages)) == ("html", True)


# -- OpenDocument, RTF, EPUB ----------------------------------------------------------------------


def test_an_opendocument_text_keeps_its_structure(tmp_path: Path) -> None:
    body = (
        '<office:text><text:h text:outline-level="2">Rules</text:h><text:p>Some<text:s text:c="2"/>words'
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A footnote</text:p>"
        "</text:note-body></text:note>.</text:p><text:list><text:list-item><text:p>one</text:p><text:list>"
        "<text:list-item><text:p>deep</text:p></text:list-item></text:list></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>Name</text:p></table:table-cell></table:table-row>"
        "<table:table-row><table:table-cell><text:p>Tea</text:p></table:table-cell></table:table-row></table:table>"
        "</office:text>"
    )
    facts, pages = read_pages(tmp_path, "a.odt", documents.make_opendocument("text", body))
    assert (facts.title, facts.author, facts.language) == ("The title", "Ada", "en")
    assert facts.metadata["created"] == "2024-03-01T10:00:00"
    assert join_text(pages).split("\n\n")[:3] == ["## Rules", "Some  words [A footnote].", "- one\n  - deep"]
    assert "| Tea |" in join_text(pages)


def test_opendocument_slides_are_pages_with_notes(tmp_path: Path) -> None:
    slides = "".join(
        f'<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Slide {word}</text:p>'
        f"</draw:text-box></draw:frame><presentation:notes><text:p>Say {word}</text:p></presentation:notes></draw:page>"
        for word in ("one", "two")
    )
    facts, pages = read_pages(
        tmp_path,
        "a.odp",
        documents.make_opendocument("presentation", f"<office:presentation>{slides}</office:presentation>"),
    )
    assert facts.page_count == 2
    assert pages[1].text == "## Slide two\n\nNotes: Say two"


def test_an_opendocument_sheet_shows_dates_as_dates(tmp_path: Path) -> None:
    sheet = (
        '<office:spreadsheet><table:table table:name="Trips"><table:table-row><table:table-cell><text:p>Day</text:p>'
        "</table:table-cell><table:table-cell><text:p>Place</text:p></table:table-cell></table:table-row>"
        '<table:table-row><table:table-cell office:date-value="2024-05-01"><text:p>1. Mai</text:p></table:table-cell>'
        "<table:table-cell><text:p>Oslo</text:p></table:table-cell>"
        '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="1000000"><table:table-cell/></table:table-row>'
        "</table:table></office:spreadsheet>"
    )
    _, pages = read_pages(tmp_path, "a.ods", documents.make_opendocument("spreadsheet", sheet))
    assert pages[0].text == "## Trips\n\n| Day | Place |\n| --- | --- |\n| 2024-05-01 | Oslo |"


def test_rtf_keeps_headings_tables_footnotes_and_foreign_letters(tmp_path: Path) -> None:
    rtf = (
        r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset128 MS Mincho;}{\f2\fcharset204 Arial;}}"
        r"{\stylesheet{\s1 heading 1;}{\s0 Normal;}}{\info{\title The title}{\author Ada}}{\*\generator Word}"
        r"\pard\s1 Rules\par\pard\plain Stra\'dfe and \u8364?uro{\footnote\pard A footnote.}\par"
        r"{\f1 \'93\'fa\'96\'7b} {\f2 \'cc\'ee\'f1\'ea\'e2\'e0}\par{\v hidden}{\deleted gone}"
        r"{\listtext\'b7\tab}one\par\trowd Name\cell Price\cell\row\trowd Tea\cell 12\cell\row\pard End\par"
        r"{\field{\*\fldinst HYPERLINK http://x}{\fldrslt a link}}\par{\pict 0102ff}}"
    )
    facts, pages = read_pages(tmp_path, "a.rtf", rtf.encode("ascii"))
    assert (facts.title, facts.author) == ("The title", "Ada")
    assert join_text(pages).strip().split("\n\n") == [
        "# Rules",
        "Straße and €uro [A footnote.]",
        "日本 Москва",
        "- one",
        "| Name | Price |\n| --- | --- |\n| Tea | 12 |",
        "End",
        "a link",
    ]


def test_the_chapters_of_a_book_are_pages(tmp_path: Path) -> None:
    chapters = {"one.xhtml": "<h1>Chapter I</h1><p>It began.</p>", "two.xhtml": "<h1>Chapter II</h1><p>It ended.</p>"}
    facts, pages = read_pages(tmp_path, "a.epub", documents.make_epub(chapters))
    assert (facts.title, facts.author, facts.language, facts.page_count) == ("A Book", "Ada", "en", 2)
    assert [page.text for page in pages] == ["# Chapter I\n\nIt began.\n", "# Chapter II\n\nIt ended.\n"]


def test_a_chapter_without_a_heading_gets_the_one_from_the_contents(tmp_path: Path) -> None:
    chapters = {"one two.xhtml": "<p>It began.</p>", "two.xhtml": "<h2>Its own</h2><p>It ended.</p>"}
    links = '<li><a href="one%20two.xhtml#top">The beginning</a></li><li><a href="two.xhtml">The end</a></li>'
    points = "".join(
        f'<navPoint><navLabel><text>{title}</text></navLabel><content src="{name}"/></navPoint>'
        for title, name in (("The beginning", "one%20two.xhtml"), ("The end", "two.xhtml"))
    )
    new = (
        '<item properties="nav" href="nav.xhtml"/>',
        {"OPS/nav.xhtml": f"<html><body><nav><ol>{links}</ol></nav></body></html>"},
    )
    old = (
        '<item media-type="application/x-dtbncx+xml" href="toc.ncx"/>',
        {"OPS/toc.ncx": f"<ncx><navMap>{points}</navMap></ncx>"},
    )
    for item, more in (new, old):
        _, pages = read_pages(tmp_path, "a.epub", documents.make_epub(chapters, item=item, **more))
        assert [page.text for page in pages] == ["# The beginning\n\nIt began.\n", "## Its own\n\nIt ended.\n"]


# -- mail -----------------------------------------------------------------------------------------

MAIL = """From: =?utf-8?q?Ad=C3=A9le?= <ada@example.org>
To: Grace <grace@example.org>
Subject: =?utf-8?b?VGVlIGbDvHIgQWxsZQ==?=
Date: Fri, 01 Mar 2024 12:00:00 +0100
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b1

--b1
Content-Type: multipart/alternative; boundary=b2

--b2
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Der Tee ist f=FCr alle da.
--b2
Content-Type: text/html

<p>The other body</p>
--b2--
--b1
Content-Type: text/csv; name="../../prices.csv"
Content-Disposition: attachment; filename="../../prices.csv"

Name,Price
Tea,12
--b1
Content-Type: application/zip; name="more.zip"
Content-Disposition: attachment; filename="more.zip"
Content-Transfer-Encoding: base64

UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==
--b1--
"""


def test_a_mail_gives_headers_body_and_attachments(tmp_path: Path) -> None:
    facts, pages = read_pages(tmp_path, "a.eml", MAIL.encode())
    text = join_text(pages)
    assert (facts.title, facts.author) == ("Tee für Alle", "Adéle <ada@example.org>")
    assert facts.metadata["created"] == "2024-03-01T12:00:00+01:00"
    for part in ("# Tee für Alle", "To: Grace <grace@example.org>", "Der Tee ist für alle da.", "| Tea | 12 |"):
        assert part in text
    assert "## Attachment: prices.csv" in text
    assert ("The other body" in text, ".." in text) == (False, False)


def test_a_mail_with_html_alone_gives_its_words(tmp_path: Path) -> None:
    body = b"<h2>News</h2><p>Caf\xc3\xa9 opens</p><script>x</script>"
    mail = b"Subject: Hi\nContent-Type: text/html; charset=utf-8\n\n" + body
    text = join_text(read_pages(tmp_path, "a.eml", mail)[1])
    assert "## News" in text
    assert "Café opens" in text
    assert "x</script>" not in text


def multipart(kind: str, *parts: tuple[str, str]) -> bytes:
    """Return a multipart mail; each part has headers and a body."""
    bodies = "".join(f"--b\n{head}\n\n{words}\n" for head, words in parts)
    return (
        f"Subject: Harbour\nMIME-Version: 1.0\nContent-Type: multipart/{kind}; boundary=b\n\n{bodies}--b--\n".encode()
    )


def test_a_plain_text_that_only_points_to_the_html_is_not_the_best_body(tmp_path: Path) -> None:
    html = f"<p>{'The breakwater was surveyed in spring. ' * 20}</p>"
    stub = "Your program cannot show HTML."
    mail = multipart("alternative", ("Content-Type: text/plain", stub), ("Content-Type: text/html", html))
    text = join_text(read_pages(tmp_path, "a.eml", mail)[1])
    assert ("surveyed in spring" in text, stub in text) == (True, False)


def test_every_text_part_of_a_multipart_mail_is_read(tmp_path: Path) -> None:
    plain = "Content-Type: text/plain"
    text = join_text(
        read_pages(tmp_path, "a.eml", multipart("mixed", (plain, "First words"), (plain, "Second words")))[1]
    )
    assert ("First words" in text, text.count("Second words")) == (True, 1)


def test_an_attached_mail_is_read_without_its_own_attachments(tmp_path: Path) -> None:
    inner = multipart(
        "mixed",
        ("Content-Type: text/plain", "Forwarded words"),
        ("Content-Type: text/plain\nContent-Disposition: attachment; filename=deep.txt", "Too deep"),
    ).decode()
    outer = multipart("mixed", ("Content-Type: text/plain", "See below"), ("Content-Type: message/rfc822", inner))
    outer = outer.replace(b"boundary=b\n", b"boundary=outer\n", 1).replace(b"--b\n", b"--outer\n", 2)
    outer = outer[: outer.rindex(b"--b--")] + b"--outer--\n"
    text = join_text(read_pages(tmp_path, "a.eml", outer)[1])
    assert ("See below" in text, "## Attachment: Harbour.eml" in text, "Forwarded words" in text) == (True, True, True)
    assert "Too deep" not in text


def test_an_rfc_2231_file_name_is_decoded(tmp_path: Path) -> None:
    name = "filename*0*=UTF-8''Preis%20;\n filename*1*=%C3%A4.txt"
    head = f"Content-Type: text/plain\nContent-Disposition: attachment;\n {name}"
    text = join_text(
        read_pages(tmp_path, "a.eml", multipart("mixed", ("Content-Type: text/plain", "Hello"), (head, "12")))[1]
    )
    assert "## Attachment: Preis ä.txt" in text


def test_an_attachment_that_cannot_be_read_makes_the_mail_partial(tmp_path: Path) -> None:
    mail = MAIL.replace("prices.csv", "prices.pdf").encode()
    _, pages = read_pages(tmp_path, "a.eml", mail)
    assert [page.warning for page in pages if page.warning] == [
        "Attachment prices.pdf could not be read: The file is named *.pdf but has no signature of that format"
    ]


def test_an_outlook_message_is_a_mail(tmp_path: Path) -> None:
    data = documents.make_msg("Tea at noon", "Dear Grace, it is ready.", ("prices.csv", b"Name,Price\nTea,12\n"))
    facts, pages = read_pages(tmp_path, "a.msg", data)
    text = join_text(pages)
    assert (facts.doc_type, facts.title) == ("msg", "Tea at noon")
    for part in ("ada@example.org", "grace@example.org", "it is ready", "## Attachment: prices.csv", "| Tea | 12 |"):
        assert part in text


# -- archives -------------------------------------------------------------------------------------


def test_an_archive_is_many_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    content = {
        "notes/a.md": "# Tea",
        "b.txt": "words",
        "__MACOSX/b.txt": "x",
        "c.exe": "MZ",
        "d.zip": "PK",
        ".x.md": "x",
    }
    path.write_bytes(documents.make_zip(content))
    unpacked = {name: b"".join(pieces) for name, pieces in read_members(Source(path, "a.zip"))}
    assert unpacked == {"notes/a.md": b"# Tea", "b.txt": b"words"}


def test_an_archive_read_as_one_has_a_page_for_each_document(tmp_path: Path) -> None:
    facts, pages = read_pages(
        tmp_path, "a.zip", documents.make_zip({"a.md": "Tea", "b.csv": "a,b\n1,2", "c.pdf": "no"})
    )
    assert facts.page_count == 3
    assert pages[0].text == "# a.md\n\nTea"
    assert "| 1 | 2 |" in pages[1].text
    assert pages[2].warning is not None
