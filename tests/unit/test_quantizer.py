"""Product quantization: small codes whose scan finds the nearest vectors."""

from __future__ import annotations

import numpy as np
import pytest

from knowledge.index.append_only_files import IndexDamaged
from knowledge.index.product_quantization import Codebook, CodedVectors, CodeScanner, Vectors, code_size_bytes

DIMENSION = 96


def around_an_axis(count: int, dimension: int = DIMENSION, seed: int = 1) -> Vectors:
    """Make vectors in a cone, like those of real models: unrelated ones have a cosine of about .5."""
    generator = np.random.default_rng(seed)
    drawn = generator.standard_normal((count, dimension)) + np.random.default_rng(0).standard_normal(dimension)
    unit: Vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return unit


def coded(vectors: Vectors) -> CodedVectors:
    book = Codebook.train(vectors)
    codes = book.encode(vectors)
    return CodedVectors(book, codes, len(vectors), CodeScanner(book, codes))


def test_the_nearest_are_among_the_best_of_a_scan() -> None:
    vectors, questions = around_an_axis(6000), around_an_axis(40, seed=2)
    scanned = coded(vectors)
    nearest = np.argsort(-questions @ vectors.T, axis=1)[:, :10]
    found = [scanned.find_nearest(question, 600) for question in questions]
    assert np.mean([np.isin(exact, best).mean() for exact, best in zip(nearest, found, strict=True)]) > 0.97


@pytest.mark.parametrize("dimension", [5, 32, 384])
def test_a_code_takes_one_bit_per_dimension_plus_one_group(dimension: int) -> None:
    vectors = around_an_axis(1200, dimension)
    codes = Codebook.train(vectors).encode(vectors)
    assert codes.shape == (1200, code_size_bytes(dimension)) and code_size_bytes(dimension) <= dimension / 8 + 2


def test_a_codebook_survives_serialization() -> None:
    vectors = around_an_axis(1200)
    book = Codebook.train(vectors)
    again = Codebook.from_bytes(book.to_bytes(), DIMENSION)
    assert (again.encode(vectors) == book.encode(vectors)).all()
    assert (again.to_query_row(vectors[0]) == book.to_query_row(vectors[0])).all()


def test_a_codebook_for_other_vectors_is_refused() -> None:
    data = Codebook.train(around_an_axis(1200)).to_bytes()
    with pytest.raises(IndexDamaged):
        Codebook.from_bytes(data, DIMENSION + 1)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_few_vectors_are_enough(count: int) -> None:
    assert sorted(coded(around_an_axis(count)).find_nearest(around_an_axis(1)[0], count)) == list(range(count))


def test_vectors_that_are_all_alike_are_found() -> None:
    vectors = np.repeat(around_an_axis(1), 50, axis=0)
    assert len(set(coded(vectors).find_nearest(vectors[0], 20))) == 20
