"""Memory of processes, read from the operating system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def read_anonymous_bytes(pid: int) -> int:
    """Return the memory of a process without mapped files, on Linux; elsewhere its resident memory. 0 if unknown.

    A forked process counts the pages that it still shares with its parent.
    """
    if sys.platform != "linux":
        return read_resident_bytes(pid)
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)
    except OSError:  # the process has ended
        return 0


def list_child_pids(pid: int) -> list[int]:
    """Return the children of a process; empty if they are unknown. Linux only."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def read_resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 if unknown."""
    try:
        if sys.platform == "linux":
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if sys.platform == "win32":
            return _read_windows_resident_bytes(pid)
        answer = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
        return int(answer.stdout) * 1024
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return 0


def _read_windows_resident_bytes(pid: int) -> int:
    import ctypes
    from ctypes import wintypes

    class Counters(ctypes.Structure):
        _fields_ = (
            ("size", wintypes.DWORD),
            ("faults", wintypes.DWORD),
            *((name, ctypes.c_size_t) for name in ("peak", "resident", "a", "b", "c", "d", "paged", "peak_paged")),
        )

    windll = getattr(ctypes, "windll")  # noqa: B009
    process = windll.kernel32.OpenProcess(0x1000, False, pid)
    if not process:
        return 0
    counters = Counters(size=ctypes.sizeof(Counters))
    windll.psapi.GetProcessMemoryInfo(process, ctypes.byref(counters), counters.size)
    windll.kernel32.CloseHandle(process)
    return int(counters.resident)
