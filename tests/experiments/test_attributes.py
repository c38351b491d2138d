"""Task 3: which data a fit uses, how attributes are ranked, and what the table shows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import average_precision_score

from pmvge.datasets import load_attributes
from pmvge.errors import InputError, PmvgeError
from pmvge.experiments import Job, Recipe, load_recipe
from pmvge.experiments.paper import attributes
from pmvge.experiments.paper.animals import load_animals, simulate_images
from pmvge.experiments.paper.attribute_tables import Case
from pmvge.experiments.paper.attributes import AttributeRanking, average_precisions
from pmvge.experiments.recipe import Entry

C, Q, EACH = 5, 7, 12  # classes, attributes, images per class
SMALL = {
    "settings": ["A", "B"],
    "noise": [0.1, 0.5],
    "vectors": "word2vec",
    "per_class": EACH,
    "train": 36,
    "test": 24,
    "validation": 8,
    "image_components": 12,  # 4,096 columns take long
}
ROWS = (
    Entry("SGE", "SGE", {"n_components": 3}, paper={"average_precision": [43.5, 0.39]}),
    Entry("CDMCA", "CDMCA", {"n_components": 4}, {"shrinkage": [0.1, 0.5]}),
    Entry("popular", "popularity"),
    Entry("ceiling", "ceiling"),
)


@pytest.fixture
def data(tmp_path):
    """A folder with a small class level and word vectors."""
    rng = np.random.default_rng(5)
    strength = np.round(rng.uniform(0, 100, (C, Q)), 2)
    strength[1, 2] = -1
    names = [f"word{j}" for j in range(Q)]
    folder = tmp_path / "awa"
    folder.mkdir()
    (folder / "classes.txt").write_text("".join(f"{c + 1}\tclass{c}\n" for c in range(C)))
    (folder / "predicates.txt").write_text("".join(f"{j + 1}\t{n}\n" for j, n in enumerate(names)))
    np.savetxt(folder / "predicate-matrix-continuous.txt", strength, fmt="%.2f")
    np.savetxt(folder / "predicate-matrix-binary.txt", strength > 50, fmt="%d")
    lines = [f"{n} {' '.join(map(str, rng.normal(size=9).round(3)))}\n" for n in names]
    (folder / "attribute_word2vec_300d.txt").write_text("".join(lines))
    return tmp_path


def small(data, *, methods=ROWS, simulated=True, paper=None, **options):
    recipe = Recipe(
        "small", "Small", "attributes", "", repetitions=2, seed=3, trials=3, simulated=simulated,
        options={**SMALL, **options}, methods=methods,
    )  # fmt: skip
    return AttributeRanking(recipe, data)


# -- numbers --------------------------------------------------------------------------------


def test_average_precision_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random((300, 11)) < 0.4
    truth[:, 0] = True
    scores = rng.integers(0, 6, (300, 11))  # with ties
    expected = [average_precision_score(t, s) for t, s in zip(truth, scores, strict=True)]
    np.testing.assert_allclose(average_precisions(truth, scores), expected)


def test_simulated_images_follow_their_formula(data) -> None:
    level = load_attributes(data)
    X, labels, chances = simulate_images(level, 0.3, EACH)
    rng = np.random.default_rng(2018)
    A = rng.standard_normal((512, Q)) * np.sqrt(4 / 85)
    B = rng.standard_normal((4096, 512)) / np.sqrt(512)
    b = rng.standard_normal(4096) * 0.1
    e = rng.standard_normal((C * EACH, Q))
    a = level.strength / 100
    assert np.isnan(a[1, 2])
    a[1, 2] = 0
    assert labels.tolist() == [c for c in range(C) for _ in range(EACH)]
    for i in (0, 17, 59):
        z = a[labels[i]] + 0.3 * e[i]
        expected = [max(0.0, v) for v in B @ np.tanh(A @ z) + b]
        np.testing.assert_allclose(X[i], expected, rtol=1e-4, atol=1e-5)
        p = np.array([multivariate_normal(a[c], 0.09 * np.eye(Q)).pdf(z) for c in range(C)])
        np.testing.assert_allclose(chances[i], p / p.sum(), rtol=1e-6)


def test_popularity_counts_the_images_of_the_fit(data) -> None:
    experiment = small(data)
    case = Case("B", 0.1)
    animals = experiment.animals(0.1)
    split = experiment.split(animals, case, 0, "test")
    counts = sum(animals.has[animals.labels[i]].astype(int) for i in split.fit)
    truth = animals.has[animals.labels[split.query]]
    expected = np.mean([average_precision_score(t, counts) for t in truth])
    entry = experiment.recipe.entry("popular (B)")
    found = experiment.score(entry, entry.settings, 0, "test")
    assert found.metrics["average_precision"] == pytest.approx(expected)


# -- which data a fit uses ------------------------------------------------------------------


def test_parts_of_a_split(data) -> None:
    experiment = small(data)
    animals = experiment.animals(0.1)
    parts = {
        (setting, part): experiment.split(animals, Case(setting, 0.1), 1, part)
        for setting in "AB"
        for part in ("test", "validation")
    }
    train = set(parts["B", "test"].fit)
    test = set(parts["B", "test"].query)
    assert len(train) == 36
    assert len(test) == 24
    assert not train & test
    # (A): the fit uses all images; settings are chosen on the training images.
    assert set(parts["A", "test"].fit) == set(parts["A", "validation"].fit) == train | test
    assert set(parts["A", "test"].query) == test
    assert set(parts["A", "validation"].query) == train
    # (B): some training images are held out while settings are chosen.
    held = parts["B", "validation"]
    assert set(held.fit) | set(held.query) == train
    assert len(held.query) == 8
    assert not set(held.fit) & set(held.query)
    assert set(experiment.split(animals, Case("B", 0.1), 0, "test").query) != test


def test_poisoned_test_images_change_only_the_test_score_in_b(data, monkeypatch) -> None:
    """In (B) neither the settings nor the model depend on the test images."""

    def results_of(experiment):
        label = "CDMCA (B) s = 0.5"
        entry = experiment.recipe.entry(label)
        chosen = experiment.choose(entry, 0)
        animals = experiment.animals(0.5)
        split = experiment.split(animals, Case("B", 0.5), 0, "test")
        settings = {k: v for k, v in chosen[0].items() if k != "case"}
        model, _ = experiment.fitted("CDMCA", settings, animals, Case("B", 0.5), split.fit, 0)
        return (
            chosen,
            model.embeddings_,
            experiment.score(entry, chosen[0], 0, "test").metrics,
            split,
        )

    clean = results_of(small(data))
    animals = load_animals(
        data, images="awa1", vectors="word2vec", per_class=EACH, noise=0.5, seed=3
    )
    labels, images = animals.labels.copy(), animals.images.copy()
    test = clean[3].query
    labels[test] = (labels[test] + 1) % C
    images[test] = 1e3 * np.random.default_rng(0).normal(size=images[test].shape)
    poisoned = replace(animals, labels=labels, images=images)
    monkeypatch.setattr(attributes, "load_animals", lambda *args, **kwargs: poisoned)
    other = results_of(small(data))
    assert other[0] == clean[0]
    for view, Y in clean[1].items():
        np.testing.assert_array_equal(other[1][view], Y)
    assert other[2] != clean[2]


def test_only_setting_a_fits_links_of_test_images(data, monkeypatch) -> None:
    seen = {}

    class Spy:
        n_views, inductive = 2, True

        def get_params(self, deep):
            return {}

        def fit(self, graph):
            self.ids = graph.ids["image"]
            seen["ids"] = set(self.ids.tolist())
            seen["weight"] = graph.total_weight
            self.embeddings_ = {"attribute": np.eye(Q), "image": np.ones((len(self.ids), Q))}
            return self

        def embed(self, view, X):
            return np.ones((len(X), Q))

    monkeypatch.setitem(attributes.METHODS, "Spy", Spy)
    experiment = small(data, methods=(Entry("spy", "Spy"),))
    animals = experiment.animals(0.1)
    for setting, n in (("A", 60), ("B", 36)):
        case = Case(setting, 0.1)
        split = experiment.split(animals, case, 0, "test")
        entry = experiment.recipe.entry(f"spy ({setting}) s = 0.1")
        experiment.score(entry, entry.settings, 0, "test")
        assert len(seen["ids"]) == n
        assert (seen["ids"] >= set(split.query)) == (setting == "A")
        assert seen["weight"] == animals.has[animals.labels[split.fit]].sum()


# -- rows, tables, goals --------------------------------------------------------------------


def test_rows_of_methods_and_cases(data) -> None:
    rows = {job.row for job in small(data).jobs()}
    assert rows == {
        "SGE (A)",  # not inductive, and does not use features
        "popular (A)", "popular (B)",
        *(f"{m} ({s}) s = {n}" for m in ("CDMCA", "ceiling") for s in "AB" for n in (0.1, 0.5)),
    }  # fmt: skip


def test_a_complete_small_run(data) -> None:
    experiment = small(data, ours="CDMCA")
    experiment.check()
    results = {job: experiment.run(job) for job in experiment.jobs()}
    summary = experiment.summarize(results)
    (table,) = summary.tables
    assert "simulated" in table.caption
    assert "2 splits" in table.caption
    assert table.columns == ["method", "(A) s = 0.1", "(B) s = 0.1", "(A) s = 0.5", "(B) s = 0.5"]
    shown = {row[0]: row[1:] for row in table.rows}
    assert shown["SGE"][1] == shown["SGE"][3] == "–"
    assert shown["SGE"][0] == shown["SGE"][2] != ""
    assert shown["popular"][0] == shown["popular"][2]
    assert shown["ceiling"][0] == "100.0 ± 0.0"
    value = {name: float(cells[1].split()[0]) for name, cells in shown.items() if name != "SGE"}
    assert value["CDMCA"] > value["popular"] + 5
    assert "43.5" not in str(table)
    assert len(summary.plots) == 1
    assert {job.column for job in results} == {"0", "1"}
    tried = results[Job("CDMCA (B) s = 0.1", "0")]["trials"]
    assert len(tried) == 2  # the list has two values


def test_the_papers_numbers_are_shown_for_real_images_only(data) -> None:
    real = small(data, simulated=False, settings=["A"], noise=[])
    job = Job("SGE", "0")
    result = {"scores": {"average_precision": 0.5}, "seconds": 1.0}
    (table,) = real.summarize({job: result}).tables
    assert table.rows[0][:3] == ["SGE", "50.0", "43.5 ± 0.39"]
    one = small(data, settings=["A"], noise=[0.1])
    (table,) = one.summarize({job: result}).tables
    assert "paper" not in table.columns
    assert "simulated" in table.caption
    with pytest.raises(InputError, match="expected simulated = true"):
        small(data, simulated=False)


def test_goals_compare_ours_with_the_best_other_and_a_with_b(data) -> None:
    experiment = small(data, ours="CDMCA", noise=[0.1])
    given = {
        "SGE (A)": 0.9, "popular (A)": 0.7, "popular (B)": 0.7, "CDMCA (A) s = 0.1": 0.9,
        "CDMCA (B) s = 0.1": 0.87, "ceiling (A) s = 0.1": 1.0, "ceiling (B) s = 0.1": 1.0,
    }  # fmt: skip
    results = {
        Job(row, "0"): {"scores": {"average_precision": value}, "seconds": 1.0}
        for row, value in given.items()
    }
    goals = experiment.summarize(results).goals
    assert [goal.met for goal in goals] == [True, True, False]
    assert "SGE, 90.0" in goals[0].wanted
    assert "popular, 70.0" in goals[1].wanted
    assert goals[2].found == "3.0 below"
    results[Job("SGE (A)", "0")] = {"scores": {"average_precision": 0.91}, "seconds": 1.0}
    assert not experiment.summarize(results).goals[0].met
    assert not experiment.summarize({}).goals


# -- data and recipes -----------------------------------------------------------------------


def test_real_images_use_the_same_protocol(data) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(C), EACH + 2)
    X = np.zeros((len(labels), 2048))
    X[np.arange(len(labels)), labels] = 5
    X[:, :40] += rng.normal(size=(len(labels), 40)) * 0.1
    folder = data / "awa2" / "Features" / "ResNet101"
    folder.mkdir(parents=True)
    np.savetxt(folder / "AwA2-features.txt", X, fmt="%.3g")
    np.savetxt(folder / "AwA2-labels.txt", labels + 1, fmt="%d")
    (folder / "AwA2-filenames.txt").write_text("".join(f"{i}.jpg\n" for i in range(len(labels))))
    entry = Entry("CDMCA", "CDMCA", {"n_components": 4})
    options = {"simulated": False, "noise": [], "images": "awa2", "image_components": 30}
    experiment = small(data, methods=(entry, ROWS[2]), settings=["B"], **options)
    found = {
        job.row: experiment.run(job)["scores"]["average_precision"]
        for job in experiment.jobs()
        if job.column == "0"
    }
    assert found["CDMCA"] > found["popular"] + 0.1


def test_the_error_names_missing_data_and_their_source(data) -> None:
    real = {"simulated": False, "noise": [], "settings": ["A"]}
    with pytest.raises(InputError) as caught:
        small(data, **real).check()
    assert all(part in str(caught.value) for part in ("Features/decaf", str(data), "https://"))
    with pytest.raises(InputError) as caught:
        small(data, **real, vectors="glove").check()
    assert all(part in str(caught.value) for part in ("glove.6B.300d", str(data), "https://"))


def test_invalid_options_are_refused(data) -> None:
    with pytest.raises(PmvgeError, match="expected at most 60 images"):
        small(data, train=50).check()
    with pytest.raises(PmvgeError, match="unknown setting 'C'"):
        small(data, settings=["C"])


@pytest.mark.parametrize(("name", "column"), [("awa-a", 0), ("awa-b", 1)])
def test_recipes_have_the_papers_numbers(name, column) -> None:
    paper = {
        "CCA": ([45.5, 0.2], [42.4, 0.3]),
        "DCCA": ([41.4, 0.3], [41.2, 0.35]),
        "SGE": ([43.5, 0.39], None),
        "DeepWalk": ([71.3, 0.57], None),
        "PMvGE paper": ([71.5, 0.48], [70.5, 0.53]),
    }
    recipe = load_recipe(name)
    given = {e.label: e.paper["average_precision"] for e in recipe.methods if e.paper}
    assert given == {label: pair[column] for label, pair in paper.items() if pair[column]}
    assert not recipe.simulated
    assert recipe.options["settings"] == ["AB"[column]]
    jobs = AttributeRanking(recipe).jobs()
    assert len(jobs) == 10 * len(recipe.methods)


def test_the_simulated_recipe_has_every_row() -> None:
    recipe = load_recipe("awa-sim")
    assert recipe.simulated
    assert not any(entry.paper for entry in recipe.methods)
    rows = {job.row for job in AttributeRanking(recipe).jobs()}
    for method in ("CCA", "DCCA", "KernelCCA", "CDMCA", "PMvGE paper", "PMvGE best"):
        assert {f"{method} ({s}) s = {n}" for s in "AB" for n in (0.1, 0.3, 0.6)} <= rows
    assert {"SGE (A)", "DeepWalk (A)", "attribute popularity (A)"} <= rows
