"""Sections 3.6 and 3.7: CDMCA, the block model and the softmax classifier as PMvGE."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import sqrtm, subspace_angles
from sklearn.datasets import load_digits

from pmvge.experiments import Job
from pmvge.experiments import recipe as recipes
from pmvge.experiments.paper.cdmca import WeakSignals, distance
from pmvge.experiments.paper.classifier import Classifier
from pmvge.experiments.paper.sbm import MODELS, StochasticBlockModel, densities, log_distance

WITHIN, BETWEEN = MODELS


def small(kind, name, **options):
    return kind(replace(recipes.load_recipe(name), repetitions=2, options=options))


# -- CDMCA ----------------------------------------------------------------------------------


def closed_form(X, W, K):
    """Return axes and eigenvalues of G^{-1/2} H G^{-1/2}, as in supplement C."""
    root = np.linalg.inv(np.real(sqrtm(X.T @ X)))
    values, U = np.linalg.eigh(root @ (X.T @ W @ X) @ root)
    return values[::-1][:K], X @ root @ U[:, ::-1][:, :K]


@pytest.fixture(scope="module")
def signals():
    experiment = small(WeakSignals, "cdmca", sizes=[150], strengths=[0.5, 0.15])
    return experiment, {job: experiment.run(job) for job in experiment.jobs()}


def test_weak_signals_are_closer_to_cdmca(signals):
    _, results = signals
    for result in results.values():
        strong, weak = result["angle"]
        assert weak < min(3.0, 0.5 * strong)
        # The terms i = j of supplement C make g too small here; w_ii = alpha_0 corrects it.
        assert result["neutral"][1] < 0.1 < result["paper"][1]


def test_distances_agree_with_the_papers_formula():
    """Compare with closed forms that are computed in another way."""
    rng = np.random.default_rng(0)
    n, s = 80, 0.2
    X = rng.exponential(size=(n, 4))
    X -= X.mean(axis=0)
    psi = s * np.linalg.qr(rng.normal(size=(4, 2)))[0]
    W = np.exp(X @ psi @ psi.T @ X.T)
    np.fill_diagonal(W, 0)
    values, z = closed_form(X, W, 2)
    alpha = W.sum() / n**2
    _, z_neutral = closed_form(X, W + alpha * np.eye(n), 2)
    assert np.degrees(subspace_angles(z, z_neutral)).max() < 1e-3  # w_ii does not change the axes
    truth = X @ psi @ psi.T @ X.T
    found = small(WeakSignals, "cdmca").compare(X, psi, rng.normal(size=(4, 2)) * 0.02, s)
    # The numerical maximum is close to the truth, so the distances from both are similar.
    for key, gamma in (("paper", values / alpha), ("neutral", values / alpha + 1)):
        by_hand = distance(z * np.maximum(gamma, 0) @ z.T, truth)
        assert found[key] == pytest.approx(by_hand, abs=0.03)
    assert distance(2 * truth, truth) == pytest.approx(1.0)
    assert distance(truth + np.eye(n), truth) == pytest.approx(0.0)  # i = j does not count


def test_the_summary_of_cdmca(signals):
    experiment, results = signals
    summary = experiment.summarize(results)
    assert [row[:2] for row in summary.tables[0].rows] == [
        ["150 entities", "0.5"],
        ["150 entities", "0.15"],
    ]
    assert len(summary.plots) == 2
    reversed_ = {
        job: {**r, "angle": [r["angle"][1], r["angle"][0] + 5]} for job, r in results.items()
    }
    assert [goal.met for goal in experiment.summarize(reversed_).goals] == [False]
    assert not experiment.summarize({}).plots
    json.dumps(list(results.values()))


# -- the stochastic block model -------------------------------------------------------------


def test_densities_are_weight_over_pairs():
    W = np.triu(np.random.default_rng(0).poisson(2.0, size=(7, 7)), 1)
    c = np.array([0, 0, 0, 1, 1, 1, 1])
    found = densities(W, c)
    within = [W[i, j] for i in range(3) for j in range(i + 1, 3)]
    across = [W[i, j] for i in range(3) for j in range(3, 7)]
    np.testing.assert_allclose(found[0, 0], np.mean(within))
    np.testing.assert_allclose([found[0, 1], found[1, 0]], np.mean(across))
    assert log_distance(found, found) == 0
    assert log_distance(2 * found, found) == pytest.approx(np.log(2))


@pytest.fixture(scope="module")
def blocks():
    experiment = small(
        StochasticBlockModel,
        "sbm",
        n_blocks=4,
        block_size=25,
        dimensions=[1, 3, 6],
        similarities=["inner", "weighted", "difference"],
        max_steps=300,
    )
    return experiment, {job: experiment.run(job) for job in experiment.jobs()}


def test_one_view_per_block_is_the_block_model(blocks):
    for result in blocks[1].values():
        assert result["views"] < 1e-12


def test_one_hot_memberships_need_enough_dimensions_and_dense_blocks(blocks):
    for job, result in blocks[1].items():
        few, enough, _ = result["own"]["inner"]
        assert few > 0.2
        # C - 1 dimensions represent all positive semi-definite contrasts of C blocks.
        assert enough < 1e-3 if job.row == WITHIN else enough > 0.3
        assert (result["truth"]["inner"][1] < 0.2) == (job.row == WITHIN)


def test_weighted_and_difference_represent_any_blocks(blocks):
    for result in blocks[1].values():
        assert result["own"]["weighted"][1] < 0.02  # C - 1 dimensions of any sign
        assert result["own"]["difference"][2] < 0.02  # C - 1 of each sign


def test_the_summary_of_the_block_model(blocks):
    experiment, results = blocks
    summary = experiment.summarize(results)
    assert len(summary.tables[0].rows) == 20
    assert [goal.met for goal in summary.goals][:3] == [True] * 3
    assert len(summary.goals) == 5
    worse = {kind: [1.0, 0.5, 0.5] for kind in ("inner", "weighted", "difference")}
    far = {job: {**r, "own": worse, "truth": worse, "views": 0.1} for job, r in results.items()}
    assert not any(goal.met for goal in experiment.summarize(far).goals)
    assert not experiment.summarize({}).plots
    job = Job(BETWEEN, "0")
    assert len(experiment.summarize({job: results[job]}).tables[0].rows) == 10
    json.dumps(list(results.values()))


# -- the softmax classifier -----------------------------------------------------------------


@pytest.fixture(scope="module")
def splits():
    experiment = small(Classifier, "classifier", max_steps=200)
    return experiment, {job: experiment.run(job) for job in experiment.jobs()}


def test_both_classifiers_mostly_agree(splits):
    _, results = splits
    for result in results.values():
        assert min(result["pmvge"], result["softmax"]) > 0.93
        assert result["agreement"] > 0.95
        assert abs(result["pmvge"] - result["softmax"]) < 0.03
    assert len({result["pmvge"] for result in results.values()}) == 2  # splits differ


def test_both_start_from_one_network_and_do_not_change_it():
    experiment = small(Classifier, "classifier", max_steps=100)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    network = experiment.network(64, 10, seed=1)
    before = copy.deepcopy(network.state_dict())
    for method in (experiment.by_pmvge, experiment.by_softmax):
        shuffled = np.random.default_rng(0).permutation(y[:900])
        own = method(network, X[:900], y[:900], X[900:], 0)
        others = method(network, X[:900], shuffled, X[900:], 0)
        assert np.mean(own == y[900:]) > 0.7
        assert np.mean(others == y[900:]) < 0.3  # nothing to learn from shuffled labels
    for name, weight in network.state_dict().items():
        assert (weight == before[name]).all()
    again = experiment.network(64, 10, seed=1).state_dict()
    assert all((again[name] == weight).all() for name, weight in before.items())


def test_the_summary_of_the_classifier(splits):
    experiment, results = splits
    summary = experiment.summarize(results)
    assert summary.goals[0].met
    assert [row[0] for row in summary.tables[0].rows[:2]] == ["PMvGE", "softmax classifier"]
    worse = {job: {**r, "pmvge": r["softmax"] - 0.02} for job, r in results.items()}
    goal = experiment.summarize(worse).goals[0]
    assert not goal.met
    assert goal.found == "-2.00 points"
    assert not experiment.summarize({}).plots
    json.dumps(list(results.values()))
