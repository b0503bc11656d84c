"""Named places where a test can have the process end as if the plug had been pulled.

`KNOWLEDGE_FAILPOINT=publish.committed:3` ends the process the third time that place is reached. Without the variable a
place costs one look into an empty dictionary.
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
    """End the process here, if a test asked for it."""
    if name not in _remaining_hits:
        return
    with _lock:
        _remaining_hits[name] -= 1
        if _remaining_hits[name] == 0:
            if os.name == "posix":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(137)
