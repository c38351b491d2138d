"""t-SNE: forces against double sums, the minimum against scikit-learn's, and groups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pmvge.maps.repulsion import Repulsion
from pmvge.maps.tsne import _Attraction, spectral_start, tsne


def differences(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    difference = Y[:, None].astype(np.float64) - Y
    return difference, 1 / (1 + np.square(difference).sum(axis=2))


@pytest.mark.parametrize(("width", "error"), [(1e-3, 0.01), (1.0, 0.01), (10.0, 0.03), (60.0, 0.2)])
def test_repulsion_is_the_sum_over_all_points(width: float, error: float) -> None:
    Y = (width * np.random.default_rng(0).normal(size=(400, 2))).astype(np.float32)
    difference, q = differences(Y)
    expected = (q[:, :, None] ** 2 * difference).sum(axis=1)
    forces, total = Repulsion()(Y)
    assert np.linalg.norm(forces - expected) < error * np.linalg.norm(expected)
    assert total == pytest.approx(q.sum() - len(Y), rel=0.01)


def test_repulsion_of_a_wide_map_has_a_coarser_grid() -> None:
    Y = np.array([[0, 0], [1, 0], [3000, 3000]], np.float32)
    forces, total = Repulsion()(Y)
    assert np.isfinite(forces).all()
    assert total > 0


def test_attraction_is_the_sum_over_all_pairs() -> None:
    rng = np.random.default_rng(0)
    P = np.triu(rng.random((30, 30)) * (rng.random((30, 30)) < 0.2), 1)
    P = (P + P.T) / (2 * P.sum())
    Y = rng.normal(size=(30, 2)).astype(np.float32)
    difference, q = differences(Y)
    expected = (P * q)[:, :, None] * difference
    found = _Attraction(sparse.csr_array(P))(Y)
    np.testing.assert_allclose(found, expected.sum(axis=1), atol=1e-6)


def divergence(P: np.ndarray, Y: np.ndarray) -> float:
    """Return the Kullback-Leibler divergence that t-SNE minimises."""
    _, q = differences(Y)
    np.fill_diagonal(q, 0)
    linked = P > 0
    return float((P[linked] * np.log(P[linked] / (q / q.sum())[linked])).sum())


def grouped(n: int = 150, groups: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return affinities of points that are linked within their groups, mostly."""
    rng = np.random.default_rng(0)
    group = np.arange(n) % groups
    chance = np.where(group[:, None] == group, 0.4, 0.004)
    P = np.triu(rng.random((n, n)) < chance, 1).astype(float)
    return (P + P.T) / (2 * P.sum()), group


def test_groups_stay_together_and_the_divergence_is_that_of_exact_gradients() -> None:
    P, group = grouped()
    Y = tsne(sparse.csr_array(P))
    difference = np.linalg.norm(Y[:, None] - Y, axis=2) + np.diag(np.full(len(Y), np.inf))
    assert (group[difference.argmin(axis=1)] == group).mean() > 0.95
    # Descend further with exact forces: hardly anything is left to gain.
    best, exact = Y.astype(np.float64), divergence(P, Y)
    for _ in range(200):
        difference, q = differences(best)
        np.fill_diagonal(q, 0)
        gradient = 4 * ((P - q / q.sum()) * q)[:, :, None] * difference
        best = best - 20 * gradient.sum(axis=1)
    assert divergence(P, best) > 0.95 * exact
    start = spectral_start(sparse.csr_array(P), 0)
    assert exact < 0.5 * divergence(P, start)


def test_the_start_separates_two_groups() -> None:
    P, group = grouped(60, 2)
    start = spectral_start(sparse.csr_array(P), 0)
    assert abs(np.corrcoef(start[:, 0], group)[0, 1]) > 0.9


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_few_points_and_no_affinities(n: int) -> None:
    for P in (np.zeros((n, n)), (np.ones((n, n)) - np.eye(n)) / max(1, n * (n - 1))):
        assert np.isfinite(tsne(sparse.csr_array(P))).all()


def test_progress_and_seeds() -> None:
    P = sparse.csr_array(grouped(40, 2)[0])
    calls: list[tuple[int, int]] = []
    first = tsne(P, on_progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] == len(calls)
    assert np.array_equal(first, tsne(P))
    assert not np.array_equal(first, tsne(P, seed=1))
