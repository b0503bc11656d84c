"""Who goes first: while many at once are being let in, work that nobody waits for stands aside for a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

CROWD = 8
"""So many who ask at once are a crowd. Fewer are let in quickly beside everything else."""
PATIENCE = 0.25
"""For so long a worker stands aside, in seconds; then it does one job, so that the work never stops."""


class Courtesy:
    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._changed = threading.Condition()
        self._asking = 0

    @contextmanager
    def letting_in(self) -> Iterator[None]:
        with self._changed:
            self._asking += 1
        try:
            yield
        finally:
            with self._changed:
                self._asking -= 1
                if self._asking < CROWD:
                    self._changed.notify_all()

    def stand_aside(self) -> None:
        """Wait until the crowd is in, or patience ends."""
        if self._asking >= CROWD:
            with self._changed:
                self._changed.wait_for(lambda: self._asking < CROWD, self._patience)
