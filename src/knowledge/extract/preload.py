"""Imported by the fork server, so that every child finds the parsers loaded. None of these may start a thread."""

import charset_normalizer
import html_to_markdown
import selectolax.lexbor
import yaml

__all__ = ["charset_normalizer", "html_to_markdown", "selectolax", "yaml"]
