"""The share of features in a view's similarities, against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE

N, M = 40, 25


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    return MultiViewGraph(
        {"a": rng.normal(size=(N, 3)), "b": M}, {("a", "b"): rng.poisson(1.0, size=(N, M))}
    )


def fitted(graph, **settings):
    return PMvGE(
        4, **{"max_steps": 40, "random_state": 0, "progress": False, "dropout": 0.0, **settings}
    ).fit(graph, hold_out=0)


def by_hand(model, graph):
    """Return the share of features of view a: similarities with and without its effects."""
    partners = model.vectors("b", among="a", side="candidate").astype(float)
    full = model.vectors("a", among="b").astype(float) @ partners.T
    features = model.vectors("a", graph.views["a"], among="b").astype(float) @ partners.T
    full, features = full - full.mean(0), features - features.mean(0)
    return 1 - np.square(full - features).sum() / np.square(full).sum()


@pytest.mark.parametrize("similarity", ["inner", "cosine"])
@pytest.mark.parametrize("effects", ["bias", "vector"])
def test_shares_compare_similarities_with_and_without_effects(graph, similarity, effects):
    model = fitted(graph, similarity=similarity, effects=effects)
    share = model.describe()["views"]["a"]["effects"]["feature_shares"]["b"]
    assert share == pytest.approx(max(0, by_hand(model, graph)), abs=1e-5)


def test_features_explain_everything_under_a_narrow_prior(graph):
    model = fitted(graph, effects={"a": "vector"}, effects_prior=1e-4, similarity="inner")
    assert model.describe()["views"]["a"]["effects"]["feature_shares"]["b"] > 0.999
    assert model.describe()["views"]["b"]["effects"] == {"kind": "none"}


def test_features_explain_nothing_where_there_are_none(graph):
    model = fitted(graph, effects="vector", similarity="inner")
    assert model.describe()["views"]["b"]["effects"]["feature_shares"]["a"] == 0


def test_equal_entities_have_no_share():
    one = MultiViewGraph({"a": np.ones((1, 3)), "b": 5}, {("a", "b"): ([0, 0], [1, 2])})
    model = fitted(one, effects="vector")
    assert model._fitted.shares == {"b": {"a": 0.0}}
    assert model.describe()["views"]["a"]["effects"]["feature_shares"] == {}


def test_shares_are_saved(graph, tmp_path):
    model = fitted(graph, effects="vector")
    model.save(tmp_path / "model")
    assert PMvGE.load(tmp_path / "model").describe() == model.describe()
