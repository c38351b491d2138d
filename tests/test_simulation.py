"""Simulated graphs, drawn in both ways of section 3.2, against the Poisson distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse, stats

from pmvge.errors import GraphError, ParameterError
from pmvge.simulation import simulate

X, T = np.array([[0.5], [-1.0], [1.0], [0.0]]), np.array([[1.0], [-0.5], [0.3]])
ENCODERS = {"x": lambda rows: rows, "t": lambda rows: rows}
ALPHA = {("x", "t"): 0.8, ("x", "x"): 0.5}


def draws(draw: str, n: int, seed: int) -> dict:
    rng = np.random.default_rng(seed)
    found: dict = {pair: [] for pair in ALPHA}
    for _ in range(n):
        graph = simulate({"x": X, "t": T}, ENCODERS, ALPHA, rng, draw=draw)
        for pair in ALPHA:
            found[pair].append(graph.links[pair].matrix().toarray())
    return {pair: np.array(tables) for pair, tables in found.items()}


@pytest.mark.parametrize("draw", ["pairs", "links"])
def test_weights_have_a_poisson_distribution(draw):
    found = draws(draw, n=3000, seed=0)
    for (d, e), tables in found.items():
        Y, Y_other = X, {"x": X, "t": T}[e]
        mu = ALPHA[d, e] * np.exp(Y @ Y_other.T)
        for i in range(mu.shape[0]):
            for j in range(mu.shape[1]):
                if d == e and i >= j:
                    continue
                counts = np.bincount(tables[:, i, j].astype(int), minlength=6)
                tail = counts[5:].sum()
                expected = stats.poisson.pmf(np.arange(5), mu[i, j])
                expected = 3000 * np.append(expected, 1 - expected.sum())
                observed = np.append(counts[:5], tail)
                kept = expected > 5
                chi = ((observed - expected)[kept] ** 2 / expected[kept]).sum()
                assert chi < stats.chi2.ppf(1 - 1e-4, kept.sum()), (d, e, i, j)


@pytest.mark.parametrize("draw", ["pairs", "links"])
def test_weights_of_different_pairs_are_uncorrelated(draw):
    """Uncorrelated because T is Poisson; a multinomial of fixed T would be correlated."""
    tables = draws(draw, n=3000, seed=1)["x", "t"].reshape(3000, -1)
    off_diagonal = np.corrcoef(tables.T)[~np.eye(12, dtype=bool)]
    assert np.abs(off_diagonal).max() < 4.5 / np.sqrt(3000)


def test_within_a_view_the_graph_is_undirected_without_self_links():
    W = draws("links", n=50, seed=2)["x", "x"].sum(0)
    assert (W == W.T).all()
    assert not np.diag(W).any()


def test_featureless_and_sparse_views_and_modules_are_accepted():
    rng = np.random.default_rng(0)
    views = {"x": sparse.csr_array(np.eye(4)), "user": 5}
    table = torch.nn.Embedding(5, 2)
    graph = simulate(views, {"x": torch.nn.Linear(4, 2), "user": table}, {("user", "x"): 3.0}, rng)
    assert graph.sizes == {"user": 5, "x": 4}
    assert graph.given_ids == frozenset()
    assert graph.links["user", "x"].total > 0


@pytest.mark.parametrize("draw", ["pairs", "links"])
def test_alpha_zero_gives_an_observed_pair_without_links(draw):
    graph = simulate(
        {"x": X, "t": T}, ENCODERS, {("x", "t"): 0.0}, np.random.default_rng(0), draw=draw
    )
    assert len(graph.links["x", "t"]) == 0


def test_invalid_arguments_are_rejected():
    rng = np.random.default_rng(0)
    views = {"x": X, "t": T}
    with pytest.raises(ParameterError, match=r"alpha of .*: expected a finite number >= 0"):
        simulate(views, ENCODERS, {("x", "t"): -1.0}, rng)
    with pytest.raises(ParameterError, match=r"\('x', 't'\): expected intensities up to 1e\+15"):
        simulate({"x": 100 * X, "t": T}, ENCODERS, {("x", "t"): 1.0}, rng)
    with pytest.raises(ParameterError, match="unknown draw 'all'"):
        simulate(views, ENCODERS, ALPHA, rng, draw="all")
    with pytest.raises(GraphError, match="unknown view 'y'"):
        simulate(views, ENCODERS, {("x", "y"): 1.0}, rng)
