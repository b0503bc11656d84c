"""Removes characters that a reader does not see from what agents receive, and counts them.

Invisible, bidirectional-control and tag characters hide instructions from the person who reads a document, or show
them in another order than a model reads them (CVE-2021-42574, "Trojan Source"). Joiners stay where a script or an
emoji sequence needs them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import cast

from knowledge.model import Json, JsonValue

REMOVED = "removed_characters"

HIDDEN = re.compile(
    "["
    "\u00ad"  # soft hyphen
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    "\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff"  # zero width and invisible operators
    "\ufff9-\ufffb"  # interlinear annotation
    "\U000e0000-\U000e007f"  # tags
    "]"
    "|(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"  # selectors after a selector
)
SUSPECT = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
"""All characters of HIDDEN: one class is searched twice as fast as the alternatives."""
JOINING_SCRIPT = re.compile(
    "[\u0600-\u061b\u061d-\u0dff\u1000-\u109f\u1780-\u180d\u180f-\u18af\u1a00-\u1aaf\u1b00-\u1bff\ua800-\ua8ff"
    "\ua980-\uaadf\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff\U0001e900-\U0001e95f]"
)
"""Arabic, Syriac, N'Ko, Indic, Burmese, Khmer, Mongolian and related scripts, whose letters join."""
EMOJI_MODIFIERS = re.compile("[\ufe0f\u20e3\U0001f3fb-\U0001f3ff]")


def strip_hidden(text: str, removed: Counter[str] | None = None) -> str:
    """Return a text without hidden characters; count those that were removed, such as U+202E."""
    if text.isascii() or SUSPECT.search(text) is None:
        return text

    def replace(match: re.Match[str]) -> str:
        if _is_needed(match.string, match.start()):
            return match[0]
        if removed is not None:
            removed[f"U+{ord(match[0]):04X}"] += 1
        return ""

    return HIDDEN.sub(replace, text)


def _is_needed(text: str, place: int) -> bool:
    before, after = text[place - 1 : place] if place else "", text[place + 1 : place + 2]
    match text[place]:
        case "\u00ad":  # soft hyphen
            return after in ("\n", "\r")
        case "\u200c":  # zero width non-joiner
            return JOINING_SCRIPT.match(before) is not None
        case "\u200d":  # zero width joiner
            return JOINING_SCRIPT.match(before) is not None or (_is_emoji(before) and _is_emoji(after))
    return False


def _is_emoji(character: str) -> bool:
    return bool(character) and (unicodedata.category(character) == "So" or EMOJI_MODIFIERS.match(character) is not None)


def strip_answer(body: Json) -> Json:
    """Return an answer without hidden characters, the same object if it has none.

    Each row of a list, and the answer itself for everything else, has the number of characters that were removed from
    it as `removed_characters`.
    """
    removed: Counter[str] = Counter()
    cleaned = cast(Json, _strip_node(body, removed))
    return {**cleaned, REMOVED: dict(removed)} if removed else cleaned


def _strip_node(node: JsonValue, removed: Counter[str]) -> JsonValue:
    if isinstance(node, str):
        return strip_hidden(node, removed)
    if isinstance(node, list):
        items = [strip_answer(item) if isinstance(item, dict) else _strip_node(item, removed) for item in node]
        return items if any(new is not old for new, old in zip(items, node, strict=True)) else node
    if isinstance(node, dict):
        members = {strip_hidden(key, removed): _strip_node(value, removed) for key, value in node.items()}
        same = all(key in node and value is node[key] for key, value in members.items())
        return node if same and len(members) == len(node) else members
    return node
