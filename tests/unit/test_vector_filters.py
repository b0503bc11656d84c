"""Vector search within a filter finds nearly the same chunks as an exact scan of the chunks that pass it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from knowledge.index.columns_view import Selection
from knowledge.index.product_quantization import Vectors
from knowledge.index.vectors import FIRST_TAIL_CHUNKS, VectorView, VectorWriter, iter_product_blocks, multiply_in_blocks

DIMENSION, CHUNKS, CLUSTERS = 384, 8000, 80
QUESTIONS, DEPTH = 20, 100
OPENBLAS_THREAD_NUMBERS = 460_800
# Size of a matrix from which OpenBLAS multiplies it with a vector on several threads.


def make_clustered_vectors(count: int, seed: int) -> Vectors:
    """Make unit vectors in clusters around a common mean, with cosines of about .6 between clusters."""
    common = np.random.default_rng(0)
    mean = common.standard_normal(DIMENSION) * 1.6
    centers = common.standard_normal((CLUSTERS, DIMENSION))
    generator = np.random.default_rng(seed)
    rows = mean + centers[generator.integers(0, CLUSTERS, count)]
    rows += 0.75 * generator.standard_normal((count, DIMENSION))
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorView]:
    folder: Path = tmp_path_factory.mktemp("vectors")
    writer = VectorWriter(folder, DIMENSION)
    writer.add_rows(make_clustered_vectors(CHUNKS, 1).astype(np.float16), np.ones(CHUNKS, np.bool_))
    writer.code_tail_if_long()
    yield writer.view()
    writer.close()


def select_share(share: float) -> Selection:
    mask = np.random.default_rng(7).random(CHUNKS) < share
    count = int(mask.sum())
    return Selection(mask, count, count / CHUNKS, mask, count, all_readable=True)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.25, 0.6])
def test_the_nearest_hundred_within_a_filter_are_found(view: VectorView, share: float) -> None:
    assert view.coded is not None and len(view.coded.codes) == CHUNKS
    selection = select_share(share)
    inside = np.flatnonzero(selection.mask)
    rows, recalls = view.vectors[inside].astype(np.float32), []
    for question in make_clustered_vectors(QUESTIONS, 2):
        exact = inside[np.argsort(-(rows @ question))[:DEPTH]]
        found, cosines = view.search(question, selection, DEPTH)
        assert (np.diff(cosines) <= 0).all() and selection.mask[found].all()
        recalls.append(np.isin(exact, found).mean())
    assert np.mean(recalls) >= 0.99


def test_scores_in_blocks_equal_one_product(view: VectorView) -> None:
    rows, question = view.vectors.astype(np.float32), make_clustered_vectors(1, 3)[0]
    exact = rows.astype(np.float64) @ question
    assert np.allclose(multiply_in_blocks(rows, question), exact, atol=1e-5)
    assert np.allclose(view.compute_cosines(question, np.arange(CHUNKS)), exact, atol=1e-5)
    assert view.compute_cosines(question, np.empty(0, np.int64)).shape == (0,)


@pytest.mark.parametrize("dimension", [1, 384, 1024, 4096])
def test_a_product_is_too_small_for_threads_of_openblas(dimension: int) -> None:
    blocks = list(iter_product_blocks(FIRST_TAIL_CHUNKS, dimension))
    assert [number for part in blocks for number in range(FIRST_TAIL_CHUNKS)[part]] == list(range(FIRST_TAIL_CHUNKS))
    assert max(part.stop - part.start for part in blocks) * dimension < OPENBLAS_THREAD_NUMBERS
