"""Runs a model over texts in batches of similar length, on several threads; a query runs alone."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from knowledge.embed.embedder import Vectors
from knowledge.embed.pooling import scale_to_unit_length

RunModel: TypeAlias = Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[np.float32]]
"""Maps token ids (padded on the right) and row lengths to one vector for each row."""

MAX_BATCH_TOKENS = 512
# Padded tokens; larger batches do not fit into the CPU cache and are slower.
NICENESS = 10


class BatchRunner:
    """Tokenizes, batches and embeds texts; the tokenizer must have truncation and padding disabled."""

    def __init__(
        self, tokenizer: Tokenizer, run: RunModel, dimension: int, padding: int, window: int, threads: int = 0
    ) -> None:
        self._tokenizer, self._run_model, self._dimension, self._padding = tokenizer, run, dimension, padding
        self._window = window
        self._threads = threads or count_cores()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="embed", initializer=_lower_priority)

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = tokenize_passages(self._tokenizer, texts, self._window)
        vectors = np.empty((len(rows), self._dimension), np.float32)
        groups = list(group_by_length([len(row) for row in rows]))

        def run_group(group: list[int]) -> None:
            vectors[group] = self._run_model(*pad_rows([rows[place] for place in group], self._padding))

        if self._threads == 1 or len(groups) == 1:
            for group in groups:
                run_group(group)
        else:
            list(self._pool.map(run_group, groups))
        return scale_to_unit_length(vectors)

    def embed_one(self, text: str) -> Vectors:
        """Embed one text on the calling thread, without waiting for running batches."""
        row = fit_to_window(self._tokenizer.encode(text), self._window)
        return scale_to_unit_length(self._run_model(*pad_rows([row], self._padding)))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def tokenize_passages(tokenizer: Tokenizer, passages: Sequence[str], window: int) -> list[list[int]]:
    """Return the tokens of each passage; one that exceeds the window loses its beginning, which is the title."""
    return [fit_to_window(encoding, window, keep_end=True) for encoding in tokenizer.encode_batch_fast(list(passages))]


def fit_to_window(encoding: Encoding, window: int, *, keep_end: bool = False) -> list[int]:
    """Truncate the tokens to the window, at the end or at the beginning, and keep the special tokens."""
    ids: list[int] = encoding.ids
    if len(ids) <= window:
        return ids
    inside = [place for place, mark in enumerate(encoding.special_tokens_mask) if not mark]
    first, last = inside[0], inside[-1] + 1
    kept = window - (len(ids) - (last - first))
    return [*ids[:first], *(ids[last - kept : last] if keep_end else ids[first : first + kept]), *ids[last:]]


def group_by_length(lengths: Sequence[int], budget: int = MAX_BATCH_TOKENS) -> Iterator[list[int]]:
    """Yield groups of texts of similar length (length bucketing), so that little padding is computed."""
    group: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if group and (len(group) + 1) * lengths[group[0]] > budget:
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def pad_rows(rows: Sequence[Sequence[int]], padding: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    lengths = np.array([len(row) for row in rows], np.int32)
    inside = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(inside.shape, padding, np.int32)
    ids[inside] = np.concatenate([np.asarray(row, np.int32) for row in rows])
    return ids, lengths


def count_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _lower_priority() -> None:
    """Lower the priority of the calling thread in favour of queries; per-thread priorities exist only on Linux."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
