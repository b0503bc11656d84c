"""Why a child ended without a word of its own, as a sentence that a person can act on."""

from __future__ import annotations

import re
import signal

from knowledge import errors
from knowledge.extract.process.protocol import Ending, Limits

OUT_OF_MEMORY = re.compile("(?i)memory allocation|bad_alloc|out of memory|cannot allocate|MemoryError")
GIVING_UP = tuple(getattr(signal, name, None) for name in ("SIGABRT", "SIGTRAP", "SIGILL"))
"""How native code ends when an allocation fails."""


def verdict(ending: Ending, limits: Limits, pages: int) -> errors.KnowledgeError:
    name = signal_name(ending.code)
    if name == "SIGXCPU":
        return errors.ParserTooSlow("Reading it took more processor time than is allowed", pages=pages, signal=name)
    if _too_big(ending, limits):
        return errors.ParserTooBig(
            "It is too large: reading it takes more memory than is allowed",
            limit_bytes=limits.memory_bytes,
            pages=pages,
            signal=name,
        )
    how = f"was ended by {name}" if name else f"ended with code {ending.code} before it was done"
    return errors.ParserDied(f"The parser {how} after {pages} pages", signal=name, exit_code=ending.code, pages=pages)


def signal_name(code: int) -> str | None:
    try:
        return signal.Signals(-code).name if code < 0 else None
    except ValueError:
        return f"signal {-code}"


def _too_big(ending: Ending, limits: Limits) -> bool:
    if OUT_OF_MEMORY.search(ending.last_words):
        return True
    swollen = ending.resident > limits.memory_bytes // 3
    return swollen and ending.code < 0
