"""Splits pages into chunks by their structure, within the window of the embedding model (decision 0018)."""

from knowledge.split.passage import build_embedding_text, build_indexed_text
from knowledge.split.splitter import SplitPassage, Splitter

__all__ = ["SplitPassage", "Splitter", "build_embedding_text", "build_indexed_text"]
