"""Fits answers into a number of characters: texts are cut first, then other long fields, and rows of lists last.

Clients cut off answers above 50,000 characters, and then the end of the JSON is missing. A text that is cut here ends
with an ellipsis and has `truncated: true` beside it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import TypeVar

from knowledge.model import Json, JsonValue
from knowledge.toolsets.hidden_characters import SUSPECT, strip_answer

ELLIPSIS = "…"
TRUNCATED = "truncated"
TEXT_FIELDS = ("chunk_text", "text", "content", "context", "snippet")
"""Fields that quote documents: cut before anything else."""
OPTIONAL_FIELDS = (
    "explanation",
    "matched_by",
    "chunk_indexes",
    "created_at",
    "updated_at",
    "url",
    "added_by",
    "source",
    "location",
)
"""Fields of a hit that no contract requires: removed before whole hits are."""
MIN_TEXT_CHARS = 200
"""Characters that a text keeps, if shortening the other fields can make that possible."""
LEAST_TEXT_CHARS = 20
MAX_FIELD_CHARS, MAX_METADATA_CHARS = 200, 1000
MARK_CHARS = len(f',"{TRUNCATED}":true') + len(ELLIPSIS)
WORD_SEARCH_CHARS = 40
"""A cut is moved back to the end of a word at most this far."""
LEFT_OUT = "_left_out"
HINT = "The answer was shortened to the limit of this server; ask for fewer items, or for the next ones."

Item = TypeVar("Item")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode_answer(body: Json) -> str:
    """Return an answer as the text block that is sent."""
    return _ENCODER.encode(body)


def prepare_answer(body: Json, max_chars: int) -> Json:
    """Return an answer without hidden characters that fits into `max_chars`; the same object if it is already so."""
    text = encode_answer(body)
    if not text.isascii() and SUSPECT.search(text) is not None:
        return fit_answer(strip_answer(body), max_chars)
    return body if len(text) <= max_chars else fit_answer(body, max_chars)


def fit_answer(body: Json, max_chars: int) -> Json:
    """Return an answer whose text block has at most `max_chars` characters; the same object if it has already."""
    if len(encode_answer(body)) <= max_chars:
        return body
    fitted = copy.deepcopy(body)
    texts = list(_find_texts(fitted))
    if _cut_texts(fitted, texts, max_chars, MIN_TEXT_CHARS):
        return fitted
    _cut_long_fields(fitted)
    if _cut_texts(fitted, texts, max_chars, MIN_TEXT_CHARS):
        return fitted
    _drop_optional_fields(fitted)
    if _cut_texts(fitted, texts, max_chars, LEAST_TEXT_CHARS):
        return fitted
    if not _drop_rows(fitted, max_chars):
        _cut_all_fields(fitted, max_chars)
    return fitted


def share_budget(costs: Sequence[int], budget: int) -> list[int]:
    """Divide a budget among texts, best first: half of it equally, the rest to the best until it is used up."""
    if sum(costs) <= budget:
        return list(costs)
    equal = max(budget, 0) // 2 // max(len(costs), 1)
    shares = [min(cost, equal) for cost in costs]
    left = max(budget, 0) - sum(shares)
    for place, cost in enumerate(costs):
        more = min(cost - shares[place], left)
        shares[place] += more
        left -= more
    return shares


def cut_text(text: str, max_cost: int) -> str:
    """Return the beginning of a text, in at most `max_cost` characters of JSON, with an ellipsis; whole if it fits."""
    if measure_text(text) <= max_cost:
        return text
    budget = max_cost - len(ELLIPSIS)
    kept = text[: max(budget, 0)]
    while kept and (cost := measure_text(kept)) > budget:
        kept = kept[: min(len(kept) * budget // cost, len(kept) - 1)]
    space = kept.rfind(" ", len(kept) - WORD_SEARCH_CHARS)
    return (kept[:space] if space > 0 else kept).rstrip() + ELLIPSIS


def measure_text(text: str) -> int:
    """Return the characters that a text takes in JSON, without its quotation marks."""
    return len(json.dumps(text, ensure_ascii=False)) - 2


def take_within(items: Sequence[Item], costs: Sequence[int], budget: int) -> Sequence[Item]:
    """Return the first items whose costs fit the budget, at least one."""
    total = 0
    for count, cost in enumerate(costs):
        total += cost
        if count and total > budget:
            return items[:count]
    return items


# -- steps of fit_answer ----------------------------------------------------------------------------


def _find_texts(node: JsonValue) -> Iterator[tuple[Json, str]]:
    """Yield the objects that quote a text, in the order of the answer, with the name of the field."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in TEXT_FIELDS and isinstance(value, str):
                yield node, key
            else:
                yield from _find_texts(value)
    elif isinstance(node, list):
        for item in node:
            yield from _find_texts(item)


