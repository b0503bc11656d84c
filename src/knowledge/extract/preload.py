"""Imported by the fork server, so that every child finds the parsers loaded. None of them may start a thread."""

import importlib

from knowledge.extract.formats import FORMATS

for _module in sorted({format_.module for format_ in FORMATS}):
    importlib.import_module(f"knowledge.extract.{_module}")
