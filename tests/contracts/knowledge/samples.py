"""Writes sample documents in the formats of contract 000."""

from __future__ import annotations

import zipfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

CONTENT_TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
)
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIN_TYPE = "application/vnd.openxmlformats-officedocument"


def make_relationships(*targets: tuple[str, str]) -> str:
    each = "".join(
        f'<Relationship Id="rId{number}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f'{head}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{each}</Relationships>'


def write_package(path: Path, kinds: dict[str, str], parts: dict[str, str]) -> None:
    """Write an Office file from its parts and their content types."""
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{MAIN_TYPE}.{kind}+xml"/>' for name, kind in kinds.items()
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", CONTENT_TYPES.format(overrides=overrides))
        for name, content in parts.items():
            archive.writestr(name, content)


def write_docx(path: Path, text: str) -> None:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
    write_package(
        path,
        {"word/document.xml": "wordprocessingml.document.main"},
        {
            "_rels/.rels": make_relationships(("officeDocument", "word/document.xml")),
            "word/document.xml": f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>',
        },
    )


def write_xlsx(path: Path, text: str) -> None:
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    cells = "".join(f'<c r="A{row}" t="inlineStr"><is><t>{text}</t></is></c>' for row in (1,))
    write_package(
        path,
        {"xl/workbook.xml": "spreadsheetml.sheet.main", "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet"},
        {
            "_rels/.rels": make_relationships(("officeDocument", "xl/workbook.xml")),
            "xl/_rels/workbook.xml.rels": make_relationships(("worksheet", "worksheets/sheet1.xml")),
            "xl/workbook.xml": (
                f'<workbook xmlns="{namespace}" xmlns:r="{OFFICE}"><sheets>'
                '<sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets></workbook>'
            ),
            "xl/worksheets/sheet1.xml": (
                f'<worksheet xmlns="{namespace}"><sheetData><row r="1">{cells}</row></sheetData></worksheet>'
            ),
        },
    )


def write_pptx(path: Path, text: str) -> None:
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    namespace = "http://schemas.openxmlformats.org/presentationml/2006/main"
    shape = (
        '<p:sp><p:nvSpPr><p:cNvPr id="2" name="Title"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>'
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
    tree = f'<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{shape}'
    write_package(
        path,
        {"ppt/presentation.xml": "presentationml.presentation.main", "ppt/slides/slide1.xml": "presentationml.slide"},
        {
            "_rels/.rels": make_relationships(("officeDocument", "ppt/presentation.xml")),
            "ppt/_rels/presentation.xml.rels": make_relationships(("slide", "slides/slide1.xml")),
            "ppt/presentation.xml": (
                f'<p:presentation xmlns:p="{namespace}" xmlns:r="{OFFICE}"><p:sldIdLst>'
                '<p:sldId id="256" r:id="rId1"/></p:sldIdLst></p:presentation>'
            ),
            "ppt/slides/slide1.xml": (
                f'<p:sld xmlns:p="{namespace}" xmlns:a="{drawing}"><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:sld>'
            ),
        },
    )


def write_pdf(path: Path, *pages: str) -> None:
    """Write a PDF with a text layer, one line per page."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    written, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF\n"
    path.write_bytes(written + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode())


def draw_picture(text: str) -> Image.Image:
    image = Image.new("RGB", (1200, 300), "white")
    ImageDraw.Draw(image).text((60, 100), text, fill="black", font=ImageFont.load_default(size=64))
    return image


def write_scan(path: Path, *pages: str) -> None:
    """Write a PDF of images of text, without a text layer."""
    first, *others = [draw_picture(text) for text in pages]
    first.save(path, "PDF", save_all=True, append_images=others, resolution=150)


def write_sample(path: Path, text: str) -> Path:
    """Write a document in the format of its suffix."""
    match path.suffix:
        case ".docx":
            write_docx(path, text)
        case ".pptx":
            write_pptx(path, text)
        case ".xlsx":
            write_xlsx(path, text)
        case ".pdf":
            write_pdf(path, text)
        case ".html":
            page = f"<html><head><title>{text}</title></head><body><main><p>{text}</p></main></body></html>"
            path.write_text(page, "utf-8")
        case ".svg":
            drawn = f'<text x="9" y="50">{text}</text>'
            path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="99">{drawn}</svg>', "utf-8")
        case ".jpg" | ".png":
            draw_picture(text).save(path)
        case _:
            path.write_text(text, "utf-8")
    return path
