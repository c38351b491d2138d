"""Samples, layouts of few entities, and places of entities outside the sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge.maps import Relation, layout, place, stratified


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(8, 500))
def test_samples_are_stratified_by_view(sizes: list[int], budget: int) -> None:
    views = {str(index): n for index, n in enumerate(sizes)}
    drawn = stratified(views, budget, np.random.default_rng(0))
    counts = {view: len(at) for view, at in drawn.items()}
    assert list(drawn) == list(views)
    assert all(len(set(at.tolist())) == len(at) and at.max() < views[v] for v, at in drawn.items())
    assert all(counts.values())
    assert sum(counts.values()) <= budget
    assert sum(counts.values()) >= min(sum(sizes), budget - len(sizes))
    # A view that is not complete has as many entities as any other, up to rounding.
    for view in views:
        assert counts[view] == views[view] or counts[view] >= max(counts.values()) - 1


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("K", [1, 2, 5])
def test_few_entities_need_no_tsne(n: int, K: int) -> None:
    Y = np.random.default_rng(0).normal(size=(n, K))
    xy, method = layout({"a": Y}, [])
    assert method == "principal components"
    flat = np.linalg.norm(xy["a"][:, None] - xy["a"], axis=2)
    if K <= 2:  # distances are kept
        np.testing.assert_allclose(flat, np.linalg.norm(Y[:, None] - Y, axis=2), atol=1e-5)
    assert flat.shape == (n, n)


def test_equal_vectors_are_at_one_place() -> None:
    xy, _ = layout({"a": np.ones((40, 5)), "b": np.ones((2, 5))}, [])
    np.testing.assert_allclose(np.concatenate([*xy.values()]), 0, atol=1e-6)


def test_a_layout_splits_views_in_order() -> None:
    nearest = np.array([[1], [0], [3], [2], [3]])
    Y = {"a": np.eye(5), "b": np.zeros((1, 5))}
    relations = [
        Relation("a", "a", nearest, "similar"),
        Relation("b", "a", np.array([[4]]), "partners"),
    ]
    xy, method = layout(Y, relations)
    assert method == "t-SNE"
    assert {view: rows.shape for view, rows in xy.items()} == {"a": (5, 2), "b": (1, 2)}
    distance = np.linalg.norm(xy["a"] - xy["b"], axis=1)
    assert distance.argmin() == 4
    assert all(rows.dtype == np.float32 for rows in xy.values())


def test_entities_are_placed_near_most_of_their_nearest_ones() -> None:
    xy = {
        "a": np.array([[0, 0], [1, 0], [0, 1], [100, 100]], np.float32),
        "b": np.array([[50, 0], [51, 0]], np.float32),
    }
    similar = np.array([[0, 1, 2, 3], [3, -1, -1, -1], [0, 3, -1, -1]])
    places = place(xy, [Relation("a", "a", similar, "similar")])
    assert np.linalg.norm(places[0]) < 1  # not the mean, (25, 25)
    np.testing.assert_allclose(places[1], [100, 100], atol=1e-3)
    partners = np.array([[0, 1], [0, 1], [-1, -1]])
    relations = [
        Relation("a", "a", np.array([[3], [3], [2]]), "similar"),
        Relation("a", "b", partners, "partners"),
    ]
    places = place(xy, relations)  # two thirds of the pull or more is towards b
    assert np.linalg.norm(places[:2] - [50.5, 0], axis=1).max() < 1
    np.testing.assert_allclose(places[2], [0, 1], atol=1e-3)
