"""Pages in, passages out: cut by structure, never longer than the model's window."""

from knowledge.split.passage import passage_text, passage_words
from knowledge.split.splitter import Piece, Splitter

__all__ = ["Piece", "Splitter", "passage_text", "passage_words"]
