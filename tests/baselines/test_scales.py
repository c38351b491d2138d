"""Linear methods with large and small units, constant columns and too many axes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.baselines import CCA, CDMCA, HIMFAC, LPP, MCCA, CvGE, KernelCCA, linear

PENCILS = [CvGE, CDMCA, HIMFAC]


def two_views(scale: float = 1.0, shift: float = 0.0) -> MultiViewGraph:
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(60, 5)), rng.normal(size=(50, 8))
    W = rng.poisson(np.exp(0.4 * A[:, :3] @ B[:, :3].T - 1))
    return MultiViewGraph({"a": scale * A + shift, "b": B}, {("a", "b"): W})


def one_view(X) -> MultiViewGraph:
    rng = np.random.default_rng(1)
    n = X.shape[0]
    return MultiViewGraph({"a": X}, {("a", "a"): np.triu(rng.poisson(0.2, (n, n)), 1)})


def agreement(model, graph: MultiViewGraph) -> float:
    """Return the correlation of inner products with the weights between the views."""
    g = model.embeddings_["a"].astype(float) @ model.embeddings_["b"].astype(float).T
    return np.corrcoef(g.ravel(), graph.links["a", "b"].matrix().toarray().ravel())[0, 1]


@pytest.mark.parametrize("method", [*PENCILS, CCA, MCCA])
def test_more_axes_than_the_rank_change_nothing(method):
    graph = two_views()
    few = agreement(method(5, shrinkage=0.1).fit(graph), graph)
    many = agreement(method(100, shrinkage=0.1).fit(graph), graph)
    assert few > 0.15
    assert many == pytest.approx(few, abs=0.02)


def test_axes_of_negative_eigenvalues_are_left_out():
    model = LPP(100, shrinkage=0.0).fit(one_view(np.random.default_rng(2).normal(size=(40, 6))))
    assert (model.eigenvalues_ > 0).all()
    used = len(model.eigenvalues_)
    assert 0 < used < 6
    assert model.weights_["a"].shape == (6, used)
    assert not model.embeddings_["a"][:, used:].any()


@pytest.mark.parametrize("method", [*PENCILS, CCA, MCCA, KernelCCA])
@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e8])
def test_results_do_not_depend_on_the_unit_of_a_view(method, shrinkage, scale):
    settings = {"kernel": "linear"} if method is KernelCCA else {}
    shrinkage = max(shrinkage, 0.05) if method is KernelCCA else shrinkage
    plain = method(4, shrinkage=shrinkage, **settings).fit(two_views())
    other = method(4, shrinkage=shrinkage, **settings).fit(two_views(scale))
    for view in "ab":
        Y, Z = plain.embeddings_[view], other.embeddings_[view]
        np.testing.assert_allclose(np.abs(Z), np.abs(Y), atol=1e-3 * np.abs(Y).max())


def test_columns_of_different_units_are_all_used_without_shrinkage():
    X = np.random.default_rng(3).normal(size=(60, 3))
    raw = X * [1.0, 1.0, 3e7] + [0, 0, 1.6e9]  # a time stamp
    plain, other = (LPP(3, shrinkage=0.0).fit(one_view(x)) for x in (X, raw))
    np.testing.assert_allclose(other.eigenvalues_, plain.eigenvalues_, rtol=1e-5)


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
@pytest.mark.parametrize("method", [*PENCILS, CCA, MCCA, KernelCCA])
def test_a_constant_view_has_zero_vectors(method, shrinkage):
    graph = two_views()
    constant = MultiViewGraph(
        {"a": np.full((60, 5), 7.3), "b": graph.views["b"]},
        {("a", "b"): graph.links["a", "b"].matrix()},
    )
    model = method(3, shrinkage=shrinkage).fit(constant)
    for Y in (*model.embeddings_.values(), model.embed("a", np.full((2, 5), 9.9))):
        assert np.abs(Y).max() < 1e-3


def test_constant_features_of_a_single_view_have_zero_vectors():
    model = LPP(3).fit(one_view(np.full((30, 4), 7.3)))
    assert not model.embeddings_["a"].any()
    assert not model.embed("a", np.full((2, 4), 9.0)).any()


@pytest.mark.parametrize("wide", [5, 2000])
@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
@pytest.mark.parametrize(
    "X",
    [
        np.full((40, 30), 7.3),
        np.zeros((40, 30)),
        np.random.default_rng(4).normal(size=(40, 30)) + 1000,
        sparse.csr_array(np.random.default_rng(5).random((40, 30)) < 0.1, dtype=float),
    ],
    ids=["constant", "zero", "shifted", "sparse"],
)
def test_degenerate_features_have_finite_vectors_in_both_solvers(
    monkeypatch, wide, shrinkage, X, capfd
):
    monkeypatch.setattr(linear, "WIDE", wide)
    model = LPP(5, shrinkage=shrinkage).fit(one_view(X))
    assert np.isfinite(model.embeddings_["a"]).all()
    assert np.abs(model.embeddings_["a"]).max() < 10
    assert capfd.readouterr() == ("", "")


def test_a_view_without_links_has_zero_vectors():
    graph = two_views()
    links = graph.links["a", "b"].matrix()
    C = np.random.default_rng(6).normal(size=(7, 3))
    three = MultiViewGraph(
        {**graph.views, "c": C}, {("a", "b"): links, ("b", "c"): np.zeros((50, 7))}
    )
    for method in (MCCA, CDMCA):
        model = method(3).fit(three)
        assert not model.embeddings_["c"].any()
        assert agreement(model, graph) == pytest.approx(agreement(method(3).fit(graph), graph))
