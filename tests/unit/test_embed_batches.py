from __future__ import annotations

import platform
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from knowledge.embed import cpu_features
from knowledge.embed.batches import MAX_BATCH_TOKENS, BatchRunner, group_by_length, pad_rows, tokenize_passages
from knowledge.embed.granite import WINDOW_TOKENS, load_tokenizer
from tests.support import tiny_model


@given(st.lists(st.integers(1, 600), max_size=200))
def test_every_text_is_in_one_batch_and_no_batch_is_over_budget(lengths: list[int]) -> None:
    groups = list(group_by_length(lengths))
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[place] for place in group) <= MAX_BATCH_TOKENS


def test_texts_of_similar_length_share_a_batch() -> None:
    assert list(group_by_length([200, 10, 200, 12])) == [[0, 2], [3, 1]]


def test_padding_is_on_the_right() -> None:
    ids, lengths = pad_rows([[5, 6, 7], [8]], padding=1)
    assert ids.tolist() == [[5, 6, 7], [8, 1, 1]] and lengths.tolist() == [3, 1]


def test_a_passage_that_is_too_long_loses_the_beginning_of_its_title_and_nothing_of_its_text() -> None:
    cutting = load_tokenizer()
    text = " ".join(f"fact {number}" for number in range(80))
    whole, short = tokenize_passages(cutting, [f"{'A very long title ' * 50}. {text}", "tea"], WINDOW_TOKENS)
    assert len(whole) == WINDOW_TOKENS and (whole[0], whole[-1]) == (short[0], short[-1])
    assert cutting.decode(whole).endswith(f"title . {text}")


def test_batches_run_in_parallel_and_a_query_does_not_wait_for_them() -> None:
    both_are_in = threading.Barrier(3)

    def run(ids: NDArray[np.int32], lengths: NDArray[np.int32]) -> NDArray[np.float32]:
        if ids.shape[1] > 10:
            both_are_in.wait(timeout=30)  # two long batches and the question below: none waits for another to end
        return np.ones((len(ids), 4), np.float32)

    batches = BatchRunner(tiny_model.make_tokenizer(), run, dimension=4, padding=0, window=512, threads=2)
    bulk = threading.Thread(target=batches.embed, args=(["tea " * 400, "tea " * 300],))
    bulk.start()
    assert batches.embed_one("tea " * 20).shape == (1, 4)
    bulk.join(timeout=30)
    assert not bulk.is_alive()
    batches.close()


def test_a_failing_batch_fails_the_call() -> None:
    def run(ids: NDArray[np.int32], lengths: NDArray[np.int32]) -> NDArray[np.float32]:
        raise RuntimeError("out of memory")

    batches = BatchRunner(tiny_model.make_tokenizer(), run, dimension=4, padding=0, window=512, threads=2)
    with pytest.raises(RuntimeError, match="out of memory"):
        batches.embed(["tea " * 400, "tea " * 300])
    batches.close()


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="reads the flags of Linux on x86")
def test_the_detected_arithmetic_agrees_with_the_cpu_flags() -> None:
    flags = Path("/proc/cpuinfo").read_text().split()
    assert cpu_features.has_fast_int8() is any(flag in flags for flag in ("avx512_vnni", "avx_vnni", "amx_int8"))
