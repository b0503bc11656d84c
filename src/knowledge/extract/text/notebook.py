"""Jupyter notebooks: Markdown cells, fenced code cells, and the text of their outputs."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.extract.base import Extraction, Facts, PageText
from knowledge.extract.clean_text import regroup_blocks
from knowledge.extract.text.markdown import find_first_heading
from knowledge.extract.text.source_code import fence_code
from knowledge.model import Json, JsonValue


def is_notebook(value: JsonValue) -> bool:
    return isinstance(value, dict) and isinstance(value.get("cells"), list) and "nbformat" in value


def extract_notebook(value: JsonValue) -> Extraction:
    body = value if isinstance(value, dict) else {}
    blocks = list(_render_cells(body))
    facts = Facts("ipynb", title=find_first_heading("".join(blocks[:5])))
    return Extraction(facts, (PageText(piece) for piece in regroup_blocks(blocks)))


def _render_cells(value: Json) -> Iterator[str]:
    language = _find_language(value)
    cells = value.get("cells")
    for cell in cells if isinstance(cells, list) else []:
        if not isinstance(cell, dict):
            continue
        text = _join_text(cell.get("source"))
        if text.strip():
            yield (fence_code(text, language) if cell.get("cell_type") == "code" else text) + "\n\n"
        yield from _render_outputs(cell)


def _render_outputs(cell: Json) -> Iterator[str]:
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict):
            data = output.get("data")
            text = _join_text(output.get("text")) or (
                _join_text(data.get("text/plain")) if isinstance(data, dict) else ""
            )
            if text.strip():
                yield fence_code(text[:10_000]) + "\n\n"


def _find_language(value: Json) -> str:
    metadata = value.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else "python"


def _join_text(value: JsonValue) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
