"""Experiments on similarities and families: small runs, their summaries, and formulas."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pmvge.errors import InputError
from pmvge.experiments import Job
from pmvge.experiments import recipe as recipes
from pmvge.experiments.kinds import weights as weights_module
from pmvge.experiments.kinds.hierarchy import Hierarchy
from pmvge.experiments.kinds.indefinite import Indefinite
from pmvge.experiments.kinds.outliers import PAIR, Outliers
from pmvge.experiments.kinds.poisson_factors import LogInner, poisson_factors
from pmvge.experiments.kinds.weights import HeldOutWeights, expected_held_out
from pmvge.experiments.paper.figure2 import unit
from pmvge.graph import MultiViewGraph
from pmvge.likelihoods import build_family


def small(kind, name, repetitions=1, **options):
    recipe = recipes.load_recipe(name)
    return kind(
        replace(recipe, repetitions=repetitions, options={**dict(recipe.options), **options})
    )


# -- wordnet ----------------------------------------------------------------------------------


def tree(depth, branches=3):
    """Return the transitive closure of a tree."""
    parents = [-1]
    for node in range(sum(branches**k for k in range(depth))):
        parents += [node] * branches
    pairs = []
    for node, parent in enumerate(parents):
        while parent >= 0:
            pairs.append((parent, node))
            parent = parents[parent]
    rows, cols = np.array(pairs).T
    return MultiViewGraph({"synset": len(parents)}, {("synset", "synset"): (rows, cols)})


def test_similarities_reconstruct_a_tree(monkeypatch):
    experiment = small(
        Hierarchy,
        "wordnet",
        similarities=["inner", "shifted", "hyperbolic"],
        n_components=5,
        max_steps=120,
    )
    monkeypatch.setattr(experiment, "_load", lambda root: tree(3 if root == "mammal" else 4))
    results = {job: experiment.run(job) for job in experiment.jobs()}
    assert all(0.9 < result["roc_auc"] <= 1 for result in results.values())
    assert all(result["learning_rate"] in (0.05, 0.1) for result in results.values())
    assert len(experiment.data_digest()) == 64
    summary = experiment.summarize(results)
    assert [row[0] for row in summary.tables[0].rows] == ["inner", "shifted", "hyperbolic"]
    assert len(summary.goals) == 2
    assert not experiment.summarize({}).goals
    json.dumps(list(results.values()))


# -- indefinite -------------------------------------------------------------------------------


def test_the_truth_is_indefinite():
    experiment = small(Indefinite, "indefinite")
    X = np.random.default_rng(0).uniform(-1, 1, size=(30, 5))
    u = unit(X)
    by_hand = [[2 * (a[0] * b[0] - a[1] * b[1] + a[2] * b[2] - a[3] * b[3]) for b in u] for a in u]
    np.testing.assert_allclose(experiment.truth(X, X), by_hand)
    values = np.linalg.eigvalsh(experiment.truth(X, X))
    assert values[0] < -1 < 1 < values[-1]


def test_difference_approaches_the_truth_and_inner_does_not():
    experiment = small(
        Indefinite,
        "indefinite",
        n_nodes=200,
        hidden=60,
        dimensions=[1, 4],
        max_steps=150,
        grid=5,
        fresh=40,
        similarities=["inner", "difference"],
        learning_rate=0.01,
    )
    results = {job: experiment.run(job) for job in experiment.jobs()}
    error = {job.row: result["box"]["mean"] for job, result in results.items()}
    assert error["difference, K = 4"] < 0.8 * error["inner, K = 4"]
    assert error["difference, K = 4"] < error["difference, K = 1"]
    summary = experiment.summarize(results)
    assert len(summary.tables[0].rows) == 4
    assert len(summary.plots) == len(summary.goals) == 1
    assert not experiment.summarize({}).plots


# -- held-out weights ---------------------------------------------------------------------------


def test_the_expected_held_out_weight_is_a_double_loop():
    rng = np.random.default_rng(0)
    Y, Z = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    W = rng.poisson(0.4, (5, 4))
    known = MultiViewGraph({"a": 5, "b": 4}, {("a", "b"): W}).links["a", "b"]
    family = build_family("poisson", [("a", "b")])
    found = expected_held_out(Y, Z, known, -0.5, 0.2, family, ("a", "b"))
    total = 0.0
    for i, j in itertools.product(range(5), range(4)):
        if W[i, j]:
            continue
        mu = math.exp(-0.5 + float(Y[i] @ Z[j]))
        linked = 1 - math.exp(-mu)
        total += 0.2 * mu / (1 - linked + 0.2 * linked)
    assert found == pytest.approx(total)


def test_families_are_compared_on_held_out_links(monkeypatch):
    rng = np.random.default_rng(0)
    mu = np.exp(rng.normal(size=(60, 1)) + rng.normal(size=50))
    W = rng.poisson(mu * rng.gamma(0.3, 1 / 0.3, mu.shape))
    graph = MultiViewGraph({"a": 60, "b": 50}, {("a", "b"): W})
    monkeypatch.setitem(weights_module.LOADERS, "lastfm", ("lastfm", lambda folder: graph))
    experiment = small(
        HeldOutWeights,
        "lastfm-counts",
        dimensions=[2],
        learning_rates=[0.01],
        max_steps=150,
        rival="",
    )
    results = {job: experiment.run(job) for job in experiment.jobs()}
    score = {job.row: result.get("held_out_score") for job, result in results.items()}
    assert score["negative_binomial"] > score["poisson"] + 0.1  # the counts are overdispersed
    kept, held = experiment._hold_out(graph, 0)
    parts = [part.links["a", "b"].matrix().toarray() for part in (kept, held)]
    np.testing.assert_array_equal(sum(parts), W)
    assert not (parts[0] * parts[1]).any()
    summary = experiment.summarize(results)
    assert [goal.met for goal in summary.goals][:2] == [True, True]
    assert len(experiment.data_digest()) == 64
    json.dumps(list(results.values()))


def test_families_are_compared_on_the_splits_that_both_have():
    """Results are summarized after every job, when the last split has some families only."""
    experiment = small(HeldOutWeights, "lastfm-counts", repetitions=2, rival="")
    first, second = "poisson", "negative_binomial"
    baseline = experiment.settings["baseline"]
    other = {"ratio": 1.0, "roc_auc": 0.9, "seconds": 1.0}

    def goals(scores):
        results = {
            Job(row, split): {**other, "held_out_score": score}
            for (row, split), score in scores.items()
        }
        return {goal.what: goal for goal in experiment.summarize(results).goals}

    scores = {(baseline, "0"): -3.0, (first, "0"): -2.0, (second, "0"): -1.0}
    best = f"best family ({second}) against {baseline}"
    versus = "negative_binomial against poisson"
    alone = goals(scores)
    assert alone[best].found == "-1.000 against -3.000"
    # One more job of the next split is not compared with another split.
    assert goals({**scores, (baseline, "1"): 5.0}) == alone
    found = goals({**scores, (first, "1"): 5.0})
    assert (found[best], found[versus]) == (alone[best], alone[versus])
    # The splits of each row are found by their names, whatever is missing.
    found = goals({**scores, (baseline, "1"): -3.0, (second, "1"): -4.0})
    assert not found[best].met
    assert found[versus].met
    assert best not in goals({(baseline, "0"): -3.0, (second, "1"): -4.0})
    for number in range(len(experiment.jobs()) + 1):
        done = {(job.row, job.column): -1.0 for job in experiment.jobs()[:number]}
        goals(done)


def test_a_missing_rival_is_named(monkeypatch):
    graph = MultiViewGraph({"a": 3, "b": 2}, {("a", "b"): np.ones((3, 2))})
    monkeypatch.setitem(weights_module.LOADERS, "lastfm", ("lastfm", lambda folder: graph))
    experiment = small(HeldOutWeights, "lastfm-counts", rival="no_such_library")
    with pytest.raises(InputError, match="needs 'no_such_library'"):
        experiment.check()


def test_hierarchical_poisson_factors_recover_expected_weights(monkeypatch):
    pytest.importorskip("hpfrec", reason="needs hpfrec, of the extra bench")
    rng = np.random.default_rng(0)
    mu = rng.gamma(0.5, 1, (60, 3)) @ rng.gamma(0.5, 1, (50, 3)).T
    graph = MultiViewGraph({"a": 60, "b": 50}, {("a", "b"): rng.poisson(mu).astype(float)})
    Y, Z = poisson_factors(graph.links["a", "b"], 3, 0)
    assert np.corrcoef((Y @ Z.T).ravel(), mu.ravel())[0, 1] > 0.9
    g = LogInner().outer_array(Y @ Z.T)
    np.testing.assert_allclose(np.exp(g), np.maximum(Y @ Z.T, 1e-38), rtol=1e-5)
    monkeypatch.setitem(weights_module.LOADERS, "lastfm", ("lastfm", lambda folder: graph))
    experiment = small(HeldOutWeights, "lastfm-counts", families=[], dimensions=[2, 3])
    results = {job: experiment.run(job) for job in experiment.jobs()}
    scores = {job.row: result["roc_auc"] for job, result in results.items()}
    assert scores["hpfrec"] > 0.7
    assert [row[0] for row in experiment.summarize(results).tables[0].rows] == list(scores)


# -- outliers -----------------------------------------------------------------------------------


def test_outliers_are_added_to_training_links_only():
    experiment = small(Outliers, "outliers", sizes=[50, 40])
    rng = np.random.default_rng(0)
    graph = experiment.draw(rng)
    W = graph.links[PAIR].matrix().toarray()
    assert W.sum() == pytest.approx(20 * 50, rel=0.15)
    extra = experiment.contaminate(graph, rng).links[PAIR].matrix().toarray() - W
    assert extra.sum() == 50 * round(0.05 * len(graph.links[PAIR]))
    assert set(np.unique(extra)) <= {0, 50, 100, 150}


def test_beta_loses_less_than_poisson():
    experiment = small(
        Outliers,
        "outliers",
        sizes=[150, 120],
        features=[12, 12],
        max_steps=150,
        families=["poisson", "beta"],
    )
    results = {job: experiment.run(job) for job in experiment.jobs()}
    loss = {job.row: r["clean"] - r["contaminated"] for job, r in results.items()}
    assert loss["beta"] < loss["poisson"] / 2
    summary = experiment.summarize(results)
    assert len(summary.tables[0].rows) == 2
    worse = {Job("poisson", "0"): {"clean": 0.9, "contaminated": 0.9}}
    worse[Job("beta", "0")] = {"clean": 0.9, "contaminated": 0.8}
    assert [goal.met for goal in experiment.summarize(worse).goals] == [False]
