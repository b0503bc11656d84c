"""Finds the clusters of a map: the hills of its density, each point with the hill that it lies on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.float32]
Numbers = NDArray[np.intp]

RANK_SHARE = 0.4
GRID_CELLS = 64
MAX_CLUSTERS = 24
FIRST_WIDTH, WIDTH_GROWTH = 1.5, 1.25
"""Smoothing of the density in cells, and its growth until there are few enough hills."""
MIN_POINTS, MIN_SHARE = 3, 0.01
"""A smaller hill is joined to the nearest larger one."""


def fit_places(places: Places) -> Places:
    """Scale places to the unit square, with narrower gaps between far groups.

    Each coordinate is mixed with its rank, which keeps the order and gives crowded parts more room.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    scaled = (places - low) / np.maximum(high - low, np.float32(1e-12))
    ranks = np.argsort(np.argsort(places, axis=0, kind="stable"), axis=0, kind="stable") / max(len(places) - 1, 1)
    fitted: Places = ((1 - RANK_SHARE) * scaled + RANK_SHARE * ranks).astype(np.float32)
    return fitted


def find_clusters(places: Places) -> Numbers:
    """Return the cluster of each place of the unit square, from 0; the largest cluster is the first."""
    cells = np.clip((places * GRID_CELLS).astype(np.intp), 0, GRID_CELLS - 1)
    counts = np.zeros((GRID_CELLS, GRID_CELLS))
    np.add.at(counts, (cells[:, 0], cells[:, 1]), 1)
    least = max(MIN_POINTS, round(len(places) * MIN_SHARE))
    width = max(FIRST_WIDTH, GRID_CELLS / (2 * len(places) ** 0.5))  # few points lie far apart
    while True:
        hills = find_hills(smooth(counts, width))[cells[:, 0], cells[:, 1]]
        _, numbers, sizes = np.unique(hills, return_inverse=True, return_counts=True)
        if (sizes >= least).sum() <= MAX_CLUSTERS:
            return _order_by_size(_join_small(places, numbers, sizes, least))
        width *= WIDTH_GROWTH


def smooth(counts: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Return the counts blurred by a Gaussian of this width in cells."""
    reach = int(3 * width) + 1
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    for axis in (0, 1):
        counts = np.apply_along_axis(np.convolve, axis, np.pad(counts, reach), kernel / kernel.sum(), "same")[
            reach:-reach, reach:-reach
        ]
    return counts


def find_hills(density: NDArray[np.float64]) -> Numbers:
    """Return the number of the summit that one reaches from each cell by always climbing to the highest neighbour."""
    rows, columns = density.shape
    numbers = np.arange(density.size).reshape(density.shape)
    padded, padded_numbers = np.pad(density, 1, constant_values=-1), np.pad(numbers, 1)
    best, target = density.copy(), numbers.copy()
    for down in (0, 1, 2):
        for right in (0, 1, 2):
            near = padded[down : down + rows, right : right + columns]
            higher = near > best
            best = np.where(higher, near, best)
            target = np.where(higher, padded_numbers[down : down + rows, right : right + columns], target)
    summits = target.ravel()
    while not np.array_equal(following := summits[summits], summits):
        summits = following
    return summits.reshape(density.shape)


def _join_small(places: Places, numbers: Numbers, sizes: Numbers, least: int) -> Numbers:
    large = np.flatnonzero(sizes >= least)
    if not len(large):
        return np.zeros_like(numbers)
    centres = np.stack([places[numbers == number].mean(axis=0) for number in large])
    joined = numbers.copy()
    for number in np.flatnonzero(sizes < least):
        centre = places[numbers == number].mean(axis=0)
        joined[numbers == number] = large[np.square(centres - centre).sum(axis=1).argmin()]
    return joined


def _order_by_size(numbers: Numbers) -> Numbers:
    _, dense, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    ordered: Numbers = ranks[dense]
    return ordered