def _cut_texts(body: Json, texts: list[tuple[Json, str]], max_chars: int, min_text_chars: int) -> bool:
    """Cut texts until the answer fits; change nothing and return False if they would keep less than the minimum."""
    whole = [str(owner[key]) for owner, key in texts]
    costs = [measure_text(text) for text in whole]
    budget = max_chars - (len(encode_answer(body)) - sum(costs)) - MARK_CHARS * len(texts)
    if budget < sum(min(cost, min_text_chars) for cost in costs):
        return False
    for (owner, key), text, share in zip(texts, whole, share_budget(costs, budget), strict=True):
        _replace_text(owner, key, cut_text(text, share))
    return True


def _replace_text(owner: Json, key: str, text: str) -> None:
    if owner[key] != text:
        owner[key] = text
        owner[TRUNCATED] = True


def _cut_long_fields(node: JsonValue) -> None:
    """Cut every string that is neither a text nor short, and every metadata object that is still large."""
    if isinstance(node, dict):
        for key, value in list(node.items()):
            if isinstance(value, str) and key not in TEXT_FIELDS:
                _replace_text(node, key, cut_text(value, MAX_FIELD_CHARS))
            else:
                _cut_long_fields(value)
            if key == "metadata" and isinstance(value, dict):
                _trim_object(node, key, value, MAX_METADATA_CHARS)
    elif isinstance(node, list):
        for place, item in enumerate(node):
            if isinstance(item, str):
                node[place] = cut_text(item, MAX_FIELD_CHARS)
            else:
                _cut_long_fields(item)


def _drop_optional_fields(body: Json) -> None:
    for row in {id(owner): owner for owner, _ in _find_texts(body) if owner is not body}.values():
        for name in OPTIONAL_FIELDS:
            row.pop(name, None)


def _drop_rows(body: Json, max_chars: int) -> bool:
    """Cut texts to the minimum and remove rows from the end of the largest lists; return whether that is enough."""
    for owner, key in list(_find_texts(body)):
        if isinstance(text := owner[key], str) and owner is not body:
            _replace_text(owner, key, cut_text(text, LEAST_TEXT_CHARS))
    while (excess := len(encode_answer(body)) - max_chars) > 0:
        lists = [found for found in _find_lists(body) if len(found[2]) > 1]
        if not lists:
            return False
        owner, key, rows = max(lists, key=lambda found: _measure(found[2]))
        _shorten_list(body, owner, key, rows, excess)
    return True


def _shorten_list(body: Json, owner: Json, key: str, rows: list[JsonValue], excess: int) -> None:
    removed = 0
    target = excess + len(HINT) + MARK_CHARS
    while len(rows) > 1 and removed < target:
        removed += _measure(rows.pop()) + len(",")
        left_out = owner.get(key + LEFT_OUT, 0)
        owner[key + LEFT_OUT] = left_out + 1 if isinstance(left_out, int) else 1
    body[TRUNCATED] = True
    body.setdefault("hint", HINT)
    if owner is body and isinstance(offset := body.get("offset"), int):
        body["next_offset"] = offset + len(rows)


def _find_lists(node: JsonValue) -> Iterator[tuple[Json, str, list[JsonValue]]]:
    if isinstance(node, dict):
        for key, value in node.items():
            if isinstance(value, list):
                yield node, key, value
            yield from _find_lists(value)
    elif isinstance(node, list):
        for item in node:
            yield from _find_lists(item)


def _cut_all_fields(body: Json, max_chars: int) -> None:
    """Cut the largest fields of an answer that has no rows left to remove."""
    for key, value in sorted(body.items(), key=lambda item: -_measure(item[1])):
        excess = len(encode_answer(body)) + MARK_CHARS - max_chars
        if excess <= 0:
            return
        if isinstance(value, str):
            _replace_text(body, key, cut_text(value, max(measure_text(value) - excess, MAX_FIELD_CHARS)))
        elif isinstance(value, dict):
            _trim_object(body, key, value, max(_measure(value) - excess, MAX_FIELD_CHARS))


def _trim_object(owner: Json, key: str, value: Json, max_chars: int) -> None:
    """Keep the first members of an object that fit."""
    costs = [_measure(name) + _measure(member) + len(":,") for name, member in value.items()]
    kept = take_within(list(value), costs, max_chars) if _measure(value) > max_chars else list(value)
    if len(kept) < len(value):
        owner[key] = {name: value[name] for name in kept}
        owner[TRUNCATED] = True


def _measure(node: JsonValue) -> int:
    return len(encode_answer({"": node})) - len('{"":}')
