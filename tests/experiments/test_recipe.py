"""Recipes: those of the package are valid, and errors in a recipe are located."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from pmvge.errors import InputError, ParameterError
from pmvge.experiments import METHODS, ORDER, SIMULATED, make
from pmvge.experiments import recipe as recipes
from pmvge.experiments.runs import EXPERIMENTS

MINIMAL = 'title = "t"\nexperiment = "citation"\nsummary = "s"\n'
ROW = '[[methods]]\nlabel = "a"\nmethod = "SGE"\n'


@pytest.mark.parametrize("name", recipes.recipe_names())
def test_every_recipe_is_valid(name):
    recipe = recipes.load_recipe(name)
    assert recipe.experiment in EXPERIMENTS
    experiment = make(recipe, None, None)
    jobs = experiment.jobs()
    assert len({job.key for job in jobs}) == len(jobs) > 0
    assert recipe.summary.endswith(".")
    assert all(note.endswith(".") for note in recipe.notes)
    assert experiment.summarize({}) is not None  # without any results
    for entry in recipe.methods:
        if entry.method not in METHODS:
            continue
        known = inspect.signature(METHODS[entry.method]).parameters
        own = {"unit", "link_steps", "image_components"}  # of the experiments
        own |= {"features", "further", "linked_features", "training", "targets", "depth", "links"}
        assert {*entry.settings, *entry.search} <= {*known, *own}, entry.label
    goals = recipe.options.get("goals", {})
    assert set(goals) <= {entry.label for entry in recipe.methods}
    assert recipe.name in ORDER


def test_tuned_settings_match_the_recipe():
    for name in recipes.recipe_names():
        recipe = recipes.load_recipe(name)
        assert not any("," in entry.label for entry in recipe.methods)  # --methods splits at commas
        recipe = make(recipe, None, None).recipe  # with one row per case
        # Rows without stored settings are searched when they are run.
        assert set(recipe.tuned) <= {e.label for e in recipe.methods if e.search}
        for label, found in recipe.tuned.items():
            search = recipe.entry(label).search
            shared = recipe.experiment in (
                "recommender",
                "bipartite",
                "cross-view",
                "microbes",
            )  # all repetitions share their settings
            assert len(found) == (1 if shared else recipe.repetitions)
            for settings in found:
                assert set(settings) == set(search)
                assert all(settings[key] in search[key] for key in search)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "recipe 'x': not valid TOML"),
        ('title = "t"\nexperiment = "citation"\n', "recipe 'x': expected the key 'summary'"),
        (MINIMAL + "colour = 1\n", "recipe 'x': unknown key 'colour'"),
        (MINIMAL + 'repetitions = "ten"\n', "recipe 'x': repetitions: expected int, got 'ten'"),
        (MINIMAL + "repetitions = true\n", "recipe 'x': repetitions: expected int, got True"),
        (MINIMAL + "repetitions = 0\n", "recipe 'x': repetitions: expected at least 1, got 0"),
        (MINIMAL + '[[methods]]\nlabel = "a"\n', r"methods\[0\]: expected the key 'method'"),
        (MINIMAL + "methods = [3]\n", r"methods\[0\]: expected a table, got 3"),
        (MINIMAL + ROW + ROW, "recipe 'x': methods: expected different labels, got 'a' twice"),
        (MINIMAL + ROW + "paper = { nmi = 3 }\n", r"paper.nmi: expected \[mean, s.d.\], got 3"),
        (
            MINIMAL + "trials = 1\n" + ROW + "search = { K = 3 }\n",
            "search.K: expected a list, got 3",
        ),
        (MINIMAL + ROW + "search = { K = [3] }\n", "search: expected trials >= 1 in the recipe"),
    ],
)
def test_errors_in_a_recipe_are_located(text, message):
    with pytest.raises((InputError, ParameterError), match=message):
        recipes.parse("x", text)


def test_an_unknown_experiment_lists_the_known_ones():
    with pytest.raises(
        ParameterError, match=r"unknown experiment 'cora': expected one of.*'cora-a'"
    ):
        recipes.load_recipe("cora")
    recipe = recipes.parse("x", MINIMAL.replace("citation", "citatoin"))
    with pytest.raises(ParameterError, match="did you mean 'citation'"):
        make(recipe, None, None)
    recipe = recipes.parse("x", MINIMAL + "[options]\nsettting = 'A'\n")
    with pytest.raises(ParameterError, match=r"unknown option 'settting'.*did you mean 'setting'"):
        make(recipe, None, None)


def test_none_is_written_as_a_string():
    text = MINIMAL + ROW + 'settings = { patience = "none", K = 3 }\n'
    assert recipes.parse("x", text).methods[0].settings == {"patience": None, "K": 3}


def test_fingerprints_of_different_recipes_differ():
    one, other = (recipes.parse("x", MINIMAL + f"seed = {seed}\n") for seed in (0, 1))
    assert (
        one.fingerprint() == recipes.parse("y", MINIMAL).fingerprint()
    )  # the name is not part of it
    assert one.fingerprint() != other.fingerprint()
    assert one.fingerprint("a") != one.fingerprint("b")


@pytest.mark.parametrize("name", recipes.recipe_names())
def test_the_results_page_has_the_text_of_each_recipe(name):
    """docs/results.md is written from a run: recipes must not change without a new page."""
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    if name in ("awa-a", "awa-b"):  # their data are not available
        assert f"`{name}`" in page
        return
    recipe = recipes.load_recipe(name)
    _, _, section = page.partition(f"\n## {name}: {recipe.title}\n")
    section = section.partition("\n## ")[0]
    assert recipe.summary in section
    assert all(f"- {note}" in section for note in recipe.notes)
    assert all(f"| {entry.label}" in section for entry in recipe.methods)
    assert recipe.simulated == (SIMULATED in section)
