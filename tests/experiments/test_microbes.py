"""The microbes experiment: likelihoods against double loops, splits, tables and goals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pmvge.errors import ParameterError
from pmvge.experiments import Job
from pmvge.experiments.microbes.experiment import MicrobesMetabolites, evaluate
from pmvge.experiments.microbes.methods import (
    Multinomial,
    Problem,
    centred_log,
    make_predictor,
    mass_features,
    sequence_features,
)
from pmvge.experiments.recipe import parse
from pmvge.graph import MultiViewGraph

RECIPE = """
title = "small"
experiment = "microbes"
summary = "s."
repetitions = 2
trials = 2
[options]
least = 2
variants = ["neighbours"]
[options.ours]
sample = "co-occurrence"
match = "CCA"
[[methods]]
label = "mean"
method = "mean"
[[methods]]
label = "co-occurrence"
method = "co-occurrence"
search = { smoothing = [1.0, 0.1] }
[[methods]]
label = "neighbours"
method = "neighbours"
settings = { neighbours = 3, smoothing = 0.1 }
[[methods]]
label = "CCA"
method = "CCA"
settings = { n_components = 2, shrinkage = 0.5 }
"""
FAST = {"n_components": 4, "patience": "none", "schedule": "cosine", "max_steps": 200}


def planted(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Counts of samples of three kinds, each with its own microbes and metabolites."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    strength = rng.gamma(3, 1, (n, 1))
    A = rng.poisson(np.where(kind[:, None] == np.arange(12) % 3, 20, 1) * strength)
    B = rng.poisson(np.where(kind[:, None] == np.arange(15) % 3, 30, 2) * strength)
    return A + (A.sum(axis=1, keepdims=True) == 0), B + (B.sum(axis=1, keepdims=True) == 0)


def problem(n_new: int = 15) -> Problem:
    A, B = (each / each.sum(axis=1, keepdims=True) for each in planted())
    ids = [f"id{k}" for k in range(15)]
    return Problem(A[n_new:], B[n_new:], A[:n_new], B[:n_new], np.array(ids[:12]), np.array(ids))


def experiment() -> MicrobesMetabolites:
    made = MicrobesMetabolites(parse("small", RECIPE))
    A, B = planted()
    views = {"sample": len(A), "microbe": A.shape[1], "metabolite": B.shape[1]}
    links = {("sample", "microbe"): A * 1.0, ("sample", "metabolite"): B * 1.0}
    made.graph = MultiViewGraph(views, links)
    return made


def test_likelihoods_are_double_loops():
    data = problem()
    method = make_predictor("co-occurrence", {"smoothing": 0.5})
    W = np.zeros((12, 15))
    for a, b in zip(data.microbes, data.metabolites, strict=True):
        W += np.outer(a, b)
    p = (W + 0.5 * data.metabolites.mean(axis=0)) / (W.sum(axis=1, keepdims=True) + 0.5)
    given_microbe, given_sample = [], []
    for a, b in zip(data.new_microbes, data.new_metabolites, strict=True):
        given_microbe.append(sum(a[i] * b[j] * np.log(p[i, j]) for i, j in np.ndindex(p.shape)))
        given_sample.append(sum(b[j] * np.log(sum(a * p[:, j])) for j in range(15)))
    np.testing.assert_allclose(evaluate(method, data, "microbe", 0)["value"], given_microbe)
    np.testing.assert_allclose(evaluate(method, data, "sample", 0)["value"], given_sample)


@pytest.mark.parametrize(
    ("method", "settings", "target"),
    [
        ("co-occurrence", {"smoothing": 0.1}, "microbe"),
        ("neighbours", {"neighbours": 3, "smoothing": 0.1}, "sample"),
        ("mmvec", {"n_components": 3, "depth": 30, "rate": 0.05, "steps": 200}, "microbe"),
        ("mmvec", {"n_components": 3, "depth": 30, "rate": 0.05, "steps": 200}, "sample"),
        ("PMvGE", {"learning_rate": 0.02, **FAST}, "microbe"),
        ("PMvGE", {"learning_rate": 0.02, "features": True, **FAST}, "microbe"),
        ("PMvGE", {"learning_rate": 0.01, "effects": "none", **FAST}, "sample"),
    ],
)
def test_methods_predict_planted_metabolites(method, settings, target):
    data = problem()
    made = make_predictor(method, settings)
    log_p = made.given_microbe(data, 0) if target == "microbe" else made.given_sample(data, 0)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-5)
    found = evaluate(made, data, target, 0)["value"].mean()
    assert found > evaluate(make_predictor("mean", {}), data, target, 0)["value"].mean() + 0.1


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("neighbours", {"neighbours": 3, "smoothing": 0.1}),
        ("CCA", {"n_components": 2, "shrinkage": 0.5}),
        ("PMvGE", {"learning_rate": 0.01, "effects": "none", "similarity": "cosine", **FAST}),
    ],
)
def test_profiles_of_a_kind_match(method, settings):
    """A sample's own metabolites are among those of its kind, a third of the new samples."""
    found = evaluate(make_predictor(method, settings), problem(), "match", 0)
    chance = np.mean(1 / np.arange(1, 16))
    assert found["value"].mean() > 1.4 * chance
    assert set(found["recall"]) <= {0.0, 1.0}


