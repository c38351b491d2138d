"""Figure 2: the truth is the paper's, alpha fixes the constant, and K = 2 is not enough."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pmvge.errors import ParameterError
from pmvge.experiments import Job
from pmvge.experiments import recipe as recipes
from pmvge.experiments.paper.figure2 import Figure2, similarity

SMALL = {
    "n_nodes": 250,
    "hidden": 200,
    "dimensions": [2, 50],
    "max_steps": 200,
    "batch_size": 1024,
    "grid": 9,
    "fresh": 50,
}


def small(**options):
    return Figure2(
        replace(recipes.load_recipe("figure2"), repetitions=2, options={**SMALL, **options})
    )


def cosine_by_hand(x, z):
    def f(v):
        return [v[0], math.cos(v[1]), math.exp(-v[2]), math.sin(v[3] - v[4])]

    a, b = f(x), f(z)
    inner = sum(p * q for p, q in zip(a, b, strict=True))
    return inner / math.sqrt(sum(p * p for p in a)) / math.sqrt(sum(q * q for q in b))


def test_the_true_similarity_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(4, 5)), rng.normal(size=(3, 5))
    by_hand = [[cosine_by_hand(x, z) for z in Z] for x in X]
    np.testing.assert_allclose(similarity(X, Z), by_hand, rtol=1e-12)


def test_the_plane_is_within_the_range_of_the_data_vectors():
    experiment = small(half_width=1.5)
    left, right = experiment.plane()
    s = experiment.ticks()
    assert s.min() == -1.5
    assert s.max() == 1.5
    np.testing.assert_array_equal(left[2], [s[2], s[2], s[2], 0, 0])
    np.testing.assert_array_equal(right[2], [0, 0, s[2], s[2], s[2]])


class ShiftedModel:
    """A model whose g is shifted by a constant; its alpha may compensate for it."""

    def __init__(self, log_alpha, constant):
        self.log_alpha, self.constant = log_alpha, constant

    def intensity(self, view, X, other, Z):
        left, right = (similarity(part, np.array(ShiftedModel.frame)) for part in (X, Z))
        return np.exp(left @ right.T + self.constant + self.log_alpha)

    # f* of each row lies on one axis, so the cosines with them are the unit vector of f*(x).
    frame = (
        [50.0, math.pi / 2, 50, 0, 0],
        [0, 0, 800, 0, 0],
        [0, math.pi / 2, 0, 0, 0],
        [0, math.pi / 2, 800, math.pi / 2, 0],
    )


def test_the_constant_in_alpha_is_added_to_the_similarity():
    experiment = small(alpha=0.5)
    X = np.random.default_rng(0).uniform(-1, 1, size=(6, 5))
    right = ShiftedModel(math.log(0.5) - 0.7, 0.7)
    np.testing.assert_allclose(experiment.learned(right, X, X), similarity(X, X), atol=1e-9)
    wrong = ShiftedModel(math.log(0.5), 0.7)  # no difference of means is removed
    np.testing.assert_allclose(experiment.learned(wrong, X, X), similarity(X, X) + 0.7, atol=1e-9)


@pytest.fixture(scope="module")
def results():
    experiment = small()
    return {job: experiment.run(job) for job in experiment.jobs() if job.column == "0"}


def test_fifty_outputs_are_better_than_two(results):
    experiment = small()
    poor, good = (results[Job(f"K = {K}", "0")] for K in (2, 50))
    assert good["plane"]["mean"] < min(0.09, 0.9 * poor["plane"]["mean"])
    assert good["box"]["mean"] < 0.75 * poor["box"]["mean"]
    for result in (poor, good):
        gap = np.abs(np.array(result["map"]) - similarity(*experiment.plane()))
        assert gap.shape == (9, 9)
        assert result["plane"]["mean"] == pytest.approx(gap.mean(), abs=1e-4)
        assert result["plane"]["sup"] == pytest.approx(gap.max(), abs=1e-4)
    json.dumps(list(results.values()))


def test_a_job_gives_the_same_numbers_again():
    experiment, job = small(max_steps=3), Job("K = 2", "1")
    one, other = experiment.run(job), experiment.run(job)
    assert one["map"] == other["map"]
    assert experiment.run(Job("K = 2", "0"))["map"] != one["map"]


def test_weights_can_be_expectations_instead_of_draws():
    job = Job("K = 2", "0")
    drawn, expected = small(max_steps=3), small(max_steps=3, weights="expected")
    assert drawn.run(job)["map"] != expected.run(job)["map"]
    with pytest.raises(ParameterError, match="unknown weights 'poison': expected one of"):
        small(weights="poison").run(job)


def made_up(error):
    return {
        "plane": {"mean": error, "sup": 2 * error},
        "box": {"mean": error, "sup": 3 * error},
        "map": np.zeros((9, 9)).tolist(),
        "seconds": 1.0,
    }


@pytest.mark.parametrize(
    ("poor", "good", "met"),
    [(0.2, 0.04, [True, True]), (0.2, 0.06, [False, True]), (0.06, 0.04, [True, False])],
)
def test_goals_depend_on_the_errors(poor, good, met):
    summary = small().summarize(
        {Job("K = 2", "0"): made_up(poor), Job("K = 50", "0"): made_up(good)}
    )
    assert [goal.met for goal in summary.goals] == met
    assert [row[0] for row in summary.tables[0].rows] == ["2", "50"]


def test_a_summary_needs_only_some_jobs():
    assert not small().summarize({}).plots
    summary = small().summarize({Job("K = 50", "1"): made_up(0.04)})
    assert not summary.goals
    maps = summary.plots[0].figure
    assert [note.text for note in maps.layout.annotations] == ["Ĝ, K = 50", "truth G*"]
