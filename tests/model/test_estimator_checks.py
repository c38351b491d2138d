"""scikit-learn's checks of estimators, on graphs and on rows; the guide on it lists them.

Most checks pass arrays to ``fit``, which takes a graph. They run on a subclass that makes a graph
of an array: its rows are linked to one of two sides by their first column.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import TransformerMixin
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

from pmvge import MultiViewGraph, PMvGE

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "scikit-learn.md"
SETTINGS = {"max_steps": 2, "patience": None, "progress": False, "random_state": 0}


class RowModel(TransformerMixin, PMvGE):
    """PMvGE on the rows of an array."""

    def _graph(self, X: np.ndarray) -> MultiViewGraph:
        side = (X[:, 0] > np.median(X[:, 0])).astype(int)
        return MultiViewGraph({"row": X, "side": 2}, {("row", "side"): (np.arange(len(X)), side)})

    def fit(self, X, y=None):
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        return super().fit(self._graph(X))

    def score(self, X, y=None):
        self._check_fitted()
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return super().score(self._graph(X))

    def transform(self, X):
        self._check_fitted()
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.embed("row", X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # vectors are float32
        return tags


def results_of(estimator) -> dict[str, str]:
    """Return the result of each check; a check that runs twice has the worse one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of skipped checks, and of pmvge on tiny graphs
        results = check_estimator(estimator, on_fail=None)
    found: dict[str, str] = {}
    for result in results:
        name = result["check_name"]
        found[name] = "failed" if found.get(name) == "failed" else result["status"]
    return found


def listed(heading: str) -> set[str]:
    """Return the names of checks below a heading of the page."""
    section = PAGE.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    return {*re.findall(r"`(check_\w+)`", section)}


@pytest.fixture(scope="module")
def on_graphs() -> dict[str, str]:
    return results_of(PMvGE(4, **SETTINGS))


def test_checks_that_need_no_array_pass(on_graphs) -> None:
    passed = {name for name, status in on_graphs.items() if status == "passed"}
    assert passed == listed("Checks of the estimator itself")


@pytest.mark.slow
def test_the_other_checks_pass_on_rows_of_an_array(on_graphs) -> None:
    results = results_of(RowModel(4, **SETTINGS))
    assert not [name for name, status in results.items() if status == "failed"]
    passed = {name for name, status in results.items() if status == "passed"}
    alone = {name for name, status in on_graphs.items() if status == "passed"}
    assert passed - alone == listed("Checks on the rows of an array")
