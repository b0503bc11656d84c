"""Hostile files (bombs, path traversal, XXE, truncation) end with a clear error and do no harm."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge import errors
from knowledge.extract.base import PageText, Source
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.process.parsers import Parsers
from tests.data.extract import documents

LIMITS = ParserLimits(seconds=30, memory_bytes=300 << 20)
UNPACKED = 20 << 20
ENTITIES = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "lolz lolz"><!ENTITY b "&a;&a;&a;&a;">'
    '<!ENTITY file SYSTEM "file:///etc/passwd">]>'
)


@pytest.fixture(scope="module")
def parsers() -> Iterator[Parsers]:
    with Parsers(LIMITS) as started:
        yield started


def read(parsers: Parsers, tmp_path: Path, filename: str, content: bytes) -> list[PageText]:
    path = tmp_path / "bytes"
    path.write_bytes(content)
    with parsers.parse(Source(path, filename, max_unpacked_bytes=UNPACKED)) as parsing:
        return list(parsing)


def bomb(name: str, members: dict[str, str]) -> bytes:
    """Return a ZIP-based document with a member that unpacks to more than the limit."""
    buffer = io.BytesIO(documents.make_zip(members))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as file:
        for _ in range(25):
            file.write(bytes(1 << 20))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("filename", "member", "members"),
    [
        ("a.docx", "word/document.xml", {"[Content_Types].xml": "<Types/>"}),
        ("a.xlsx", "xl/worksheets/sheet1.xml", {"[Content_Types].xml": "<Types/>"}),
        ("a.odt", "content.xml", {"mimetype": "application/vnd.oasis.opendocument.text"}),
        ("a.epub", "OPS/one.xhtml", {"mimetype": "application/epub+zip", "META-INF/container.xml": "<container/>"}),
        ("a.zip", "a.txt", {"b.txt": "words"}),
    ],
)
def test_a_zip_bomb_is_measured_and_not_opened(
    parsers: Parsers, tmp_path: Path, filename: str, member: str, members: dict[str, str]
) -> None:
    with pytest.raises(errors.ParserTooBig, match="unpacks to 25 MB"):
        read(parsers, tmp_path, filename, bomb(member, members))


def test_a_member_with_a_false_size_gives_no_more_bytes_than_declared(parsers: Parsers, tmp_path: Path) -> None:
    honest = documents.make_zip({"a.txt": "words " * 100_000})
    lie = (600).to_bytes(4, "little")
    lying = honest.replace((600_000).to_bytes(4, "little"), lie)
    with pytest.raises(errors.Unreadable):
        read(parsers, tmp_path, "a.zip", lying)


def test_an_archive_of_very_many_files_is_refused(parsers: Parsers, tmp_path: Path) -> None:
    with pytest.raises(errors.ParserTooBig, match="files"):
        read(parsers, tmp_path, "a.zip", documents.make_zip({f"{number}.txt": "x" for number in range(20_001)}))


def test_nested_archives_stay_closed(parsers: Parsers, tmp_path: Path) -> None:
    inner = documents.make_zip({"secret.txt": "deep"})
    pages = read(parsers, tmp_path, "a.zip", documents.make_zip({"inner.zip": inner, "b.txt": "flat words"}))
    assert [page.text for page in pages] == ["# b.txt\n\nflat words"]


@pytest.mark.parametrize("name", ["../../evil.txt", "/etc/evil.txt", "..\\..\\evil.txt", "C:\\evil.txt"])
def test_member_names_cannot_leave_the_archive_by_path_traversal(parsers: Parsers, tmp_path: Path, name: str) -> None:
    pages = read(parsers, tmp_path, "a.zip", documents.make_zip({name: "some words"}))
    assert "some words" in pages[0].text
    assert ".." not in pages[0].text
    assert not list(tmp_path.parent.rglob("evil.txt"))


def test_a_book_cannot_name_files_outside_itself(parsers: Parsers, tmp_path: Path) -> None:
    book = documents.make_epub({"../../../../../../etc/passwd": "x"})
    outside = book.replace(b"OPS/../../../../../../etc/passwd", b"OPS/xx/xx/xx/xx/xx/xx/etc/passwd")
    with pytest.raises(errors.Damaged):
        read(parsers, tmp_path, "a.epub", outside)


@pytest.mark.parametrize(
    ("filename", "content"),
    [
        ("a.svg", (ENTITIES + "<svg><text>&b; &file;</text></svg>").encode()),
        ("a.svg", (ENTITIES + "<svg><text>&b; &file;</text></svg>").encode("utf-16")),
        ("a.odt", documents.make_zip({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": ENTITIES})),
    ],
)
def test_xml_entities_are_refused(parsers: Parsers, tmp_path: Path, filename: str, content: bytes) -> None:
    with pytest.raises(errors.Damaged):
        read(parsers, tmp_path, filename, content)


def test_entities_in_a_word_document_are_not_expanded(parsers: Parsers, tmp_path: Path) -> None:
    body = (
        ENTITIES + '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
        "<w:p><w:r><w:t>Seen &b; &file;</w:t></w:r></w:p></w:body></w:document>"
    )
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override '
        'PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.'
        'document.main+xml"/></Types>'
    )
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    members = {"[Content_Types].xml": types, "_rels/.rels": relations, "word/document.xml": body}
    try:
        text = "".join(page.text for page in read(parsers, tmp_path, "a.docx", documents.make_zip(members)))
    except errors.Unreadable:
        text = ""
    assert "lolz lolzlolz" not in text
    assert "root:" not in text


def test_a_picture_that_claims_to_be_huge_is_not_unpacked(parsers: Parsers, tmp_path: Path) -> None:
    with pytest.raises(errors.ParserTooBig, match="50000 x 50000 pixels"):
        read(parsers, tmp_path, "a.png", documents.png_claiming(50_000, 50_000))


def test_a_pdf_of_a_hundred_thousand_pages_is_refused(parsers: Parsers, tmp_path: Path) -> None:
    pdf = documents.Pdf()
    pdf.text((72, 700, 12, "The same page again and again"))
    with pytest.raises(errors.ParserTooBig, match="100000 pages"):
        read(parsers, tmp_path, "a.pdf", pdf.to_bytes(count=100_000))


def test_a_pdf_stream_that_unpacks_without_end_costs_its_own_document(parsers: Parsers, tmp_path: Path) -> None:
    import zlib

    pdf = documents.Pdf()
    packer = zlib.compressobj(9)
    packed = b"".join([*(packer.compress(b"0 0 m 1 1 l S " * 75_000) for _ in range(300)), packer.flush()])
    body = pdf.stream(packed, b"/Filter /FlateDecode")
    pdf.page(b"")
    data = pdf.to_bytes().replace(b"/Contents %d 0 R" % (body + 1), b"/Contents %d 0 R" % body)
    with pytest.raises(errors.Unreadable):
        read(parsers, tmp_path, "a.pdf", data)
    assert read(parsers, tmp_path, "a.md", b"# Still here")[0].text == "# Still here"


@pytest.mark.parametrize(
    "filename", ["a.pdf", "a.docx", "a.xlsx", "a.pptx", "a.odt", "a.epub", "a.png", "a.jpg", "a.zip"]
)
def test_a_program_under_the_name_of_a_document_is_refused(parsers: Parsers, tmp_path: Path, filename: str) -> None:
    with pytest.raises(errors.Damaged, match="program"):
        read(parsers, tmp_path, filename, b"\x7fELF\x02\x01\x01\0" + bytes(range(256)) * 10)


@pytest.mark.parametrize("filename", ["a.pdf", "a.docx", "a.rtf", "a.png", "a.msg", "a.doc"])
def test_a_file_without_the_signature_of_its_format_is_damaged(parsers: Parsers, tmp_path: Path, filename: str) -> None:
    with pytest.raises(errors.Damaged):
        read(parsers, tmp_path, filename, b"these are only words")


@pytest.mark.parametrize(
    "suffix", ["pdf", "docx", "xlsx", "pptx", "odt", "ods", "epub", "png", "jpg", "msg", "zip", "rtf"]
)
def test_an_empty_file_holds_no_text(parsers: Parsers, tmp_path: Path, suffix: str) -> None:
    with pytest.raises(errors.NoText, match="empty"):
        read(parsers, tmp_path, f"a.{suffix}", b"")


def _whole() -> dict[str, bytes]:
    pdf = documents.Pdf()
    pdf.text((72, 700, 12, "Words that are long enough to be a text layer of their own"))
    chapters = {"one.xhtml": "<h1>One</h1><p>" + "words " * 300 + "</p>"}
    return {
        "pdf": pdf.to_bytes(),
        "epub": documents.make_epub(chapters),
        "odt": documents.make_opendocument(
            "text", "<office:text><text:p>" + "words " * 300 + "</text:p></office:text>"
        ),
        "png": documents.encode_image(documents.draw_picture("Words on a picture", size=(800, 300)), "PNG"),
        "msg": documents.make_msg("Tea", "ready", ("a.txt", b"words")),
        "rtf": rb"{\rtf1 {\b words} and more {\i words}\par}",
    }


@pytest.mark.parametrize("suffix", ["pdf", "epub", "odt", "png", "msg", "rtf"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_read_or_refused_with_an_error(
    parsers: Parsers, tmp_path: Path, suffix: str, share: float
) -> None:
    whole = _whole()[suffix]
    try:
        read(parsers, tmp_path, f"a.{suffix}", whole[: int(len(whole) * share)])
    except errors.Unreadable as error:
        assert str(error)


@pytest.mark.parametrize("suffix", ["pdf", "epub", "odt", "png", "msg", "rtf"])
def test_a_file_with_random_changes_is_read_or_refused_with_an_error(
    parsers: Parsers, tmp_path: Path, suffix: str
) -> None:
    scrambled = bytearray(_whole()[suffix])
    for place in range(40, len(scrambled), 37):
        scrambled[place] ^= place % 251
    try:
        read(parsers, tmp_path, f"a.{suffix}", bytes(scrambled))
    except errors.Unreadable as error:
        assert str(error)


def test_encrypted_documents_are_refused_with_needs_password(parsers: Parsers, tmp_path: Path) -> None:
    locked = documents.make_compound_file({"EncryptedPackage": b"x" * 100, "EncryptionInfo": b"y"})
    manifest = "<manifest><encryption-data/></manifest>"
    pdf = documents.Pdf()
    pdf.text((72, 720, 11, "Tea costs twelve in the harbour."))
    for filename, content in (
        ("a.pdf", pdf.locked("secret")),
        ("a.docx", locked),
        ("a.odt", documents.make_opendocument("text", "<office:text/>", manifest=manifest)),
    ):
        with pytest.raises(errors.NeedsPassword):
            read(parsers, tmp_path, filename, content)


def test_a_pdf_that_is_encrypted_with_an_empty_password_opens(parsers: Parsers, tmp_path: Path) -> None:
    pdf = documents.Pdf()
    pdf.text((72, 720, 11, "Tea costs twelve in the harbour."))
    content = pdf.locked("")
    assert b"Tea" not in content
    assert [page.text for page in read(parsers, tmp_path, "a.pdf", content)] == ["Tea costs twelve in the harbour."]


def test_rtf_groups_without_end_are_damaged(parsers: Parsers, tmp_path: Path) -> None:
    with pytest.raises(errors.Damaged, match="nested"):
        read(parsers, tmp_path, "a.rtf", b"{\\rtf1" + b"{" * 100_000)


def test_deeply_nested_html_is_read_or_refused_with_an_error(parsers: Parsers, tmp_path: Path) -> None:
    try:
        read(parsers, tmp_path, "a.html", b"<div>" * 20_000 + b"deep words")
    except errors.Unreadable as error:
        assert str(error)
