"""Links held out by fit, and the settings that a model keeps and saves."""

from __future__ import annotations

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import ParameterError
from pmvge.graph import hold_out_links


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    return MultiViewGraph(
        {"a": rng.normal(size=(40, 3)), "b": 10}, {("a", "b"): rng.poisson(0.6, size=(40, 10))}
    )


def make(**settings):
    return PMvGE(3, **{"max_steps": 10, "random_state": 7, "progress": False, **settings})


def same(one, two):
    for view, Y in one.embeddings_.items():
        np.testing.assert_array_equal(Y, two.embeddings_[view])
    assert one.log_alpha_ == pytest.approx(two.log_alpha_, rel=1e-12)


def test_hold_out_is_validation_fraction_for_one_fit(graph):
    same(make().fit(graph, hold_out=0.3), make(validation_fraction=0.3).fit(graph))


def test_hold_out_links_are_those_of_a_split_with_the_seed(graph):
    kept, held = hold_out_links(graph, 0.3, np.random.default_rng([7, 1]))
    fitted = make().fit(graph, hold_out=0.3)
    same(fitted, make().fit(kept, held))
    for found, wanted in ((fitted.links_.training, kept), (fitted.links_.held_out, held)):
        links = wanted.links["a", "b"]
        np.testing.assert_array_equal(found["a", "b"].rows, links.rows)
        np.testing.assert_array_equal(found["a", "b"].cols, links.cols)


def test_no_links_are_held_out_for_0(graph):
    fitted = make().fit(graph, hold_out=0)
    same(fitted, make(patience=None).fit(graph))
    assert fitted.links_.held_out == {}
    assert fitted.history_.best is None


def test_without_patience_held_out_links_do_not_stop_training(graph):
    fitted = make(patience=None).fit(graph, hold_out=0.3)
    assert fitted.history_.best is None
    assert len(fitted.links_.held_out["a", "b"]) == round(0.3 * graph.n_links)
    kept, _ = hold_out_links(graph, 0.3, np.random.default_rng([7, 1]))
    for view, Y in make(patience=None).fit(kept).embeddings_.items():
        np.testing.assert_array_equal(fitted.embeddings_[view], Y)


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, True, "x", np.nan])
def test_invalid_shares_are_refused(graph, share):
    with pytest.raises(ParameterError, match=r"hold_out: expected a number in \[0, 1\)"):
        make().fit(graph, hold_out=share)


def test_validation_and_hold_out_are_alternatives(graph):
    with pytest.raises(ParameterError, match="expected validation or hold_out, got both"):
        make().fit(graph, graph, hold_out=0.1)


def test_saved_parameters_are_the_ones_used(graph, tmp_path):
    fitted = make(random_state=None).fit(graph, hold_out=0.2)
    fitted.set_params(n_components=99, validation_fraction=0.5)  # after the fit
    fitted.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model")
    assert loaded.n_components == 3
    assert loaded.validation_fraction == 0.2
    assert loaded.random_state == loaded.describe()["training"]["seed"]
    same(fitted, PMvGE(**loaded.get_params(deep=False)).fit(graph))


def test_generators_are_saved_as_the_seed_that_was_drawn(graph, tmp_path):
    fitted = make(random_state=np.random.default_rng(5)).fit(graph)
    fitted.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model")
    same(fitted, PMvGE(**loaded.get_params(deep=False)).fit(graph))
