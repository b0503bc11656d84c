"""The embedding child returns the same vectors as the server, and its crashes and hangs do not affect the server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from knowledge.embed.embedder import Embedder
from knowledge.embed.loading import ModelChoice, ModelLoader, load
from knowledge.engine.ingest.embedding_child import EmbeddingChild, EmbeddingIsolation
from knowledge.errors import Cancelled, JobCrashed, ModelUnavailable
from knowledge.testing import BagOfWordsEmbedder
from tests.support import tiny_model
from tests.support.hostile_models import DEADLY_WORD
from tests.unit.test_embed_directory import write_weights

LOAD = "knowledge.embed.loading:load"
TEXTS = [f"Passage {number} of a longer text about tea." for number in range(20)]
LONG = 60.0


def never() -> bool:
    return False


@contextmanager
def child_with(fault: str, seconds: float = LONG) -> Iterator[EmbeddingChild]:
    choice = ModelChoice(cache_folder=Path())
    with closing(
        EmbeddingChild(f"tests.support.hostile_models:load_{fault}", choice, BagOfWordsEmbedder(), seconds, never)
    ) as child:
        yield child


def assert_same(choice: ModelChoice, embedder: Embedder) -> None:
    with closing(EmbeddingChild(LOAD, choice, embedder, LONG, never)) as child:
        made, expected = child.embed(TEXTS), embedder.embed(TEXTS)
    assert made.shape == expected.shape and made.dtype == expected.dtype
    assert (made * expected).sum(1).min() > 0.99  # eight-bit arithmetic depends a little on the batch


def test_the_default_model_gives_the_same_vectors_in_a_child(tmp_path: Path) -> None:
    choice = ModelChoice(cache_folder=tmp_path, threads=1)
    assert_same(choice, load(choice))


def test_a_model_in_a_folder_gives_the_same_vectors_in_a_child(tmp_path: Path) -> None:
    folder = write_weights(tiny_model.write_model_folder(tmp_path / "tiny"))
    choice = ModelChoice(spec=f"dir:{folder}", cache_folder=tmp_path)
    assert_same(choice, load(choice))


def test_a_model_behind_an_http_service_gets_no_child() -> None:
    remote = ModelLoader(ModelChoice(spec="openai:http://127.0.0.1:1/v1#tea", key="secret", cache_folder=Path()))
    embedder = BagOfWordsEmbedder()
    with EmbeddingIsolation(LONG, never) as isolation:
        assert isolation.isolate_model(remote, embedder) is embedder


def test_a_text_that_crashes_the_child_is_reported_with_the_signal() -> None:
    with child_with("end") as child:
        child.embed(["tea"])
        with pytest.raises(JobCrashed, match="SIGKILL"):
            child.embed([DEADLY_WORD])


def test_a_text_that_hangs_the_child_is_stopped_after_its_deadline() -> None:
    with child_with("freeze") as child:
        child.embed(["tea"])
        child._seconds = 0.3
        with pytest.raises(JobCrashed, match="longer than"):
            child.embed([DEADLY_WORD])


def test_a_hanging_child_is_killed_within_a_second_when_the_job_is_cancelled() -> None:
    choice, stopped = ModelChoice(cache_folder=Path()), False
    loader = "tests.support.hostile_models:load_freeze"
    with closing(EmbeddingChild(loader, choice, BagOfWordsEmbedder(), LONG, lambda: stopped)) as child:
        child.embed(["tea"])
        stopped, began = True, time.monotonic()
        with pytest.raises(Cancelled):
            child.embed([DEADLY_WORD])
    assert time.monotonic() - began < 1.0
    assert child._process is not None and child._process.returncode == -signal.SIGKILL


def test_a_child_that_ends_while_loading_the_model_is_not_blamed_on_the_text() -> None:
    with child_with("never") as child, pytest.raises(ModelUnavailable, match="in a child process"):
        child.embed(["tea"])


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_sigterm_to_every_process_does_not_end_a_child_before_the_server() -> None:
    with child_with("nothing") as child:
        before = child.embed(["tea"])
        assert isinstance(child._process, subprocess.Popen)
        child._process.send_signal(signal.SIGTERM)
        assert np.array_equal(child.embed(["tea"]), before)
