"""Other models as special cases of PMvGE (sections 3.6 and 3.7 of the paper)."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE

BLOCKS = (20, 15, 25)
BETA = np.array([[0.9, 0.2, 0.1], [0.2, 1.2, 0.3], [0.1, 0.3, 0.8]])


def block_graph(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw weights (upper triangle) and memberships from a stochastic block model."""
    rng = np.random.default_rng(seed)
    c = np.repeat(np.arange(3), BLOCKS)
    return np.triu(rng.poisson(BETA[c][:, c]), 1), c


def block_densities(W: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the maximum likelihood estimate of the SBM: mean weight per pair of blocks."""
    density = np.zeros((3, 3))
    for d in range(3):
        for e in range(3):
            pairs = [
                W[min(i, j), max(i, j)]
                for i in np.flatnonzero(c == d)
                for j in np.flatnonzero(c == e)
                if (i < j if d == e else True)
            ]
            density[d, e] = np.mean(pairs)
    return density


class Zero(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(x), 2)


def test_sbm_as_one_view_per_block_with_f_zero():
    """With d_i = c_i and f = 0, mu = alpha, and alpha-hat equals the block densities."""
    W, c = block_graph(0)
    rows = {f"block {d}": np.flatnonzero(c == d) for d in range(3)}
    graph = MultiViewGraph(
        {view: len(index) for view, index in rows.items()},
        {
            (f"block {d}", f"block {e}"): W[np.ix_(rows[f"block {d}"], rows[f"block {e}"])]
            for d in range(3)
            for e in range(d, 3)
        },
    )
    model = PMvGE(
        2, encoder={view: Zero() for view in rows}, similarity="inner", effects="none"
    ).fit(graph)
    np.testing.assert_allclose(model.alpha_, block_densities(W, c), rtol=1e-12)


def test_sbm_as_one_view_of_one_hot_memberships_with_a_linear_map():
    """mu = alpha exp<psi_c, psi_c'> equals the block densities if K is large enough."""
    W, c = block_graph(1)
    graph = MultiViewGraph({"node": np.eye(3)[c]}, {("node", "node"): W})
    model = PMvGE(
        4,
        encoder="linear",
        effects="none",
        weight_decay=0.0,
        similarity="inner",
        standardize=False,
        batch_size=len(c) ** 2,
        max_steps=1500,
        learning_rate=0.03,
        schedule="cosine",
        patience=None,
        random_state=0,
    ).fit(graph)
    mu = model.intensity("node", np.eye(3), "node", np.eye(3))
    np.testing.assert_allclose(mu, block_densities(W, c), rtol=1e-3)


def softmax_accuracy(X, y, X_test, y_test, seed: int) -> float:
    """Train a classifier with one tanh hidden layer, cross-entropy and Adam."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    generator = np.random.default_rng(seed)
    for _ in range(600):
        rows = generator.integers(len(X), size=256)
        loss = nn.functional.cross_entropy(
            network(torch.from_numpy(X[rows])), torch.from_numpy(y[rows])
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return float((network(torch.from_numpy(X_test)).argmax(1).numpy() == y_test).mean())


def pmvge_accuracy(X, y, X_test, y_test, seed: int) -> float:
    """Fit PMvGE with D = 2: the second view has one-hot classes, w = 1 to the own class."""
    graph = MultiViewGraph({"x": X, "class": np.eye(10)}, {("x", "class"): (np.arange(len(y)), y)})
    model = PMvGE(
        10,
        encoder={
            "x": EncoderSpec("mlp", hidden_sizes=(64,), activation="tanh", dropout=0.0),
            "class": "identity",
        },
        similarity="inner",
        standardize=False,
        batch_size=256,
        max_steps=600,
        learning_rate=3e-3,
        patience=None,
        random_state=seed,
    ).fit(graph)
    ids, _ = model.search("x", X_test, among="class", k=1)
    return float((ids[:, 0] == y_test).mean())


def test_a_softmax_classifier_as_two_views():
    X, y = load_digits(return_X_y=True)
    X = ((X - X.mean(0)) / (X.std(0) + 1)).astype(np.float32)
    gaps = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[450:], order[:450]
        parts = (X[train], y[train], X[test], y[test], seed)
        with torch.random.fork_rng():
            plain = softmax_accuracy(*parts)
        assert plain > 0.95
        gaps.append(plain - pmvge_accuracy(*parts))
    assert np.mean(gaps) <= 0.01, gaps


def cdmca_subspaces(X, Y, W, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two-view CDMCA in closed form: leading singular pairs of G^{-1/2} H G'^{-1/2}."""

    def inverse_root(G: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(G)
        return vectors / np.sqrt(values) @ vectors.T

    left, right = inverse_root(X.T @ X), inverse_root(Y.T @ Y)
    U, _, V = np.linalg.svd(left @ (X.T @ W @ Y) @ right)
    return left @ U[:, :K], right @ V[:K].T


def largest_angle(A: np.ndarray, B: np.ndarray) -> float:
    """Return the largest principal angle between two column spaces, in degrees."""
    cosines = np.linalg.svd(np.linalg.qr(A)[0].T @ np.linalg.qr(B)[0])[1]
    return float(np.degrees(np.arccos(np.clip(cosines.min(), -1, 1))))


def linear_map(model: PMvGE, view: str, p: int) -> np.ndarray:
    """Return psi of a linear encoder."""
    return model.embed(view, np.eye(p)) - model.embed(view, np.zeros((1, p)))


def test_cdmca_is_approximated_by_the_linear_model_on_weak_signals():
    """The maximum likelihood estimate and CDMCA span nearly the same subspace."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(400, 5)), rng.normal(size=(300, 4))
    X, Y = X - X.mean(0), Y - Y.mean(0)
    A, B = np.linalg.qr(rng.normal(size=(5, 2)))[0], np.linalg.qr(rng.normal(size=(4, 2)))[0]
    W = rng.poisson(0.5 * np.exp(0.3 * (X @ A * [1.0, 0.7]) @ (Y @ B).T))
    model = PMvGE(
        2,
        encoder="linear",
        effects="none",
        weight_decay=0.0,
        similarity="inner",
        standardize=False,
        batch_size=10**6,
        max_steps=1500,
        learning_rate=0.02,
        schedule="cosine",
        patience=None,
        random_state=0,
    ).fit(MultiViewGraph({"x": X, "y": Y}, {("x", "y"): W}))
    for view, p, closed_form in zip("xy", (5, 4), cdmca_subspaces(X, Y, W, K=2), strict=True):
        psi = linear_map(model, view, p)
        assert largest_angle(psi, closed_form) < 5.0
        assert largest_angle(psi, rng.normal(size=(p, 2))) > 20.0  # a random subspace
