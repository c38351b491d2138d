"""Retrieval across views: metrics against double loops, shared fits, tables and goals."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from scipy import sparse

from pmvge.datasets import load_digits
from pmvge.errors import ParameterError
from pmvge.experiments import Job
from pmvge.experiments.cross_view.experiment import (
    PAIRS,
    CrossViewRetrieval,
    Row,
    evaluate,
    training_graph,
)
from pmvge.experiments.cross_view.methods import (
    between_connected,
    dense_features,
    make_ranker,
    with_equal_weights,
)
from pmvge.experiments.recipe import parse

RECIPE = """
title = "small"
experiment = "cross-view"
summary = "s."
repetitions = 1
trials = 2
[options]
pairs = ["image, spectrum", "image, profile"]
unseen = 0.9
tuning_splits = [100]
ours = "CDMCA"
variants = ["neighbours"]
[[methods]]
label = "neighbours"
method = "neighbours"
search = { neighbours = [3, 1] }
[[methods]]
label = "CCA"
method = "CCA"
settings = { n_components = 8, unit = true }
[[methods]]
label = "CDMCA"
method = "CDMCA"
settings = { n_components = 8, unit = true }
"""
FAST = {"n_components": 8, "max_steps": 60}


@pytest.fixture(scope="module")
def digits():
    return load_digits(0.9, seed=7)  # 180 scans in training


def brute_force_ap(scores, relevant):
    """Mean average precision of scores without ties."""
    found = []
    for row, truth in zip(scores, relevant, strict=True):
        order = sorted(range(len(row)), key=lambda j: -row[j])
        hits = [truth[j] for j in order]
        precisions = [np.mean(hits[: k + 1]) for k in range(len(hits)) if hits[k]]
        found.append(np.mean(precisions))
    return found


def test_metrics_are_double_loops():
    _, test = load_digits(0.03, seed=7)
    rng, n = np.random.default_rng(0), len(test.labels)
    Y, Y_other = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    links = test.graph.links["image", "spectrum"].matrix().toarray() > 0
    assert links.diagonal().all()
    metrics, ap = evaluate(Y, Y_other, test, "partners")
    np.testing.assert_allclose(ap, brute_force_ap(Y @ Y_other.T, links))
    assert metrics["map"] == pytest.approx(ap.mean())
    first = np.argsort(-(Y @ Y_other.T), axis=1)[:, :10]
    recalls = [sum(links[i, j] for j in first[i]) / links[i].sum() for i in range(n)]
    assert metrics["recall"] == pytest.approx(np.mean(recalls))
    same = test.labels[:, None] == test.labels
    metrics, ap = evaluate(Y, Y_other, test, "digit")
    np.testing.assert_allclose(ap, brute_force_ap(Y @ Y_other.T, same))
    assert set(metrics) == {"map"}


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("neighbours", {"neighbours": 3}),
        ("CCA", {"n_components": 8, "unit": True}),
        ("CDMCA", {"n_components": 8}),
        ("KernelCCA", {"n_components": 8, "gamma": 0.02}),
        ("DCCA", {"batch_size": 128, **FAST}),
        ("PMvGE", {"effects": "none", "patience": "none", "learning_rate": 5e-3, **FAST}),
    ],
)
def test_methods_find_unseen_scans(digits, method, settings):
    train, test = digits
    pair = PAIRS["image, spectrum"]
    graph = training_graph(train, pair)
    assert set(graph.views) == {"image", "spectrum"}
    X, X_other = (dense_features(test.graph, view)[:60] for view in pair)
    made = make_ranker(method, settings)
    Y, Y_other = made.vectors(graph, pair, X, X_other, 0)
    same = test.labels[:60, None] == test.labels[:60]
    ap = np.mean(brute_force_ap(Y @ Y_other.T, same))
    assert ap > 1.5 * same.mean()


def test_views_that_are_not_linked(digits):
    train, test = digits
    pair = PAIRS["image, profile"]
    graph = training_graph(train, pair)
    assert set(graph.links) == {("image", "spectrum"), ("spectrum", "profile")}
    X, X_other = (dense_features(test.graph, view)[:60] for view in pair)
    same = test.labels[:60, None] == test.labels[:60]
    ours = {"effects": "none", "patience": "none", "learning_rate": 5e-3, **FAST}
    for method, settings in (("CDMCA", {"n_components": 8}), ("PMvGE", ours)):
        Y, Y_other = make_ranker(method, settings).vectors(graph, pair, X, X_other, 0)
        assert np.mean(brute_force_ap(Y @ Y_other.T, same)) > 1.5 * same.mean()


def test_neighbours_rank_by_distance(digits):
    train, test = digits
    pair = PAIRS["image, spectrum"]
    X, X_other = (dense_features(test.graph, view)[:20] for view in pair)
    made = make_ranker("neighbours", {"neighbours": 2})
    Y, Y_other = made.vectors(training_graph(train, pair), pair, X, X_other, 0)
    distances = ((Y[:, None, :-1] - Y_other[None, :, :-1]) ** 2).sum(axis=2)
    assert (np.argsort(-(Y @ Y_other.T)) == np.argsort(distances)).all()


def random_links(rng):
    W = np.where(rng.random((9, 7)) < 0.15, rng.integers(1, 5, (9, 7)), 0)
    W[3], W[:, 2] = 0, 0  # entities without links
    return W


def test_equal_weights_are_those_of_a_double_loop():
    for seed in range(5):
        W = random_links(np.random.default_rng(seed))
        found = with_equal_weights(sparse.csr_array(W)).toarray()
        for i, j in np.ndindex(*W.shape):
            expected = (W[i, j] / W[i].sum() + W[i, j] / W[:, j].sum()) / 2 if W[i, j] else 0
            assert found[i, j] == pytest.approx(expected)


def test_connected_entities_are_those_of_networkx():
    for seed in range(5):
        W = random_links(np.random.default_rng(seed))
        network = networkx.Graph((("row", i), ("column", j)) for i, j in np.argwhere(W).tolist())
        found = between_connected(sparse.csr_array(W)).toarray()
        for i, j in np.ndindex(*W.shape):
            ends = ("row", i), ("column", j)
            joined = all(end in network for end in ends) and networkx.has_path(network, *ends)
            assert found[i, j] == joined


def test_links_of_a_fit_are_a_setting(digits):
    pair = PAIRS["image, spectrum"]
    assert make_ranker("CCA", {}).links == "given"
    made = make_ranker("PMvGE", {"links": "connected", **FAST})
    graph = training_graph(digits[0], pair, made.links)
    given = training_graph(digits[0], pair)
    assert len(graph.links[pair].rows) > len(given.links[pair].rows)
    with pytest.raises(ParameterError, match="unknown links 'all'"):
        make_ranker("CCA", {"links": "all"})


def test_both_targets_share_fits(tmp_path):
    made = CrossViewRetrieval(parse("small", RECIPE), None, tmp_path)
    entry = made.entries[2]
    for target in ("partners", "digit"):
        made._score(entry, entry.settings, Row(entry, "image, spectrum", target), 0)
    assert len(list((tmp_path / "fits").iterdir())) == 1
    made._score(entry, entry.settings, Row(entry, "image, spectrum", "digit"), 1)
    assert len(list((tmp_path / "fits").iterdir())) == 2


def test_tables_and_goals(tmp_path):
    made = CrossViewRetrieval(parse("small", RECIPE), None, tmp_path)
    labels = [entry.label for entry in made.recipe.methods]
    assert len(labels) == 2 * (3 + 1)  # only CDMCA joins images and profiles
    results = {job: made.run(job) for job in made.jobs()}
    assert len(results[Job("neighbours: image, spectrum: digit", "0")]["trials"]) == 2
    first, second = made.summarize(results).tables
    assert [row[0] for row in first.rows] == ["random order", "neighbours", "CCA", "CDMCA"]
    assert [row[0] for row in second.rows] == ["random order", "CDMCA"]
    score = results[Job("CCA: image, spectrum: partners", "0")]["scores"]["map"]
    assert first.rows[2][1] == f"{100 * score:.1f}"
    goals = made.summarize(results).goals
    assert len(goals) == 3  # no rival joins images and profiles
    own, other = (
        results[Job(f"{name}: image, spectrum: digit", "0")]["scores"]["map"]
        for name in ("CDMCA", "CCA")
    )
    assert goals[-1].met == (own >= other)
    assert list(made.chosen_settings(results)) == [labels[0], labels[3]]


def test_unknown_names():
    with pytest.raises(ParameterError, match="unknown method 'PLS'"):
        make_ranker("PLS", {})
    text = RECIPE.replace('"image, profile"', '"image, name"')
    with pytest.raises(ParameterError, match="unknown pair 'image, name'"):
        CrossViewRetrieval(parse("small", text))
