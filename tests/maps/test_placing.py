"""Places of vectors in two dimensions: samples, projection, and vectors outside the sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge.maps import layout, project, stratified


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


def test_groups_stay_together_on_the_map() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(4, size=120)
    Y = 3 * np.eye(8)[group] + 0.2 * rng.normal(size=(120, 8))
    xy, method = project(Y.astype(np.float32), 0)
    assert "t-SNE" in method
    distance = np.linalg.norm(xy[:, None] - xy, axis=2) + np.diag(np.full(120, np.inf))
    assert (group[distance.argmin(axis=1)] == group).mean() > 0.95


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("K", [1, 2, 5])
def test_few_points_need_no_tsne(n: int, K: int) -> None:
    Y = np.random.default_rng(0).normal(size=(n, K))
    xy, method = project(Y, 0)
    assert xy.shape == (n, 2)
    assert "t-SNE" not in method
    if K <= 2:
        np.testing.assert_array_equal(xy[:, :K], Y)
    else:  # principal components
        assert np.ptp(xy, axis=0)[0] > 0 or n == 1


def test_equal_points_stay_equal() -> None:
    xy, _ = project(np.ones((40, 5)), 0)
    np.testing.assert_allclose(xy, 0, atol=1e-12)


def test_vectors_outside_the_sample_are_placed_among_their_group() -> None:
    rng = np.random.default_rng(0)
    group = {"a": rng.integers(4, size=300), "b": rng.integers(4, size=40)}
    Y = {view: 3 * np.eye(8)[g] + 0.2 * rng.normal(size=(len(g), 8)) for view, g in group.items()}
    places = layout(Y, fitted=100)
    assert {view: xy.shape for view, xy in places.items()} == {"a": (300, 2), "b": (40, 2)}
    xy, labels = np.concatenate([*places.values()]), np.concatenate([*group.values()])
    distance = np.linalg.norm(xy[:, None] - xy, axis=2) + np.diag(np.full(340, np.inf))
    assert (labels[distance.argmin(axis=1)] == labels).mean() > 0.95
    again = layout(Y, fitted=100)
    assert all(np.array_equal(places[view], again[view]) for view in Y)


def test_a_layout_of_few_vectors() -> None:
    for n in (1, 3):
        places = layout({"a": np.ones((n, 5)), "b": np.zeros((1, 5))})
        assert np.isfinite(places["a"]).all()
        assert len(places["b"]) == 1
