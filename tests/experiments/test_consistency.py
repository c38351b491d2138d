"""Consistency: the expectation is correct, the fit is the maximum, and errors decrease with n."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from pmvge.experiments import Job
from pmvge.experiments import recipe as recipes
from pmvge.experiments.paper.consistency import (
    COLUMNS,
    DESIGNS,
    Consistency,
    Map,
    draw,
    expected_term,
)
from pmvge.experiments.paper.consistency_tables import slope_of
from pmvge.simulation import simulate

TWO, THREE = DESIGNS


def small(**options):
    recipe = replace(recipes.load_recipe("consistency"), repetitions=1)
    return Consistency(replace(recipe, options={"sizes": [100, 500], **options}))


def test_the_expectation_of_a_term():
    """Compare with averages over both ends."""
    rng = np.random.default_rng(0)
    psi, other = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    x, z = rng.uniform(-1, 1, size=(1500, 5)), rng.uniform(-1, 1, size=(1500, 4))
    g = 0.5 * (x @ psi) @ (z @ other).T
    mu = 0.3 * np.exp(g)
    drawn = (mu * np.log(mu) - mu).mean()
    spread = (mu * np.log(mu) - mu).mean(axis=1).std() / math.sqrt(1500)
    assert expected_term(0.5 * psi, other, 0.3) == pytest.approx(drawn, abs=6 * spread)
    # Without a signal the value is known.
    assert expected_term(0 * psi, other, 0.3) == pytest.approx(0.3 * math.log(0.3) - 0.3)


def test_the_error_is_zero_only_at_the_truth_and_its_rotations():
    experiment = small(alpha=0.1)
    psi = experiment.truth()
    right = dict.fromkeys(DESIGNS[THREE], math.log(0.1))
    assert experiment.error(psi, psi, right) == pytest.approx(0, abs=1e-12)
    angle = 0.8
    O = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])  # noqa: E741
    rotated = {view: A @ O for view, A in psi.items()}
    assert experiment.error(psi, rotated, right) == pytest.approx(0, abs=1e-12)
    one_rotated = {**psi, "one": psi["one"] @ O}
    assert experiment.error(psi, one_rotated, right) > 0.1
    doubled = dict.fromkeys(DESIGNS[THREE], math.log(0.2))
    assert experiment.error(psi, psi, doubled) == pytest.approx(math.log(2))


def test_the_slope_of_a_power_law():
    sizes = [100, 300, 1000]
    assert slope_of(sizes, [3 * n**-0.7 for n in sizes]) == pytest.approx(-0.7)
    assert math.isnan(slope_of([100], [1.0]))


def maximum_by_bfgs(graph, psi):
    """Return the largest profile log-likelihood that BFGS finds from the truth, in float64."""
    views, K = graph.view_names, 2
    ends = np.cumsum([COLUMNS[view] * K for view in views])[:-1]

    def minus_likelihood(theta):
        maps = dict(zip(views, np.split(theta, ends), strict=True))
        Y = {view: graph.views[view] @ maps[view].reshape(-1, K) for view in views}
        total = 0.0
        for (a, b), links in graph.links.items():
            W, g = links.matrix().toarray(), Y[a] @ Y[b].T
            if a == b:
                W, g = W[np.triu_indices(len(W), 1)], g[np.triu_indices(len(W), 1)]
            total += (W * g).sum() + W.sum() * (math.log(W.sum() / np.exp(g).sum()) - 1)
        return -total

    start = np.concatenate([psi[view].ravel() for view in views])
    return -minimize(minus_likelihood, start, method="BFGS", options={"gtol": 1e-6}).fun


@pytest.mark.parametrize("design", DESIGNS)
def test_the_fit_is_the_maximum(design):
    experiment, rng = small(), np.random.default_rng(3)
    psi, pairs = experiment.truth(), DESIGNS[design]
    views = sorted({view for pair in pairs for view in pair})
    graph = simulate(
        {view: draw(rng, 60, view) for view in views},
        {view: Map(psi[view]) for view in views},
        dict.fromkeys(pairs, 0.1),
        rng,
    )
    found = experiment.fit(graph, rng).log_likelihood(graph)
    assert found == pytest.approx(maximum_by_bfgs(graph, psi), abs=0.5)  # nats


@pytest.fixture(scope="module")
def results():
    experiment = small()
    return {job: experiment.run(job) for job in experiment.jobs()}


def test_errors_decrease_with_the_number_of_entities(results):
    for design in DESIGNS:
        few, many = (results[Job(design, f"{n} nodes, 0")] for n in (100, 500))
        assert many["links"] > 15 * few["links"]  # as n squared: alpha is fixed
        assert many["error"] < 0.4 * few["error"]
        for result in (few, many):
            assert result["estimate"] > result["truth"]  # it is the maximum
        assert many["truth"] == pytest.approx(many["expected"], rel=0.1)
        assert abs(many["estimate"] - many["expected"]) < 0.01
    assert results[Job(TWO, "500 nodes, 0")]["missing"] is None
    assert results[Job(THREE, "500 nodes, 0")]["missing"] < 0.3
    json.dumps(list(results.values()))


def test_a_job_gives_the_same_numbers_again(results):
    job = Job(TWO, "100 nodes, 0")
    again = small().run(job)
    assert {**again, "seconds": 0} == {**results[job], "seconds": 0}


def test_the_summary_has_slopes_and_goals(results):
    summary = small().summarize(results)
    assert len(summary.tables[0].rows) == 4
    assert [goal.met for goal in summary.goals] == [True] * 4
    names = [trace.name for trace in summary.plots[0].figure.data if trace.showlegend is None]
    for design, name in zip(DESIGNS, names, strict=True):
        error = [results[Job(design, f"{n} nodes, 0")]["error"] for n in (100, 500)]
        slope = math.log(error[1] / error[0]) / math.log(5)
        assert name == f"{design}: slope {slope:.2f}"


def test_increasing_errors_miss_the_goal(results):
    sizes = {100: "100 nodes, 0", 500: "500 nodes, 0"}
    swapped = {
        Job(TWO, sizes[100]): results[Job(TWO, sizes[500])],
        Job(TWO, sizes[500]): results[Job(TWO, sizes[100])],
    }
    assert not any(goal.met for goal in small().summarize(swapped).goals)


def test_a_summary_needs_only_some_jobs(results):
    assert not small().summarize({}).plots
    job = Job(THREE, "100 nodes, 0")
    summary = small().summarize({job: results[job]})
    assert not summary.goals
    assert len(summary.tables[0].rows) == 1
