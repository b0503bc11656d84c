"""Runs `knowledge` with the names of its Python threads shown by Linux, so that CPU time can be read by thread.

python benchmarks/named_threads.py serve --port 8000
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

PR_SET_NAME = 15
MAX_NAME_BYTES = 15


def show_thread_names() -> None:
    """Name each thread in /proc/PID/task/*/comm as Python does, which CPython itself does only from 3.14 on."""
    libc, run = ctypes.CDLL(None), threading.Thread.run

    def run_named(thread: threading.Thread) -> Any:
        libc.prctl(PR_SET_NAME, thread.name.encode()[:MAX_NAME_BYTES], 0, 0, 0)
        return run(thread)

    threading.Thread.run = run_named  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    show_thread_names()
    from knowledge.__main__ import main

    main()
