"""The `knowledge` command with semantic-text-splitter instead of our splitter, started by benchmarks/splitters.py."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from tokenizers import Tokenizer

from knowledge.engine.ingest import document_reader
from knowledge.extract.base import PageText
from knowledge.split import SplitPassage
from knowledge.split.passage import RESERVED_HEADING_TOKENS, SPECIAL_TOKENS, WINDOW_TOKENS, render_headings


class SemanticSplitter:
    """semantic-text-splitter behind the interface of `knowledge.split.Splitter`."""

    def __init__(self, tokenizer: Tokenizer, title: str = "", window: int = WINDOW_TOKENS) -> None:
        above = len(tokenizer.encode(render_headings((title,)), add_special_tokens=False))
        capacity = min(window, WINDOW_TOKENS) - SPECIAL_TOKENS - min(above, RESERVED_HEADING_TOKENS)
        library = import_module("semantic_text_splitter")
        self._splitter = library.MarkdownSplitter.from_huggingface_tokenizer(tokenizer, capacity)

    def feed(self, page: PageText) -> Iterator[SplitPassage]:
        for text in self._splitter.chunks(page.text):
            yield SplitPassage(text, page.number, ())

    def finish(self) -> Iterator[SplitPassage]:
        return iter(())


def replace_splitter() -> None:
    """Replace the splitter in this process, and name this module as the one that the children import."""
    setattr(document_reader, "Splitter", SemanticSplitter)  # noqa: B010
    document_reader.__name__ = "splitter_server"


split_document, prepare = document_reader.split_document, document_reader.prepare
replace_splitter()

if __name__ == "__main__":
    from knowledge.__main__ import main

    main()
