"""Failpoints: named places where a test kills the process to simulate a crash.

`KNOWLEDGE_FAILPOINT=publish.committed:3` kills the process the third time that failpoint is reached. Without the
variable a failpoint costs one lookup in an empty dictionary.
"""

from __future__ import annotations

import os
import signal
import threading

_lock = threading.Lock()


def _parse_setting(setting: str) -> dict[str, int]:
    name, _, count = setting.partition(":")
    return {name: int(count or 1)} if name else {}


_remaining_hits = _parse_setting(os.environ.get("KNOWLEDGE_FAILPOINT", ""))


def trigger(name: str) -> None:
    """Kill the process if KNOWLEDGE_FAILPOINT names this failpoint and its count is reached."""
    if name not in _remaining_hits:
        return
    with _lock:
        _remaining_hits[name] -= 1
        if _remaining_hits[name] == 0:
            if os.name == "posix":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(137)