def test_ranks_of_ties_are_means():
    class Constant(Multinomial):
        def match(self, problem, seed):
            return np.zeros((4, 4))

    found = evaluate(Constant(), problem(4), "match", 0)
    assert found["value"].tolist() == [1 / 2.5] * 4
    assert found["recall"].tolist() == [0.0] * 4


def test_the_multinomial_is_fitted_to_its_posterior():
    rng = np.random.default_rng(0)
    W, U, V, b = (rng.random(shape) for shape in ((3, 4), (3, 2), (4, 2), (4,)))
    total = 0.0
    for i in range(3):
        logits = [U[i] @ V[j] + b[j] for j in range(4)]
        for j in range(4):
            total += W[i, j] * (logits[j] - np.log(np.sum(np.exp(logits))))
    prior = (np.sum(U**2) + np.sum(V**2) + np.sum(b**2)) / 2
    found = Multinomial.loss(*(torch.from_numpy(each) for each in (W, U, V, b)))
    assert found.item() == pytest.approx((prior - total) / W.sum())


def test_features_of_ids():
    X = sequence_features(np.array(["AAAAC", "TTTTNTT"]))
    assert X.shape == (2, 256)
    assert X[0, 0] == X[0, 1] == 0.5  # AAAA and AAAC
    assert X[1].tolist() == [0.0] * 255 + [1.0]
    assert mass_features(np.array(["X290.5mz60.25", "unknown"])).tolist() == [
        [290.5, 60.25],
        [0, 0],
    ]
    logs = centred_log(np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]))
    np.testing.assert_allclose(logs.sum(axis=1), 0, atol=1e-12)
    assert logs[0, 0] - logs[0, 2] == pytest.approx(np.log(0.5 / 0.1))


def test_new_samples_are_not_in_training():
    made = experiment()
    data, samples = made.split(0)
    assert len(samples) == 12
    assert len(data.microbes) == 48
    known = {tuple(row) for row in data.metabolites}
    assert not known & {tuple(row) for row in data.new_metabolites}
    np.testing.assert_allclose(data.new_metabolites.sum(axis=1), 1)
    assert made.split(1)[1] != samples
    made.settings["least"] = 49
    assert made.split(0)[0].microbes.shape[1] == 0  # no microbe is in 49 of 48 samples


def test_tables_and_goals():
    made = experiment()
    rows = ["mean: microbe", "co-occurrence: microbe", "mean: sample", "co-occurrence: sample"]
    rows += ["neighbours: sample", "neighbours: match", "CCA: match"]
    assert [entry.label for entry in made.recipe.methods] == rows
    results = {job: made.run(job) for job in made.jobs()}
    assert len(results[Job("co-occurrence: sample", "1")]["trials"]) == 2
    table, differences = made.summarize(results).tables
    values = [results[Job("mean: sample", k)]["scores"]["value"] for k in "01"]
    assert table.rows[0][2].startswith(f"{np.mean(values):.3f} ± ")
    assert table.rows[-1][0] == "random order"
    assert [row[0] for row in differences.rows] == ["mean", "neighbours"]
    goals = {goal.what: goal for goal in made.summarize(results).goals}
    above = goals["co-occurrence: given a sample, nats, above mean"]
    assert above.met
    own = [results[Job("co-occurrence: sample", k)]["scores"]["value"] for k in "01"]
    assert above.found.startswith(f"{np.mean(own) - np.mean(values):+.3f}")
    assert len(goals) == 1  # neighbours is a variant
    assert list(made.chosen_settings(results)) == rows[1:4:2]


def test_unknown_names():
    with pytest.raises(ParameterError, match="unknown method 'mmvek'"):
        make_predictor("mmvek", {})
    with pytest.raises(ParameterError, match="unknown target 'samples'"):
        make_predictor("PMvGE", {"targets": ["samples"]})
