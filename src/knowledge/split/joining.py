"""Passages that were cut from one text, put together again so that they read as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowledge.split.blocks import DELIMITER, FENCE, ITEM, fence_mark

GOES_ON = re.compile(r"[a-z0-9(,;]")
ENDED = re.compile(r"[.!?…:;。！？][\"')\]*_`]*$|[|>`]$")


def joined_text(texts: Sequence[str]) -> str:
    """A table has its header once, code one fence, and a sentence that was cut is whole."""
    whole = texts[0]
    for text in texts[1:]:
        whole = _with(whole, text)
    return whole


def _with(before: str, after: str) -> str:
    if (rows := _rows_below(before, after)) is not None:
        return f"{before}\n{rows}"
    if (code := _code_below(before, after)) is not None:
        return code
    last, first = before.rpartition("\n")[2], after.partition("\n")[0]
    if ITEM.match(last) and ITEM.match(first):
        return f"{before}\n{after}"
    cut = GOES_ON.match(first) and not ENDED.search(last) and not ITEM.match(first)
    return f"{before} {after}" if cut else f"{before}\n\n{after}"


def _rows_below(before: str, after: str) -> str | None:
    """The rows of a table that goes on under the header that stands above already."""
    header, _, rest = after.partition("\n")
    delimiter, _, rows = rest.partition("\n")
    if "|" not in header or not DELIMITER.fullmatch(delimiter) or not before.endswith("|"):
        return None
    table = before.rpartition("\n\n")[2]
    return rows if table.startswith(f"{header}\n{delimiter}\n") else None


def _code_below(before: str, after: str) -> str | None:
    """Code that was closed only to be opened again."""
    opening, _, rest = after.partition("\n")
    fence = FENCE.fullmatch(opening)
    if fence is None or not before.endswith("\n" + fence_mark(opening)):
        return None
    head = before[: -len(fence_mark(opening)) - 1]
    return f"{head}\n{rest}" if f"\n{opening}\n" in f"\n{head}" else None
