"""Calibration, degrees and similarities, checked by double loops and a simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pmvge.graph import Links, parse_links
from pmvge.report.comparison import calibration, degrees, similarities
from pmvge.report.summary import PairData

RNG = np.random.default_rng


def as_links(W: NDArray[np.float64], within: bool) -> Links:
    return parse_links("links", np.triu(W, 1) if within else W, W.shape, within, None)


def make(n: int, m: int, *, within: bool, held_out: bool, seed: int = 0) -> PairData:
    """Return a view pair with links drawn from the model itself."""
    rng = RNG(seed)
    Y = rng.normal(size=(n, 3))
    Y_other = Y if within else rng.normal(size=(m, 3))
    mu = 0.05 * np.exp(Y @ Y_other.T)
    training = as_links(rng.poisson(mu).astype(float), within)
    held = as_links(rng.poisson(0.25 * mu).astype(float), within) if held_out else None
    return PairData(("a", "a" if within else "b"), Y, Y_other, np.log(0.05), training, held, 0.25)


def all_pairs(data: PairData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mu and w of every pair, by a double loop."""
    links = data.held_out or data.training
    scale = 0.05 * (0.25 if data.held_out else 1)
    W = np.zeros(links.shape)
    W[links.rows, links.cols] = links.weights
    found = [
        (scale * np.exp(data.query[i] @ data.candidate[j]), W[i, j])
        for i in range(links.shape[0])
        for j in range(links.shape[1])
        if not links.within or i < j
    ]
    mu, w = np.array(found).T
    return mu, w


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("shape", [(120, 60), (60, 120)])
def test_bins_divide_all_pairs_by_expected_weight(
    within: bool, held_out: bool, shape: tuple[int, int]
) -> None:
    n, m = shape
    data = make(n, n if within else m, within=within, held_out=held_out)
    found = calibration(data, RNG(0))
    mu, w = all_pairs(data)
    order = np.argsort(mu)
    assert found.held_out == held_out
    assert found.bins.pairs.sum() == len(mu)
    assert len(found.bins.pairs) > 2
    parts = np.split(order, np.cumsum(found.bins.pairs).astype(int)[:-1])
    np.testing.assert_allclose(found.bins.expected, [mu[p].mean() for p in parts])
    np.testing.assert_allclose(found.bins.observed, [w[p].mean() for p in parts])
    np.testing.assert_allclose(
        found.bins.error, [np.sqrt((w[p] ** 2).sum()) / len(p) for p in parts]
    )


@pytest.mark.parametrize("within", [False, True])
def test_the_true_model_lies_on_the_diagonal(within: bool) -> None:
    data = make(400, 300, within=within, held_out=True)
    found = calibration(data, RNG(0))
    assert (np.abs(found.bins.observed - found.bins.expected) < 4 * found.bins.error).all()


def test_a_sample_of_rows_counts_each_pair_once() -> None:
    data = make(50, 50, within=True, held_out=False)
    found = calibration(data, RNG(1), budget=500)
    rows, n, view = found.rows
    assert (rows, n, view) == (10, 50, "a")
    assert (
        found.bins.pairs.sum() == 10 * 40 + 10 * 9 / 2
    )  # pairs with other rows, and among the sampled rows
    between = calibration(make(20, 60, within=False, held_out=False), RNG(1), budget=200)
    assert between.rows == (10, 60, "b")  # of the longer side
    assert between.bins.pairs.sum() == 10 * 20


def test_a_sample_of_rows_estimates_the_same_curve() -> None:
    data = make(2000, 60, within=False, held_out=False)
    full, sample = calibration(data, RNG(0)), calibration(data, RNG(0), budget=60_000)
    assert sample.rows == (1000, 2000, "a")
    for found in (full, sample):
        assert (np.abs(found.bins.observed - found.bins.expected) < 4 * found.bins.error).all()
    assert sample.bins.pairs.sum() == full.bins.pairs.sum() / 2


def test_calibration_shows_a_wrong_alpha() -> None:
    data = make(300, 300, within=False, held_out=False)
    twice = replace(data, log_alpha=np.log(0.1), held_out=None, exposure=1.0)
    found = calibration(twice, RNG(0))
    top = found.bins.expected > 0.1
    np.testing.assert_allclose(found.bins.observed[top] / found.bins.expected[top], 0.5, rtol=0.3)


def test_degrees_are_a_complementary_distribution() -> None:
    W = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]])
    Y = np.zeros((4, 2))
    data = PairData(("a", "b"), Y, Y[:3], 0.0, as_links(W, False), None, 1.0)
    left, right = degrees(data)
    assert (left.view, left.n_unlinked, left.n_entities) == ("a", 1, 4)
    assert (left.degree.tolist(), left.share.tolist()) == ([3.0, 5.0], [1.0, pytest.approx(1 / 3)])
    assert (right.view, right.n_unlinked, right.degree.tolist()) == ("b", 1, [5.0, 6.0])


def test_many_degrees_are_thinned() -> None:
    rng = RNG(0)
    W = rng.pareto(1.0, size=(3000, 1))
    Y = np.zeros((3000, 2))
    data = PairData(("a", "b"), Y, Y[:1], 0.0, as_links(W, False), None, 1.0)
    side = degrees(data)[0]
    assert len(side.degree) <= 202
    assert (side.degree[0], side.degree[-1]) == (W.min(), W.max())
    np.testing.assert_allclose(side.share, [(d <= W).mean() for d in side.degree])


@pytest.mark.parametrize("within", [False, True])
def test_similarities_are_those_of_linked_held_out_and_other_pairs(within: bool) -> None:
    n = 30
    rng = RNG(0)
    index = np.arange(n, dtype=float)
    # The inner product identifies the pair: (1000 + i)(1000 + j), or 100 i + j.
    if within:
        Y = Y_other = np.stack([index + 1000, np.zeros(n)], axis=1)
    else:
        Y = np.stack([index, np.ones(n)], axis=1)
        Y_other = np.stack([np.full(n, 100.0), index], axis=1)
    kinds = rng.integers(3, size=(n, n))  # no link, training, held out
    if within:
        kinds = np.triu(kinds, 1)
    training, held = (as_links((kinds == kind).astype(float), within) for kind in (1, 2))
    pair = ("a", "a" if within else "b")
    found = similarities(PairData(pair, Y, Y_other, 0.0, training, held, 1.0), RNG(1))
    G = Y @ Y_other.T
    valid = np.triu(np.ones((n, n), bool), 1) if within else np.ones((n, n), bool)
    for name, kind in (("not linked", 0), ("training", 1), ("held out", 2)):
        assert set(found[name]) == set(G[valid & (kinds == kind)])


def test_kinds_without_pairs_have_no_curve() -> None:
    W = np.ones((3, 3))
    data = PairData(("a", "b"), W, W, 0.0, as_links(W, False), None, 1.0)
    assert set(similarities(data, RNG(0))) == {"training"}
