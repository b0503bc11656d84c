"""Builders of small documents, valid and hostile, for the tests of the extractors."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import quote

from PIL import Image, ImageDraw, ImageFont

A4 = (595, 842)
END_OF_STREAM = b"\nendstream"
PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
"""Password padding of the standard security handler (ISO 32000-1, 7.6.3.3)."""


def make_zip(members: Mapping[str, str | bytes], *, stored: Sequence[str] = ()) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            kind = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return buffer.getvalue()


# -- PDF ----------------------------------------------------------------------------------------


class Pdf:
    """A minimal PDF writer: pages of Helvetica, an outline, images, document information."""

    def __init__(self) -> None:
        self._objects: list[bytes] = []
        self._pages: list[int] = []
        self.font = self.add(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
        self.tree = self.add(b"")
        self.extra = b""
        self.info = b""
        self._locked = b""

    def add(self, body: bytes) -> int:
        self._objects.append(body)
        return len(self._objects)

    def stream(self, content: bytes, about: bytes = b"") -> int:
        head = b"<< /Length %d %s >>" % (len(content), about)
        return self.add(head + b"\nstream\n" + content + b"\nendstream")

    def text(self, *lines: tuple[int, int, int, str], rotate: int = 0) -> None:
        """Add a page with lines of text, each as x, y from the bottom, font size and text."""
        drawn = [b"BT /F1 %d Tf %d %d Td (%s) Tj ET" % (size, x, y, _escaped(words)) for x, y, size, words in lines]
        self.page(b"\n".join(drawn), rotate=rotate)

    def page(self, content: bytes, resources: bytes = b"", rotate: int = 0, size: tuple[int, int] = A4) -> None:
        body = self.stream(content)
        self._pages.append(
            self.add(
                b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 %d %d] /Rotate %d /Contents %d 0 R "
                b"/Resources << /Font << /F1 %d 0 R >> %s >> >>"
                % (self.tree, *size, rotate, body, self.font, resources)
            )
        )

    def picture(self, image: Image.Image, size: tuple[int, int] = A4) -> None:
        """Add a page that is one image, like a scan."""
        grey = image.convert("L")
        data = zlib.compress(grey.tobytes())
        number = self.stream(
            data,
            b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "
            b"/Filter /FlateDecode" % grey.size,
        )
        self.page(b"q %d 0 0 %d 0 0 cm /Im Do Q" % size, b"/XObject << /Im %d 0 R >>" % number, size=size)

    def outline(self, *entries: tuple[str, int]) -> None:
        first = len(self._objects) + 2
        root = self.add(b"<< /Type /Outlines /First %d 0 R /Last %d 0 R >>" % (first, first + len(entries) - 1))
        for place, (title, page) in enumerate(entries):
            following = b"/Next %d 0 R" % (first + place + 1) if place + 1 < len(entries) else b""
            self.add(
                b"<< /Title (%s) /Parent %d 0 R /Dest [%d 0 R /Fit] %s >>"
                % (_escaped(title), root, self._pages[page - 1], following)
            )
        self.extra += b" /Outlines %d 0 R" % root

    def locked(self, password: str) -> bytes:
        """Return the file encrypted with 40-bit RC4 and a user password, which may be empty."""
        spoken = (password.encode() + PADDING)[:32]
        owner = _rc4(hashlib.md5(PADDING).digest()[:5], spoken)
        key = hashlib.md5(spoken + owner + struct.pack("<i", -4) + b"harbour").digest()[:5]
        for number, body in enumerate(self._objects, start=1):
            head, mark, content = body.partition(b"\nstream\n")
            if mark:
                own = hashlib.md5(key + struct.pack("<I", number)[:3] + b"\0\0").digest()[:10]
                self._objects[number - 1] = head + mark + _rc4(own, content[: -len(END_OF_STREAM)]) + END_OF_STREAM
        hexed = (owner.hex().encode(), _rc4(key, PADDING).hex().encode(), b"harbour".hex().encode())
        self._locked = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%b> /U <%b> /P -4 >> /ID [<%b> <00>]" % hexed
        return self.to_bytes()

    def to_bytes(self, count: int | None = None) -> bytes:
        """Return the file; count repeats the pages in the page tree."""
        kids = self._pages * (count or 1)
        listed = b" ".join(b"%d 0 R" % number for number in kids)
        self._objects[self.tree - 1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), listed)
        catalog = self.add(b"<< /Type /Catalog /Pages %d 0 R /Lang (en-GB) %s >>" % (self.tree, self.extra))
        info = self.add(b"<< %s >>" % self.info)
        return self._written(catalog, info)

    def _written(self, catalog: int, info: int) -> bytes:
        out = bytearray(b"%PDF-1.7\n")
        places = []
        for number, body in enumerate(self._objects, start=1):
            places.append(len(out))
            out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
        table = b"".join(b"%010d 00000 n \n" % place for place in places)
        start = len(out)
        size = len(self._objects) + 1
        out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
        out += b"trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R %b >>\nstartxref\n%d\n%%%%EOF" % (
            size,
            catalog,
            info,
            self._locked,
            start,
        )
        return bytes(out)


def _rc4(key: bytes, data: bytes) -> bytes:
    box, place = list(range(256)), 0
    for index in range(256):
        place = (place + box[index] + key[index % len(key)]) % 256
        box[index], box[place] = box[place], box[index]
    out, one, two = bytearray(), 0, 0
    for byte in data:
        one = (one + 1) % 256
        two = (two + box[one]) % 256
        box[one], box[two] = box[two], box[one]
        out.append(byte ^ box[(box[one] + box[two]) % 256])
    return bytes(out)


def _escaped(words: str) -> bytes:
    data = words.encode("cp1252")
    return data.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


# -- pictures -----------------------------------------------------------------------------------


def draw_picture(*lines: str, size: tuple[int, int] = (1654, 1000), turned: float = 0) -> Image.Image:
    """Return an image of black text on white."""
    image = Image.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=38)
    for place, line in enumerate(lines):
        draw.text((120, 100 + 70 * place), line, fill=0, font=font)
    return image.rotate(turned, expand=True, fillcolor=255, resample=Image.Resampling.BICUBIC) if turned else image


def encode_image(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """Return a small PNG whose header claims the given size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))

    head = struct.pack("!IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


# -- Office ---------------------------------------------------------------------------------------

PACKAGE = "http://schemas.openxmlformats.org/package/2006"
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
CELLS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KIND = "application/vnd.openxmlformats-officedocument"


def _office(main: str, kind: str, members: Mapping[str, str], relations: Mapping[str, str]) -> bytes:
    """Return an OOXML package with a main part and its relations."""
    folder, _, name = main.rpartition("/")

    def related(targets: Mapping[str, str]) -> str:
        entries = "".join(
            f'<Relationship Id="r{place}" Type="{RELATION}/{of}" Target="{target}"/>'
            for place, (target, of) in enumerate(targets.items(), start=1)
        )
        return f'<Relationships xmlns="{PACKAGE}/relationships">{entries}</Relationships>'

    types = (
        f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/{main}" ContentType="{KIND}.{kind}.main+xml"/></Types>'
    )
    fixed = {"[Content_Types].xml": types, "_rels/.rels": related({main: "officeDocument"})}
    return make_zip({**fixed, f"{folder}/_rels/{name}.rels": related(relations), **members})


def describe_package(package: bytes) -> bytes:
    """Add docProps/core.xml with title, author and date to an OOXML package."""
    about = (
        f'<cp:coreProperties xmlns:cp="{PACKAGE}/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/" '
        'xmlns:dcterms="http://purl.org/dc/terms/"><dc:title>Harbour handbook</dc:title><dc:creator>Ada</dc:creator>'
        "<dcterms:created>2024-03-01T10:00:00Z</dcterms:created></cp:coreProperties>"
    )
    return add_members(package, {"docProps/core.xml": about})


def add_members(package: bytes, more: Mapping[str, str]) -> bytes:
    """Return the package with more members."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return make_zip({**members, **more})


def make_docx(body: str, styles: Mapping[str, str], more: str = "") -> bytes:
    """Return a DOCX with the body XML, the names of styles by their identifiers, and further style XML."""
    named = more + "".join(
        f'<w:style w:type="paragraph" w:styleId="{style}"><w:name w:val="{name}"/></w:style>'
        for style, name in styles.items()
    )
    members = {
        "word/document.xml": f'<w:document xmlns:w="{WORDS}"><w:body>{body}</w:body></w:document>',
        "word/styles.xml": f'<w:styles xmlns:w="{WORDS}">{named}</w:styles>',
    }
    return _office("word/document.xml", "wordprocessingml.document", members, {"styles.xml": "styles"})


def make_xlsx(sheets: Mapping[str, str], formats: Sequence[str], more: str = "") -> bytes:
    """Return an XLSX with the row XML of each sheet, number formats (style 1 and up), and further workbook XML."""
    codes = "".join(
        f'<numFmt numFmtId="{place}" formatCode="{code}"/>' for place, code in enumerate(formats, start=200)
    )
    uses = "".join(f'<xf numFmtId="{200 + place}"/>' for place in range(len(formats)))
    listed = "".join(
        f'<sheet name="{name}" sheetId="{place}" r:id="r{place}"/>' for place, name in enumerate(sheets, start=1)
    )
    members = {
        "xl/workbook.xml": f'<workbook xmlns="{CELLS}" xmlns:r="{RELATION}"><sheets>{listed}</sheets>{more}</workbook>',
        "xl/styles.xml": f'<styleSheet xmlns="{CELLS}"><numFmts>{codes}</numFmts><cellXfs><xf numFmtId="0"/>{uses}'
        "</cellXfs></styleSheet>",
    }
    relations = {}
    for place, rows in enumerate(sheets.values(), start=1):
        members[f"xl/worksheets/sheet{place}.xml"] = (
            f'<worksheet xmlns="{CELLS}"><sheetData>{rows}</sheetData></worksheet>'
        )
        relations[f"worksheets/sheet{place}.xml"] = "worksheet"
    return _office("xl/workbook.xml", "spreadsheetml.sheet", members, {**relations, "styles.xml": "styles"})


def make_shape(text: str, place: str, top: float | None = None) -> str:
    """Return a shape with text, positioned by a layout placeholder or in inches from the top."""
    frame = f'<a:xfrm><a:off x="914400" y="{round((top or 0) * 914400)}"/><a:ext cx="914400" cy="914400"/></a:xfrm>'
    role = f'<p:nvSpPr><p:cNvPr id="1" name=""/><p:cNvSpPr/><p:nvPr>{place and f"<p:ph {place}/>"}</p:nvPr></p:nvSpPr>'
    words = f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody>"
    return f"<p:sp>{role}<p:spPr>{'' if top is None else frame}</p:spPr>{words}</p:sp>"


def make_pptx(*slides: str) -> bytes:
    """Return a PPTX with the shape XML of each slide."""
    main, shapes = (f"http://schemas.openxmlformats.org/{kind}/2006/main" for kind in ("presentationml", "drawingml"))
    spaces = f'xmlns:p="{main}" xmlns:a="{shapes}" xmlns:r="{RELATION}"'
    listed = "".join(f'<p:sldId id="{255 + place}" r:id="r{place}"/>' for place in range(1, len(slides) + 1))
    members = {"ppt/presentation.xml": f"<p:presentation {spaces}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>"}
    for place, inner in enumerate(slides, start=1):
        tree = f"<p:cSld><p:spTree>{inner}</p:spTree></p:cSld>"
        members[f"ppt/slides/slide{place}.xml"] = f"<p:sld {spaces}>{tree}</p:sld>"
    related = {f"slides/slide{place}.xml": "slide" for place in range(1, len(slides) + 1)}
    return _office("ppt/presentation.xml", "presentationml.presentation", members, related)


# -- OpenDocument and EPUB ----------------------------------------------------------------------

SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0"'
    for name, kind in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("draw", "drawing"),
        ("presentation", "presentation"),
        ("meta", "meta"),
        ("style", "style"),
    )
)


def make_opendocument(kind: str, body: str, *, manifest: str = "<manifest/>", styles: str = "<none/>") -> bytes:
    content = f"<office:document-content {SPACES}><office:body>{body}</office:body></office:document-content>"
    meta = (
        f'<office:document-meta {SPACES} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>'
        "<dc:title>The title</dc:title><meta:initial-creator>Ada</meta:initial-creator><dc:language>en</dc:language>"
        "<meta:creation-date>2024-03-01T10:00:00</meta:creation-date></office:meta></office:document-meta>"
    )
    members = {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": content,
        "meta.xml": meta,
        "META-INF/manifest.xml": manifest,
        "styles.xml": styles,
    }
    return make_zip(members, stored=["mimetype"])


def make_epub(chapters: Mapping[str, str], item: str = "", **more: str) -> bytes:
    items = "".join(
        f'<item id="c{place}" href="{quote(name)}" media-type="application/xhtml+xml"/>'
        for place, name in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="c{place}"/>' for place in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        "<dc:title>A Book</dc:title><dc:creator>Ada</dc:creator><dc:language>en</dc:language></metadata>"
        f"<manifest>{items}{item}</manifest><spine>{spine}</spine></package>"
    )
    container = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    pages = {f"OPS/{name}": f"<html><body>{body}</body></html>" for name, body in chapters.items()}
    members = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OPS/book.opf": package}
    return make_zip({**members, **pages, **more}, stored=["mimetype"])


# -- compound files: Outlook's messages, and the older Office formats -----------------------------

SECTOR, SMALL_SECTOR, FREE, END, FAT = 512, 64, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
Folder = Mapping[str, "bytes | Folder"]


@dataclass
class Entry:
    """Directory entry of a compound file."""

    name: str
    kind: int
    right: int = FREE
    child: int = FREE
    start: int = 0
    size: int = 0

    def packed(self) -> bytes:
        name = self.name.encode("utf-16-le") + b"\0\0"
        head = struct.pack("<64sHBBIII", name, len(name), self.kind, 1, FREE, self.right, self.child)
        return head + bytes(36) + struct.pack("<IQ", self.start, self.size)


def make_compound_file(root: Folder) -> bytes:
    """Return an OLE compound file with small streams only (mini FAT)."""
    entries = [Entry("Root Entry", 5)]
    small = bytearray()
    chain: list[int] = []

    def put(folder: Folder, parent: int) -> None:
        numbers = []
        for name, content in folder.items():
            numbers.append(len(entries))
            if isinstance(content, bytes):
                start = len(chain)
                count = max(1, -(-len(content) // SMALL_SECTOR))
                chain.extend([*range(start + 1, start + count), END])
                small.extend(content.ljust(count * SMALL_SECTOR, b"\0"))
                entries.append(Entry(name, 2, start=start, size=len(content)))
            else:
                entries.append(Entry(name, 1))
                put(content, numbers[-1])
        for one, following in pairwise(numbers):
            entries[one].right = following
        entries[parent].child = numbers[0]

    put(root, 0)
    return _compound(entries, bytes(small), chain)


def _compound(entries: list[Entry], small: bytes, chain: list[int]) -> bytes:
    def sectors(data: bytes) -> list[bytes]:
        padded = data.ljust(-(-len(data) // SECTOR) * SECTOR, b"\0")
        return [padded[place : place + SECTOR] for place in range(0, len(padded), SECTOR)]

    small_table = struct.pack(f"<{len(chain)}I", *chain)
    small_table += b"\xff" * (-len(small_table) % SECTOR)
    stream, table = sectors(small), sectors(small_table)
    entries[0].start, entries[0].size = 1 + len(table), len(small)
    folder = sectors(b"".join(entry.packed() for entry in entries))
    links = [FAT]
    for part in (table, stream, folder):
        first = len(links)
        links += [*range(first + 1, first + len(part)), END]
    fat = struct.pack(f"<{len(links)}I", *links).ljust(SECTOR, b"\xff")
    header = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIIIIIIII", 0, 1, 1 + len(table) + len(stream), 0, 4096, 1, len(table), END, 0, 0)
    header += b"\xff" * 4 * 108
    return header[:SECTOR] + b"".join([fat, *table, *stream, *folder])


def make_xls(formats: Sequence[str], rows: Sequence[Sequence[tuple[int, float]]]) -> bytes:
    """Return an XLS with one sheet of numbers, each with the index of its format; 0 is the general format."""

    def record(kind: int, body: bytes = b"") -> bytes:
        return struct.pack("<HH", kind, len(body)) + body

    def opened(kind: int) -> bytes:
        return record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 0, 0, 0x600))

    codes = b"".join(
        record(0x41E, struct.pack("<HHB", 200 + place, len(code), 0) + code.encode())
        for place, code in enumerate(formats, start=1)
    )
    uses = [0, *(200 + place for place in range(1, len(formats) + 1))]
    head = opened(5) + codes + b"".join(record(0xE0, struct.pack("<HH", 0, use) + bytes(16)) for use in uses)
    name = b"Trips"
    listed = len(head) + 4 + 8 + len(name) + 4
    head += record(0x85, struct.pack("<IBBBB", listed, 0, 0, len(name), 0) + name) + record(0x0A)
    cells = b"".join(
        record(0x203, struct.pack("<HHHd", row, column, use, value))
        for row, values in enumerate(rows)
        for column, (use, value) in enumerate(values)
    )
    return make_compound_file({"Workbook": head + opened(0x10) + cells + record(0x0A)})


def make_msg(subject: str, body: str, attachment: tuple[str, bytes]) -> bytes:
    def words(value: str) -> bytes:
        return value.encode("utf-16-le")

    def properties(head: int, *entries: tuple[int, int, bytes]) -> bytes:
        return bytes(head) + b"".join(struct.pack("<HHI8s", kind, tag, 6, value) for tag, kind, value in entries)

    def size(value: bytes) -> bytes:
        return struct.pack("<II", len(value) + 2, 0)

    sent = struct.pack("<Q", 133_500_000_000_000_000)
    name, content = attachment
    files = {
        "__substg1.0_3707001F": words(name),
        "__substg1.0_37010102": content,
        "__properties_version1.0": properties(
            8, (0x3707, 0x1F, size(words(name))), (0x3701, 0x102, size(content)), (0x3705, 3, struct.pack("<II", 1, 0))
        ),
    }
    person = {
        "__substg1.0_3001001F": words("Grace"),
        "__substg1.0_3003001F": words("grace@example.org"),
        "__substg1.0_39FE001F": words("grace@example.org"),
        "__properties_version1.0": properties(
            8, (0x3001, 0x1F, size(words("Grace"))), (0x39FE, 0x1F, size(words("grace@example.org")))
        ),
    }
    return make_compound_file(
        {
            "__substg1.0_001A001F": words("IPM.Note"),
            "__substg1.0_0037001F": words(subject),
            "__substg1.0_1000001F": words(body),
            "__substg1.0_0C1A001F": words("Ada"),
            "__substg1.0_5D01001F": words("ada@example.org"),
            "__properties_version1.0": properties(
                32,
                (0x001A, 0x1F, size(words("IPM.Note"))),
                (0x0037, 0x1F, size(words(subject))),
                (0x1000, 0x1F, size(words(body))),
                (0x0C1A, 0x1F, size(words("Ada"))),
                (0x5D01, 0x1F, size(words("ada@example.org"))),
                (0x0039, 0x40, sent),
            ),
            "__recip_version1.0_#00000000": person,
            "__attach_version1.0_#00000000": files,
        }
    )
