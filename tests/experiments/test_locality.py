"""Rank correlations of inner products within a view."""

import numpy as np
import pytest
from scipy.stats import rankdata

from pmvge.experiments import Job, Recipe, load_recipe
from pmvge.experiments.paper.animals import Animals
from pmvge.experiments.paper.locality import Locality, rank_correlation
from pmvge.experiments.recipe import Entry

PAPER = {"image": [0.722, 0.058], "attribute": [0.811, 0.082]}


def test_correlation_agrees_with_ranks_by_hand() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 4)), rng.normal(size=(9, 3))
    before = [X[i] @ X[j] for i in range(9) for j in range(i)]
    after = [Y[i] @ Y[j] for i in range(9) for j in range(i)]
    expected = np.corrcoef(rankdata(before), rankdata(after))[0, 1]
    assert rank_correlation(X, Y) == pytest.approx(expected)


def test_a_rotation_preserves_ranks_and_noise_does_not() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 6))
    Q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    assert rank_correlation(X, 3 * X @ Q) == pytest.approx(1)
    assert abs(rank_correlation(X, rng.normal(size=(80, 6)))) < 0.1


def small(*, simulated=True, noise=(0.1,)):
    options = {
        "settings": ["B"], "noise": list(noise), "train": 30, "test": 20, "validation": 5,
    }  # fmt: skip
    entry = Entry("linear", "CDMCA", {"n_components": 4}, paper=PAPER)
    recipe = Recipe(
        "small", "Small", "locality", "", seed=1, simulated=simulated, options=options,
        methods=(entry,),
    )  # fmt: skip
    return Locality(recipe)


def test_scores_use_test_images_and_all_attributes(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(50) % 5
    images = rng.normal(size=(5, 8))[labels] + 0.1 * rng.normal(size=(50, 8))
    vectors = rng.normal(size=(6, 7)).astype(np.float32)
    has = rng.random((5, 6)) < 0.5
    has[:, 0] = True
    animals = Animals(images.astype(np.float32), labels, has, vectors)
    experiment = small()
    monkeypatch.setattr(experiment, "animals", lambda noise: animals)
    job = Job("linear", "0")
    scores = experiment.run(job)["scores"]
    entry, case = experiment.rows["linear"]
    split = experiment.split(animals, case, 0, "test")
    model, _ = experiment.fitted("CDMCA", dict(entry.settings), animals, case, split.fit, 0)
    Y = model.embed("image", animals.images[split.query])
    assert len(Y) == 20
    assert scores["image"] == pytest.approx(rank_correlation(images[split.query], Y), abs=1e-4)
    V = model.embed("attribute", vectors)
    assert scores["attribute"] == pytest.approx(rank_correlation(vectors, V), abs=1e-3)
    # Classes are well separated before and after.
    assert scores["image"] > 0.3


def test_the_papers_numbers_are_shown_for_real_images_only() -> None:
    results = {
        Job("linear", str(k)): {"scores": {"image": value, "attribute": 0.5}}
        for k, value in enumerate((0.6, 0.8))
    }
    (table,) = small().summarize(results).tables
    assert "simulated" in table.caption
    assert table.rows == [["linear", "0.700 ± 0.141", "0.500 ± 0.000"]]
    (table,) = small(simulated=False, noise=()).summarize(results).tables
    assert "simulated" not in table.caption
    assert table.rows[0][2] == "0.722 ± 0.058"
    assert table.rows[0][4] == "0.811 ± 0.082"
    assert small().summarize({}).tables[0].rows == [["linear", "", ""]]


def test_the_recipe_has_the_papers_numbers() -> None:
    recipe = load_recipe("locality")
    assert recipe.simulated
    assert recipe.entry("PMvGE paper").paper == PAPER
    assert len({job.row for job in Locality(recipe).jobs()}) == 6
