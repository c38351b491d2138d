"""Forests in another environment: arrays, settings and errors, with a fake interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pmvge.errors import InputError
from pmvge.experiments.bipartite import forest
from pmvge.experiments.bipartite.experiment import BipartiteLinks
from pmvge.experiments.bipartite.forest import INTERPRETER, WORKER, check_interpreter
from pmvge.experiments.bipartite.methods import Problem, make_predictor
from pmvge.experiments.recipe import parse

RECIPE = """
title = "small"
experiment = "bipartite"
summary = "s."
[options]
sets = []
[[methods]]
label = "degrees"
method = "degrees"
[[methods]]
label = "trees"
method = "forest"
"""
# An interpreter with a library of this name. Scores are the sums of both sides' features, and 100
# times the number of training links; settings are written next to it.
FAKE = """#!{python}
import json, pathlib, runpy, sys, types
import numpy as np

class BipartiteExtraTreesRegressor:
    def __init__(self, **settings):
        pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(settings))
    def fit(self, X, Y):
        assert (len(X[0]), len(X[1])) == Y.shape
        self.total = Y.sum()
    def predict(self, X):
        return (np.add.outer(X[0].sum(1), X[1].sum(1)) + 100 * self.total).ravel()

library = types.ModuleType("bipartite_learn")
library.ensemble = types.ModuleType("bipartite_learn.ensemble")
library.ensemble.BipartiteExtraTreesRegressor = BipartiteExtraTreesRegressor
sys.modules.update({{"bipartite_learn": library, "bipartite_learn.ensemble": library.ensemble}})
assert sys.argv[1] == "-I"
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def interpreter(folder: Path, text: str) -> Path:
    """Write an executable file."""
    path = folder / "python"
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def fake(tmp_path, monkeypatch):
    path = interpreter(tmp_path, FAKE.format(python=sys.executable))
    monkeypatch.setenv(INTERPRETER, str(path))
    return path


def problem(unseen: bool) -> Problem:
    rng = np.random.default_rng(0)
    rows, columns, new_rows, new_columns = (
        rng.random(shape) for shape in ((4, 4), (6, 6), (2, 4), (3, 6))
    )
    links = (rng.random((4, 6)) < 0.5) * 1.0
    return Problem(rows, columns, links, *([new_rows, new_columns] if unseen else []))


@pytest.mark.parametrize("unseen", [True, False])
def test_the_worker_gets_arrays_and_settings_and_returns_scores(fake, unseen):
    check_interpreter()
    data = problem(unseen)
    settings = {"n_estimators": 7, "min_samples_leaf": 5, "max_features": 0.3}
    found = make_predictor("forest", settings).scores(data, 11)
    sums = data.scored_rows.sum(1)[:, None] + data.scored_columns.sum(1)
    np.testing.assert_allclose(found, sums + 100 * data.links.sum())
    assert found.shape == ((2, 3) if unseen else (4, 6))
    assert fake.with_suffix(".json").read_text() == (
        '{"n_estimators": 7, "min_samples_leaf": 5, "max_row_features": 0.3, '
        '"max_col_features": 0.3, "random_state": 11}'
    )


def test_a_failure_of_the_worker_is_reported(tmp_path, monkeypatch):
    path = interpreter(tmp_path, "#!/bin/sh\necho Traceback >&2\necho ValueError: leaf >&2\nexit 1")
    monkeypatch.setenv(INTERPRETER, str(path))
    with pytest.raises(InputError, match=r"forest: '.*python' failed: ValueError: leaf$"):
        make_predictor("forest", {}).scores(problem(unseen=True), 0)
    path.write_text("#!/bin/sh\nexit 3")
    with pytest.raises(InputError, match=r"failed: exit status 3$"):
        make_predictor("forest", {}).scores(problem(unseen=True), 0)


def test_a_variable_that_is_not_set_is_named_with_the_commands(monkeypatch):
    monkeypatch.delenv(INTERPRETER, raising=False)
    made = BipartiteLinks(parse("small", RECIPE), None, None)
    message = (
        r"forest needs 'bipartite_learn', but PMVGE_FORESTS_PYTHON is not set: .*"
        r"'python -m venv forests'.*'forests/bin/pip install bipartite-learn==.*"
        r"\(forests/bin/python\)"
    )
    with pytest.raises(InputError, match=message + ", or leave the method out with --methods$"):
        made.check()
    with pytest.raises(InputError, match=f"{message}$"):
        make_predictor("forest", {}).scores(problem(unseen=True), 0)
    assert list(made.unavailable()) == ["trees"]
    assert made.unavailable()["trees"].startswith("forest needs 'bipartite_learn'")


def test_an_interpreter_without_the_library_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv(INTERPRETER, str(tmp_path / "none"))
    made = BipartiteLinks(parse("small", RECIPE), None, None)
    assert made.unavailable() == {}  # it is given, but not usable: not left out silently
    with pytest.raises(InputError, match=r"PMVGE_FORESTS_PYTHON: .*/none' \(.*No such file"):
        made.check()
    path = interpreter(
        tmp_path, "#!/bin/sh\necho \"No module named 'bipartite_learn'\" >&2\nexit 1"
    )
    monkeypatch.setenv(INTERPRETER, str(path))
    with pytest.raises(
        InputError, match=r"\(No module named 'bipartite_learn'\): make an.*--methods$"
    ):
        made.check()


def test_methods_that_need_nothing_are_always_available(fake):
    made = BipartiteLinks(parse("small", RECIPE), None, None)
    made.check()
    assert made.unavailable() == {}


def test_the_worker_imports_nothing_from_the_package():
    code = f"import runpy, sys; runpy.run_path({str(WORKER)!r}); assert 'pmvge' not in sys.modules"
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    assert WORKER.parent == Path(forest.__file__).parent


@pytest.mark.skipif(not os.environ.get(INTERPRETER), reason=f"{INTERPRETER} is not set")
def test_a_forest_finds_groups():
    rng = np.random.default_rng(0)
    group, other = rng.integers(2, size=20), rng.integers(2, size=24)
    rows, columns = (1.0 * (g[:, None] == g) for g in (group, other))
    links = 1.0 * (group[:, None] == other)
    data = Problem(rows[:15, :15], columns[:18, :18], links[:15, :18], rows[15:, :15])
    forest = make_predictor("forest", {"n_estimators": 5, "min_samples_leaf": 2})
    found = forest.scores(data, 0)
    np.testing.assert_allclose(found, links[15:, :18], atol=0.1)
    np.testing.assert_array_equal(found, forest.scores(data, 0))
