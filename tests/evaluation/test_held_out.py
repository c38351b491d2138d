"""Held-out links of several view pairs, against scikit-learn on dense matrices."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, mean_poisson_deviance, roc_auc_score

from pmvge.evaluation import evaluate_held_out
from pmvge.graph import canonical

SIZES = {"a": 30, "b": 20}
PAIRS = (("a", "b"), ("a", "a"))


def links_of(W, within):
    rows, cols = np.nonzero(np.triu(W, 1) if within else W)
    return canonical(rows, cols, W[rows, cols], W.shape, within)


@pytest.fixture(scope="module")
def world():
    """Return vectors, and dense weights (n, m) of training and held-out links."""
    rng = np.random.default_rng(0)
    Y = {view: rng.normal(size=(n, 3)).astype(np.float32) for view, n in SIZES.items()}
    trained, held = {}, {}
    for a, b in PAIRS:
        shape = SIZES[a], SIZES[b]
        for part, rate in ((trained, 0.2), (held, 0.1)):
            W = rng.poisson(rate, shape) * rng.uniform(0.5, 2, shape)
            part[a, b] = np.triu(W, 1) + np.triu(W, 1).T if a == b else W
    return Y, {("a", "b"): -1.0, ("a", "a"): -2.5}, trained, held


def as_links(part):
    return {(a, b): links_of(W, a == b) for (a, b), W in part.items()}


def by_hand(world, pair, evaluated, exposure):
    Y, log_alpha, _, held = world
    a, b = pair
    g = Y[a].astype(np.float64) @ Y[b].T.astype(np.float64)
    mu = exposure * np.exp(log_alpha[pair] + g)
    if a == b:
        evaluated = evaluated & np.triu(np.ones_like(evaluated), 1)
    W = held[pair][evaluated]
    return {
        "links": (W > 0).sum(),
        "pairs": evaluated.sum(),
        "observed": W.sum(),
        "roc_auc": roc_auc_score(W > 0, g[evaluated]),
        "average_precision": average_precision_score(W > 0, g[evaluated]),
        "poisson_deviance": mean_poisson_deviance(W, mu[evaluated]),
        "expected_over_observed": mu[evaluated].sum() / W.sum(),
    }


def total(W, pair):
    return W[pair].sum() / (2 if pair == ("a", "a") else 1)


def check(results, expected):
    assert {key: results[key] for key in expected} == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("exposure", [None, 0.7])
def test_metrics_of_every_pair_agree_with_sklearn(world, known, exposure):
    Y, log_alpha, trained, held = world
    weights = {pair: total(trained, pair) for pair in PAIRS}
    results = evaluate_held_out(
        Y,
        log_alpha,
        as_links(held),
        known=as_links(trained) if known else None,
        weights=weights,
        exposure=exposure,
    )
    assert list(results["pairs"]) == ["a,b", "a,a"]
    for pair in PAIRS:
        evaluated = trained[pair] == 0 if known else np.ones_like(trained[pair], dtype=bool)
        share = exposure or total(held, pair) / weights[pair]
        expected = by_hand(world, pair, evaluated, share)
        check(results["pairs"][",".join(pair)], {**expected, "exposure": share})


def test_overall_is_a_weighted_mean_of_pairs(world):
    Y, log_alpha, trained, held = world
    weights = {pair: total(trained, pair) for pair in PAIRS}
    results = evaluate_held_out(Y, log_alpha, as_links(held), weights=weights)
    one, two = results["pairs"].values()
    weighed = {
        "roc_auc": "links",
        "average_precision": "links",
        "recall@10": "queries",
        "ndcg@10": "queries",
        "poisson_deviance": "pairs",
        "expected_over_observed": "observed",
    }
    expected = {key: one[key] + two[key] for key in ("links", "queries", "pairs", "observed")}
    for name, by in weighed.items():
        expected[name] = (one[name] * one[by] + two[name] * two[by]) / (one[by] + two[by])
    assert results["overall"] == pytest.approx(expected)


def test_pairs_without_held_out_links_are_skipped(world):
    Y, log_alpha, _, held = world
    links = as_links(held)
    links["a", "a"] = links["a", "a"].select(np.array([], dtype=np.int64))
    results = evaluate_held_out(Y, log_alpha, links, weights={("a", "b"): 1.0})
    assert list(results["pairs"]) == ["a,b"]
    nothing = evaluate_held_out(Y, log_alpha, {}, weights={})
    assert nothing == {"pairs": {}, "overall": {}}
