"""Reads the documents that the tests make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from knowledge.extract.base import Facts, PageText, Source
from knowledge.extract.formats import extract


def read_pages(tmp_path: Path, filename: str, content: bytes, **options: bool | str) -> tuple[Facts, list[PageText]]:
    path = tmp_path / "bytes"
    path.write_bytes(content)
    extracted = extract(Source(path, filename, **options))  # type: ignore[arg-type]
    return extracted.facts, list(extracted.pages)


def join_text(pages: Sequence[PageText]) -> str:
    return "\n\n".join(page.text for page in pages)
