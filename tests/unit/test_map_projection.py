"""The projection of vectors to the plane, its clusters and their telling words."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from knowledge.engine.maps.clusters import MAX_CLUSTERS, find_clusters, fit_places
from knowledge.engine.maps.projection import (
    find_neighbours,
    measure_trustworthiness,
    project,
    project_linearly,
)
from knowledge.engine.maps.telling_words import MappedPassage, WordPlace, find_telling_words
from knowledge.text.analyzer import normalise_nfkc


def make_groups(count: int, groups: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors around random centres, and the group of each."""
    generator = np.random.default_rng(seed)
    group = np.arange(count) % groups
    vectors = generator.normal(size=(groups, 64))[group] + 0.6 * generator.normal(size=(count, 64))
    return vectors.astype(np.float32), group


def rank_slowly(vectors: np.ndarray, placed: np.ndarray, count: int) -> float:
    """Return the trustworthiness as its definition says."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    total, penalty = len(vectors), 0
    for one in range(total):
        others = [other for other in range(total) if other != one]
        by_vector = sorted(others, key=lambda other: -float(unit[one] @ unit[other]))
        by_place = sorted(others, key=lambda other: float(np.square(placed[one] - placed[other]).sum()))
        penalty += sum(max(0, by_vector.index(other) + 1 - count) for other in by_place[:count])
    return 1 - penalty * 2 / (total * count * (2 * total - 3 * count - 1))


def test_neighbours_stay_neighbours_better_than_with_principal_components() -> None:
    vectors, _ = make_groups(600, 12)
    placed = project(vectors)
    assert placed.shape == (600, 2) and np.isfinite(placed).all()
    trust, linear = (measure_trustworthiness(vectors, each) for each in (placed, project_linearly(vectors)))
    assert trust > 0.95 and trust > linear + 0.1, (trust, linear)


def test_the_same_vectors_give_the_same_map() -> None:
    vectors, _ = make_groups(100, 4)
    assert np.array_equal(project(vectors), project(vectors))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 30])
def test_few_and_equal_vectors_have_finite_places(count: int) -> None:
    for vectors in (make_groups(count, 2)[0], np.ones((count, 64), np.float32), np.zeros((count, 64), np.float32)):
        placed = fit_places(project(vectors))
        assert placed.shape == (count, 2) and np.isfinite(placed).all()
        assert len(find_clusters(placed)) == count


def test_trustworthiness_is_that_of_its_definition() -> None:
    vectors, _ = make_groups(60, 3)
    for placed in (project_linearly(vectors), np.random.default_rng(1).normal(size=(60, 2)).astype(np.float32)):
        assert measure_trustworthiness(vectors, placed, 5) == pytest.approx(rank_slowly(vectors, placed, 5))


def test_neighbours_are_the_nearest_by_cosine() -> None:
    vectors = np.array([[1, 0], [5, 0.1], [0, 1], [0.1, 2]], np.float32)
    assert find_neighbours(vectors, 1).ravel().tolist() == [1, 0, 3, 2]


def test_groups_become_clusters() -> None:
    vectors, group = make_groups(300, 5)
    clusters = find_clusters(fit_places(project(vectors)))
    for number in range(5):
        [(_, most)] = Counter(clusters[group == number].tolist()).most_common(1)
        assert most >= 54, "a group of 60 is together"
    sizes = np.bincount(clusters)
    assert len(sizes) >= 5 and list(sizes) == sorted(sizes, reverse=True)


def test_there_are_never_more_clusters_than_colours_and_names_can_tell() -> None:
    places = np.random.default_rng(2).random((5000, 2)).astype(np.float32)
    clusters = find_clusters(places)
    assert 1 <= len(np.unique(clusters)) <= MAX_CLUSTERS and np.bincount(clusters).min() >= 50


def test_words_that_are_frequent_inside_and_rare_outside_name_a_cluster() -> None:
    texts = [
        "The Lighthouse lamp of the town", "A Lighthouse keeper of the town", "Every lighthouse lamp in the town",
        "Ripe tomatoes in the town", "Water the tomato plants of the town", "Tomatoes and basil for the town",
    ]  # fmt: skip
    passages = [MappedPassage(number, text, "en") for number, text in enumerate(texts)]
    first, second = find_telling_words(passages, [0, 0, 0, 1, 1, 1], 2)
    assert [read_word(passages, word) for word in first][:2] == ["Lighthouse", "lamp"]
    assert read_word(passages, second[0]) in ("tomatoes", "Tomatoes"), "forms of a word count as one"
    assert {place.passage for place in first[0]} == {0, 1}, "the commonest spelling, in different documents"
    assert "town" not in {read_word(passages, word) for word in (*first, *second)}


def test_words_of_scripts_without_spaces_are_pairs_of_characters() -> None:
    passages = [
        MappedPassage(number, text, "ja") for number, text in enumerate(["灯台の光", "灯台の人", "海の魚", "海の水"])
    ]
    first, _ = find_telling_words(passages, [0, 0, 1, 1], 2)
    assert "灯台" in {read_word(passages, word) for word in first}


def read_word(passages: list[MappedPassage], word: tuple[WordPlace, ...]) -> str:
    return normalise_nfkc(passages[word[0].passage].text)[word[0].start : word[0].end]
