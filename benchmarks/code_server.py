"""The `knowledge` command that splits source code without its structure, started by benchmarks/code.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from knowledge.engine.ingest import document_reader
from knowledge.extract.base import PageText
from knowledge.split import SplitPassage, Splitter


class PlainSplitter(Splitter):
    """Splits source code as any other fenced block."""

    def feed(self, page: PageText) -> Iterator[SplitPassage]:
        return super().feed(replace(page, outline=()))


def replace_splitter() -> None:
    """Replace the splitter in this process, and name this module as the one that the children import."""
    setattr(document_reader, "Splitter", PlainSplitter)  # noqa: B010
    document_reader.__name__ = "code_server"


split_document, prepare = document_reader.split_document, document_reader.prepare
replace_splitter()

if __name__ == "__main__":
    from knowledge.__main__ import main

    main()
