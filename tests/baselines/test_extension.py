"""A method defined outside the package: registered, fitted, searched, saved, loaded, reported."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pmvge import Embeddings, MultiViewGraph
from pmvge.baselines import Baseline
from pmvge.cli.app import app
from pmvge.datasets import Cora
from pmvge.errors import ParameterError
from pmvge.evaluation import evaluate_held_out
from pmvge.experiments import (
    METHODS,
    card,
    read_experiment_report,
    register_method,
    run,
    write_experiment_reports,
)
from pmvge.experiments.paper.citation import VIEW, Citation
from pmvge.experiments.recipe import parse
from pmvge.graph import hold_out_links


class Toy(Baseline):
    r"""Toy method.

    Projects the mean features of an entity and its partners.

    .. math:: Y = (X + D^{-1} W X) P

    Choose it in tests.

    Parameters
    ----------
    n_components
        Dimension K of the vectors.

    References
    ----------
    None.
    """

    n_views = 1
    many_to_many = True
    nonlinear = False
    inductive = True
    likelihood_based = False
    needs_features = True

    def __init__(self, n_components: int = 4) -> None:
        self.n_components = n_components

    def _fit(self, graph, seed):
        ((view, X),) = graph.views.items()
        W = graph.links[view, view].matrix()
        self._projection = np.linalg.svd(X, full_matrices=False)[2][: self.n_components].T
        means = W @ X / np.maximum(W.sum(1), 1)[:, None]
        return {view: (X + means) @ self._projection}

    def _embed(self, view, X):
        return X @ self._projection


@pytest.fixture(autouse=True)
def registered():
    register_method("Toy", Toy)
    yield
    del METHODS["Toy"]


@pytest.fixture(scope="module")
def cora():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=120)
    words = (rng.random((120, 30)) < np.where(np.arange(30) % 3 == labels[:, None], 0.4, 0.1)) * 1.0
    close = np.where(labels[:, None] == labels, 0.1, 0.01)
    links = np.triu(rng.random((120, 120)) < close, 1) * 1.0
    return Cora(MultiViewGraph({VIEW: words}, {(VIEW, VIEW): links}), labels, ("a", "b", "c"))


def test_a_registered_method_is_fitted_searched_saved_and_evaluated(cora, tmp_path):
    kept, held = hold_out_links(cora.graph, 0.2, np.random.default_rng(0))
    method = METHODS["Toy"](n_components=5).fit(kept)
    Y = method.embeddings_[VIEW]
    assert Y.shape == (120, 5)
    X = cora.graph.views[VIEW][:3]
    np.testing.assert_allclose(method.embed(VIEW, X), X @ method._projection, rtol=1e-5)
    vectors = Embeddings(method.ids_[VIEW], Y)
    vectors.save(tmp_path / "toy.parquet")
    loaded = Embeddings.load(tmp_path / "toy.parquet")
    ids, g = loaded.nearest(Y[:3], 4)
    order = np.argsort(-(Y[:3] @ Y.T), axis=1)[:, :4]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_allclose(g, np.take_along_axis(Y[:3] @ Y.T, order, 1), rtol=1e-5)
    results = evaluate_held_out(
        method.embeddings_,
        {(VIEW, VIEW): 0.0},
        held.links,
        known=kept.links,
        weights={(VIEW, VIEW): kept.total_weight},
    )
    assert results["overall"]["roc_auc"] > 0.6  # classes are linked


def test_a_registered_method_is_listed():
    assert card("Toy").title == "Toy method"
    assert card("Toy").inductive is True
    printed = CliRunner().invoke(app, ["methods", "--json"]).stdout
    (row,) = [row for row in json.loads(printed) if row["name"] == "Toy"]
    assert row["n_views"] == 1


def test_a_registered_method_has_a_row_in_a_recipe(cora, tmp_path):
    text = """
title = "small"
experiment = "citation"
summary = "s."
repetitions = 1
trials = 2
[options]
setting = "A"
[[methods]]
label = "the toy"
method = "Toy"
search = { n_components = [2, 4] }
"""
    experiment = Citation(parse("small", text), None, tmp_path / "studies")
    experiment.cora = cora
    run(experiment, tmp_path / "small", processes=1)
    report = read_experiment_report(experiment, tmp_path / "small")
    write_experiment_reports(tmp_path / "page", [report], "small")
    for name in ("index.html", "table.md"):
        assert "the toy" in (tmp_path / "page" / name).read_text()


def test_invalid_methods_are_refused():
    register_method("Toy", Toy)  # again: no change
    with pytest.raises(ParameterError, match="'LPP': the name is taken by LPP"):
        register_method("LPP", Toy)
    with pytest.raises(ParameterError, match="'x': expected a subclass of Baseline"):
        register_method("x", dict)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="expected a name that is not empty, got ''"):
        register_method("", Toy)

    class Bare(Toy.__mro__[1]):  # type: ignore[misc]
        n_views = 1

    with pytest.raises(ParameterError, match="'Bare': expected the class attributes many_to_many"):
        register_method("Bare", Bare)
