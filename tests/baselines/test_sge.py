"""Spectral graph embedding against scikit-learn, brute force and its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.manifold import SpectralEmbedding

from pmvge import MultiViewGraph
from pmvge.baselines import SGE
from pmvge.baselines.eigen import SMALL
from pmvge.baselines.flattening import flatten


def random_graph(n: int, seed: int, degree: float = 6.0) -> np.ndarray:
    """Return the weights of a connected random graph."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((n, n)) < degree / n, 1) * rng.uniform(0.5, 2.0, (n, n))
    W[np.arange(n - 1), np.arange(1, n)] += 0.5  # a path through all nodes
    return W + W.T


def one_view(W: np.ndarray) -> MultiViewGraph:
    return MultiViewGraph({"node": len(W)}, {("node", "node"): W})


@pytest.mark.parametrize("n", [60, SMALL + 100])  # solved as a dense matrix, and by Lanczos
def test_sge_equals_scikit_learns_spectral_embedding(n):
    W = random_graph(n, seed=0)
    ours = SGE(5, random_state=0).fit(one_view(W)).embeddings_["node"]
    theirs = SpectralEmbedding(5, affinity="precomputed", random_state=0).fit_transform(W)
    for k in range(5):
        sign = np.sign(ours[:, k] @ theirs[:, k])
        np.testing.assert_allclose(ours[:, k], sign * theirs[:, k], atol=2e-5)


def test_the_constraints_hold_and_eigenvalues_are_the_objective():
    W = random_graph(80, seed=1)
    model = SGE(6, random_state=0).fit(one_view(W))
    Y, D = model.embeddings_["node"].astype(float), np.diag(W.sum(1))
    np.testing.assert_allclose(Y.T @ D @ Y, np.eye(6), atol=1e-5)
    np.testing.assert_allclose(Y.T @ D @ np.ones(80), 0, atol=1e-4)
    spread = [
        0.5 * sum(W[i, j] * (Y[i, k] - Y[j, k]) ** 2 for i in range(80) for j in range(80))
        for k in range(6)
    ]
    np.testing.assert_allclose(model.eigenvalues_, spread, atol=1e-5)


def components(seed: int) -> np.ndarray:
    """Return a graph of components of 40, 25 and 10 nodes, and two nodes without links."""
    blocks = [random_graph(n, seed + n) for n in (25, 40, 10)]
    return sparse.block_diag([*blocks, np.zeros((2, 2))]).toarray()


@pytest.mark.parametrize("K", [1, 2, 5])
def test_components_come_first_and_nodes_without_links_are_zero(K):
    W = components(0)
    model = SGE(K, random_state=0).fit(one_view(W))
    Y = model.embeddings_["node"].astype(float)
    assert not Y[75:].any()
    D = np.diag(W.sum(1))
    np.testing.assert_allclose(Y.T @ D @ Y, np.eye(K), atol=1e-5)
    np.testing.assert_allclose(Y.T @ D @ np.ones(len(W)), 0, atol=1e-4)
    assert (model.eigenvalues_[:2] == 0).all()
    for axis in Y[:, : min(K, 2)].T:  # constant on each component
        for part in (slice(0, 25), slice(25, 65), slice(65, 75)):
            assert np.ptp(axis[part]) < 1e-6
    # All eigenvalues equal numpy's for the linked nodes.
    A = W[:75, :75] / np.sqrt(np.outer(W[:75].sum(1), W[:75].sum(1)))
    theirs = np.sort(1 - np.linalg.eigvalsh(A))[1 : K + 1]
    np.testing.assert_allclose(model.eigenvalues_, theirs, atol=1e-7)


def test_more_axes_than_nodes_leave_zeros():
    W = components(3)[:75, :75]
    Y = SGE(100, random_state=0).fit(one_view(W)).embeddings_["node"]
    assert Y.shape == (75, 100)
    assert np.abs(Y[:, :74]).max(axis=0).min() > 0
    assert not Y[:, 74:].any()


def test_views_are_embedded_as_one_graph():
    W = random_graph(50, seed=5)
    expected = SGE(4, random_state=0).fit(one_view(W)).embeddings_["node"]
    graph = MultiViewGraph(
        {"a": np.random.default_rng(0).normal(size=(20, 3)), "b": 30},
        {("a", "a"): W[:20, :20], ("b", "a"): W[20:, :20], ("b", "b"): W[20:, 20:]},
    )
    assert (flatten(graph).W.toarray() == W).all()
    parts = SGE(4, random_state=0).fit(graph).embeddings_
    np.testing.assert_allclose(np.vstack([parts["a"], parts["b"]]), expected, atol=1e-5)
