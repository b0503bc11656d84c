"""Pages in, passages out: cut by structure, never longer than the model's window."""

from knowledge.split.passage import build_embedding_text, build_indexed_text
from knowledge.split.splitter import SplitPassage, Splitter

__all__ = ["SplitPassage", "Splitter", "build_embedding_text", "build_indexed_text"]
