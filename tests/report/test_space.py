"""The map: samples of entities, layout, and labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge.report.space import draw_map, project, stratified


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


def test_categories_of_a_label_are_sorted() -> None:
    rng = np.random.default_rng(0)
    Y = {"a": rng.normal(size=(5, 2)), "b": rng.normal(size=(2, 2))}
    labels = {"a": {"year": np.array(["10", "9", "9", "x", "10"])}}
    (coloring,) = draw_map(Y, labels).colorings
    assert coloring.categories == ["9", "10", "x", "other", "no label"]
    assert coloring.codes == {"a": [1, 0, 0, 2, 1], "b": [4, 4]}
    assert coloring.counts == [2, 2, 1, 0, 2]


def test_rare_labels_share_a_colour() -> None:
    values = [str(v) for v in range(12) for _ in range(20 - v)]
    labels = {"a": {"v": np.array(values)}}
    Y = {"a": np.random.default_rng(0).normal(size=(len(values), 2))}
    (coloring,) = draw_map(Y, labels).colorings
    assert coloring.categories == [*map(str, range(10)), "other", "no label"]
    assert coloring.counts == [20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10 + 9, 0]
