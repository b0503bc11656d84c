"""The content folder, watched: whatever happens to a file there is in memory within a second or two."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from knowledge.toolsets.sage.library import Changes, Library

log = logging.getLogger(__name__)

SETTLE_MS, STEP_MS = 100, 50
GLANCE_MS = 1000
"""So often the folder is looked at even when the system reports nothing, as it does for network disks."""
GREATEST_SHARE = 50
"""Looking takes at most one part in fifty of the time."""


async def watch(library: Library, changed: Callable[[Changes], None]) -> None:
    """Until it is cancelled: bring the library up to date, and say what changed."""
    while True:
        try:
            await _watch(library, changed)
        except OSError as error:  # the folder itself went away; it may come back
            log.warning("the content folder cannot be watched: %s", error)
        except Exception:  # pages are still read, only not by themselves
            log.exception("the content folder is no longer watched")
        await asyncio.sleep(GLANCE_MS / 1000)


async def _watch(library: Library, changed: Callable[[Changes], None]) -> None:
    import watchfiles

    rest_until = 0.0
    async for events in watchfiles.awatch(
        library.disk.folder,
        watch_filter=None,
        debounce=SETTLE_MS,
        step=STEP_MS,
        rust_timeout=GLANCE_MS,
        yield_on_timeout=True,
    ):
        if not events and time.monotonic() < rest_until:
            continue
        began = time.monotonic()
        found = await asyncio.to_thread(library.refresh)
        rest_until = time.monotonic() + GREATEST_SHARE * (time.monotonic() - began)
        if found:
            changed(found)
