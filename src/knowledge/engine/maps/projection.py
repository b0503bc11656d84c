"""Projects vectors to the plane so that neighbours stay neighbours: t-SNE with an exact repulsion, in numpy.

At most a few thousand points are projected, for which the exact sum over all pairs is as fast as the approximations of
large libraries. See docs/decisions/0047-a-map-of-the-passages.md for what was compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

NEIGHBOURS = 15
"""Neighbours that attract a point; all with the same force, which orders a map as well as fitted Gaussians do."""
EXAGGERATION = 12.0
"""Factor of the attraction in the first iterations, while the large groups form."""
FIRST_ITERATIONS, ITERATIONS = 100, 350
START_MOMENTUM, MOMENTUM = np.float32(0.5), np.float32(0.8)
START_SPREAD = 1e-2
MIN_GAIN = np.float32(0.01)
MAX_STEP = np.float32(5.0)
BLOCK_VALUES = 1 << 18
"""Values of a block of pairs: 1 MB, so that it stays in the cache of a core."""


@dataclass(frozen=True, slots=True)
class Attraction:
    """The pairs of points that attract each other, and the strength of each; all strengths add up to 1."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    strength: Matrix


def project(vectors: Matrix) -> Matrix:
    """Return a place in the plane for each vector; the same vectors always get the same places."""
    count = len(vectors)
    places = project_linearly(vectors)
    if count <= 3:
        return places
    neighbours = find_neighbours(vectors, min(NEIGHBOURS, max(3, count // 5), count - 1))
    return _optimise(places, find_attraction(neighbours, count))


def project_linearly(vectors: Matrix) -> Matrix:
    """Return the two principal components (PCA), with a fixed sign, so that maps of the same data look the same."""
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    chosen = axes[:, :-3:-1].astype(np.float32)
    if chosen.shape[1] < 2:
        chosen = np.pad(chosen, ((0, 0), (0, 2 - chosen.shape[1])))
    largest = np.abs(chosen).argmax(axis=0)
    signs = np.where(np.take_along_axis(chosen, largest[None, :], axis=0)[0] < 0, -1, 1)
    placed: Matrix = centred @ (chosen * signs.astype(np.float32))
    return placed


def find_neighbours(vectors: Matrix, count: int) -> NDArray[np.intp]:
    """Return the nearest other vectors of each by cosine, nearest first."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    unit = vectors / lengths
    found = np.empty((len(unit), count), np.intp)
    rows = max(1, BLOCK_VALUES * 4 // len(unit))
    for start in range(0, len(unit), rows):
        likeness = unit[start : start + rows] @ unit.T
        own = np.arange(start, start + len(likeness))
        likeness[np.arange(len(likeness)), own] = -np.inf
        nearest = np.argpartition(-likeness, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(likeness, nearest, axis=1), axis=1, kind="stable")
        found[own] = np.take_along_axis(nearest, order, axis=1)
    return found


def find_attraction(neighbours: NDArray[np.intp], count: int) -> Attraction:
    """Return each pair of neighbours once in both directions; who is a neighbour mutually attracts twice as much."""
    first = np.repeat(np.arange(count), neighbours.shape[1])
    second = neighbours.ravel()
    pairs, times = np.unique(np.concatenate((first * count + second, second * count + first)), return_counts=True)
    return Attraction(pairs // count, pairs % count, (times / times.sum()).astype(np.float32))


def _optimise(places: Matrix, attraction: Attraction) -> Matrix:
    """Move the points by gradient descent with momentum and gains per coordinate, as van der Maaten describes."""
    count = len(places)
    placed = places * np.float32(START_SPREAD / max(float(places[:, 0].std()), 1e-12))
    placed += np.random.default_rng(0).normal(scale=START_SPREAD / 100, size=placed.shape).astype(np.float32)
    step, gains = np.zeros_like(placed), np.ones_like(placed)
    for iteration in range(ITERATIONS):
        is_first = iteration < FIRST_ITERATIONS
        exaggeration = np.float32(EXAGGERATION if is_first else 1.0)
        rate = np.float32(max(count / (EXAGGERATION if is_first else 1.0) / 4, 50.0))
        slope = exaggeration * _attract(placed, attraction) - _repel(placed)
        gains = np.where((slope > 0) != (step > 0), gains + np.float32(0.2), gains * np.float32(0.8))
        np.maximum(gains, MIN_GAIN, out=gains)
        step = (START_MOMENTUM if is_first else MOMENTUM) * step - 4 * rate * gains * slope
        np.clip(step, -MAX_STEP, MAX_STEP, out=step)
        placed += step
        placed -= placed.mean(axis=0)
    return placed


def _attract(placed: Matrix, pairs: Attraction) -> Matrix:
    apart = placed[pairs.first] - placed[pairs.second]
    weight = pairs.strength / (1 + np.einsum("ij,ij->i", apart, apart))
    columns = [np.bincount(pairs.first, weight * apart[:, axis], len(placed)) for axis in (0, 1)]
    return np.stack(columns, axis=1).astype(np.float32)


def _repel(placed: Matrix) -> Matrix:
    """Return the sum over all other points, in blocks of rows."""
    count = len(placed)
    squares = np.einsum("ij,ij->i", placed, placed)
    # One product gives 1 + |a - b|² for all pairs: (a, |a|² + 1, 1) times (-2 b, 1, |b|²).
    left = np.column_stack((placed, squares + 1, np.ones(count, np.float32)))
    right = np.column_stack((-2 * placed, np.ones(count, np.float32), squares)).T.copy()
    weighted = np.column_stack((placed, np.ones(count, np.float32)))
    sums, total = np.empty((count, 3), np.float32), 0.0
    rows = max(1, BLOCK_VALUES // count)
    block = np.empty((rows, count), np.float32)
    for start in range(0, count, rows):
        near = block[: min(rows, count - start)]
        np.matmul(left[start : start + rows], right, out=near)
        np.maximum(near, 1, out=near)
        np.reciprocal(near, out=near)
        total += float(near.sum())
        np.square(near, out=near)
        np.matmul(near, weighted, out=sums[start : start + rows])
    pushed: Matrix = (placed * sums[:, 2:] - sums[:, :2]) / np.float32(max(total - count, 1e-12))
    return pushed


def measure_trustworthiness(vectors: Matrix, placed: Matrix, count: int = 10) -> float:
    """Return how far neighbours in the plane are neighbours of the vectors, from 0 to 1 (Venna and Kaski, 2001)."""
    total = len(vectors)
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    unit = vectors / lengths
    squares = np.einsum("ij,ij->i", placed, placed)
    penalty = 0
    rows = max(1, BLOCK_VALUES * 4 // total)
    for start in range(0, total, rows):
        own = np.arange(start, min(start + rows, total))
        local = own - start
        likeness = unit[own] @ unit.T
        likeness[local, own] = np.inf  # rank 0 is the point itself
        ranks = np.empty(likeness.shape, np.int32)
        np.put_along_axis(ranks, np.argsort(-likeness, axis=1, kind="stable"), np.arange(total, dtype=np.int32), axis=1)
        apart = squares[None, :] - 2 * (placed[own] @ placed.T)
        apart[local, own] = np.inf
        nearest = np.argpartition(apart, count - 1, axis=1)[:, :count]
        penalty += int(np.maximum(np.take_along_axis(ranks, nearest, axis=1) - count, 0).sum())
    return 1 - penalty * 2 / (total * count * (2 * total - 3 * count - 1))
