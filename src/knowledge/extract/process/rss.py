"""How much memory another process holds, for the platforms where no limit can be set on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def resident(pid: int) -> int:
    """In bytes; 0 where it cannot be told."""
    try:
        if sys.platform == "linux":
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if sys.platform == "win32":
            return _on_windows(pid)
        answer = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
        return int(answer.stdout) * 1024
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return 0


def _on_windows(pid: int) -> int:
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
