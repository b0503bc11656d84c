"""Landlock: a Linux process gives up every file, socket and process but those that it names."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from functools import cache

from knowledge.extract.sandbox.libc import describe_error, open_libc

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System calls, with the same number on every architecture."""
CREATE_RULESET_VERSION, RULE_PATH_BENEATH = 1, 1
READ_FILE, READ_DIRECTORY = 1 << 2, 1 << 3
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""From which version of the kernel's interface (ABI) on how many rights to files are known; all are given up."""
NETWORK_RIGHTS, SCOPES = 0b11, 0b11
"""bind and connect of TCP from version 4 on; abstract Unix sockets and signals from version 6 on."""


@cache
def find_version() -> int:
    """The version of the interface that this kernel has; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(open_libc().syscall(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)))


def restrict(readable: Iterable[str]) -> str | None:
    """Leave this thread these files, and what is below these folders, to read; why not, if it was not possible.

    PR_SET_NO_NEW_PRIVS must be set before. What does not exist is passed over.
    """
    version = find_version()
    if version == 0:
        return "this kernel has no Landlock"
    libc = open_libc()
    attributes = _attributes(version)
    ruleset = libc.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return f"no Landlock rules could be made: {describe_error()}"
    try:
        for path in readable:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _allow(libc, ruleset, path)
        if libc.syscall(RESTRICT_SELF, ruleset, 0) != 0:
            return f"the Landlock rules could not be applied: {describe_error()}"
    finally:
        os.close(ruleset)
    return None


def _attributes(version: int) -> bytes:
    """struct landlock_ruleset_attr, as long as this kernel knows it."""
    rights = max(count for since, count in FILE_RIGHTS.items() if since <= version)
    fields = [(1 << rights) - 1]
    if version >= 4:
        fields.append(NETWORK_RIGHTS)
    if version >= 6:
        fields.append(SCOPES)
    return struct.pack(f"{len(fields)}Q", *fields)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str) -> None:
    descriptor = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    try:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rights = READ_FILE | READ_DIRECTORY if is_folder else READ_FILE
        libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
