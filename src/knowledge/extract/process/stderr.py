"""What a child prints on its standard error: kept, because native code says there why it gives up."""

from __future__ import annotations

import os
import sys

ENOUGH = 4096


class LastWords:
    """A pipe that never makes the child wait: what does not fit is lost."""

    def __init__(self) -> None:
        self._read, self.writer = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(self.writer, False)
            os.set_blocking(self._read, False)

    def close_writer(self) -> None:
        """Once the child has its own end."""
        os.close(self.writer)

    def take(self) -> str:
        """What was said, after the child has ended; the pipe is closed."""
        try:
            return os.read(self._read, ENOUGH).decode(errors="replace")
        except BlockingIOError:
            return ""
        finally:
            os.close(self._read)
