"""Splits pages into chunks by their structure, within the window of the embedding model (decision 0018)."""

from knowledge.split.passage import SplitPassage, build_embedding_text, build_indexed_text
from knowledge.split.splitter import Splitter

__all__ = ["SplitPassage", "Splitter", "build_embedding_text", "build_indexed_text"]
