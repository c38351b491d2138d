"""LINE: its gradient against autograd, and graphs with known structure."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph
from pmvge.baselines import LINE
from pmvge.baselines.line import gradient_step
from pmvge.baselines.negatives import NegativeSamples, inner_product_loss
from pmvge.errors import DivergedError


def cosines(Y: np.ndarray) -> np.ndarray:
    Y = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    return Y @ Y.T


def fitted(graph: MultiViewGraph, K: int = 8, **settings) -> np.ndarray:
    settings = {"max_steps": 400, "batch_size": 128, "progress": False} | settings
    return LINE(K, random_state=0, **settings).fit(graph).embeddings_["node"]


@pytest.mark.parametrize("second", [False, True])
def test_a_step_equals_that_of_autograd(second):
    rng = np.random.default_rng(0)
    Y = torch.randn(9, 4, requires_grad=True, generator=torch.Generator().manual_seed(0))
    C = Y.detach().flip(0).requires_grad_() if second else Y
    batch = NegativeSamples(
        rng.integers(9, size=5), rng.integers(9, size=5), rng.integers(9, size=(5, 3))
    )
    heads, tails, noise = map(torch.from_numpy, (batch.heads, batch.tails, batch.noise))
    inner_product_loss(Y[heads], C[tails], C[noise]).backward()
    # The loss is the mean over 5 links, a step is their sum.
    expected = [T.detach() - 0.1 * 5 * T.grad for T in (Y, C)]
    Y_moved = Y.detach().clone()
    C_moved = C.detach().clone() if second else Y_moved
    gradient_step(Y_moved, C_moved, batch, 0.1)
    for moved, wanted in zip((Y_moved, C_moved), expected, strict=True):
        np.testing.assert_allclose(moved, wanted, atol=1e-6)


@pytest.mark.parametrize("order", ["first", "second", "both"])
def test_two_cliques_are_separated(order):
    one = [(i, j) for i in range(8) for j in range(i + 1, 8)]
    other = [(i + 8, j + 8) for i, j in one]
    rows, cols = zip(*one, *other, (0, 8), strict=True)
    Y = fitted(MultiViewGraph({"node": 17}, {("node", "node"): (rows, cols)}), order=order)
    assert (Y[16] == 0).all()
    C = cosines(Y[:16])
    assert min(C[:8, :8].min(), C[8:, 8:].min()) > C[:8, 8:].max()


def test_second_order_vectors_are_close_for_shared_neighbours():
    """In a complete bipartite graph, nodes of one side share all neighbours but have no link."""
    block = np.kron([[0, 1], [1, 0]], np.ones((5, 5)))
    W = np.kron(np.eye(2), block)
    graph = MultiViewGraph({"node": 20}, {("node", "node"): W})
    same_side = np.kron(np.eye(4), np.ones((5, 5))) - np.eye(20) > 0
    linked, rest = W > 0, np.kron(1 - np.eye(2), np.ones((10, 10))) > 0
    first, second = (cosines(fitted(graph, order=order)) for order in ("first", "second"))
    assert second[same_side].min() > 0.9
    assert second[same_side].min() > second[linked].max() + 0.3
    assert second[same_side].min() > second[rest].max() + 0.3
    # At first order linked nodes are closest.
    assert first[linked].mean() > 0.5
    assert first[linked].mean() > first[rest].mean() + 0.5


def test_heavier_links_give_closer_vectors():
    """The sides of a square have weights heavy, light, heavy, light."""
    links = ([0, 1, 2, 0], [1, 2, 3, 3], [50.0, 1.0, 50.0, 1.0])
    C = cosines(fitted(MultiViewGraph({"node": 4}, {("node", "node"): links}), order="first"))
    assert min(C[0, 1], C[2, 3]) > max(C[1, 2], C[0, 3]) + 0.5


@pytest.mark.parametrize("K", [1, 2, 5])
def test_order_both_has_two_halves_of_length_one(K):
    star = MultiViewGraph({"node": 7}, {("node", "node"): ([0] * 5, [1, 2, 3, 4, 5])})
    Y = fitted(star, K, max_steps=20)
    assert Y.shape == (7, K)
    half = K - K // 2
    np.testing.assert_allclose(np.linalg.norm(Y[:6, :half], axis=1), 1, atol=1e-6)
    if K > 1:
        np.testing.assert_allclose(np.linalg.norm(Y[:6, half:], axis=1), 1, atol=1e-6)
        # The second half is LINE of second order, not a copy of the first.
        second = fitted(star, K // 2, max_steps=20, order="second")[:6]
        second /= np.linalg.norm(second, axis=1, keepdims=True)
        np.testing.assert_allclose(Y[:6, half:], second, atol=1e-6)


def test_a_hub_in_large_batches_does_not_overshoot():
    star = MultiViewGraph({"node": 300}, {("node", "node"): ([0] * 299, range(1, 300))})
    Y = fitted(star, order="first", batch_size=2000, max_steps=300)
    assert np.abs(Y).max() < 20


def test_divergence_raises():
    star = MultiViewGraph({"node": 300}, {("node", "node"): ([0] * 299, range(1, 300))})
    with pytest.raises(DivergedError, match=r"learning_rate=1e\+30"):
        fitted(star, learning_rate=1e30)
