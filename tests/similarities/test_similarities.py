"""Similarities: g is the inner product of the vectors that `embed` returns."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from pmvge import MultiViewGraph, PMvGE
from pmvge.encoders import MultiViewEncoder, choose_encoders, schemas_of
from pmvge.errors import ParameterError
from pmvge.similarities import Cosine, Inner, build_similarity
from pmvge.similarities.cosine import INITIAL_SCALE

# Not near 0, where a direction is undefined, nor near the limits of float32.
entries = st.floats(1 / 64, 100, width=32) | st.floats(-100, -1 / 64, width=32)
matrices = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=entries)


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(30, 4)), "b": rng.normal(size=(20, 6)), "c": 5}
    rows, cols = np.nonzero(views["a"][:, :1] * views["b"][:, 0] > 0.3)
    links = {("a", "b"): (rows, cols), ("a", "c"): (np.arange(30), np.arange(30) % 5)}
    return MultiViewGraph(views, links)


def fitted(graph, similarity):
    settings = {"hidden_sizes": (8,), "max_steps": 60, "learning_rate": 0.05, "batch_size": 32}
    model = PMvGE(
        3, similarity=similarity, effects="none", random_state=0, progress=False, **settings
    )
    return model.fit(graph)


def cosine_at(scale):
    similarity = Cosine()
    with torch.no_grad():
        similarity.theta.fill_(np.log(scale) / 10)
    return similarity


@given(matrices)
def test_inner_returns_its_input(f):
    assert torch.equal(Inner()(torch.from_numpy(f)), torch.from_numpy(f))


@given(matrices, st.floats(0.01, 1000))
def test_inner_products_of_cosine_are_the_scaled_cosines(f, scale):
    with torch.no_grad():
        y = cosine_at(scale)(torch.from_numpy(f)).double().numpy()
    norms = np.linalg.norm(f.astype(np.float64), axis=1)
    cosines = (f.astype(np.float64) @ f.T.astype(np.float64)) / np.outer(norms, norms)
    np.testing.assert_allclose(y @ y.T, scale * cosines, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("theta", [-5.0, -0.1, 0.0, 0.1, 5.0])
def test_the_scale_is_positive_for_every_theta(theta):
    similarity = Cosine()
    with torch.no_grad():
        similarity.theta.fill_(theta)
        norm = similarity(torch.tensor([[3.0, -4.0]])).norm()
    assert float(norm) > 0
    assert float(norm) == pytest.approx(np.exp(5 * theta), rel=1e-5)


def test_cosine_starts_with_the_initial_scale():
    with torch.no_grad():
        norm = Cosine()(torch.tensor([[0.0, 2.0]])).norm()
    assert float(norm) ** 2 == pytest.approx(INITIAL_SCALE)


def test_cosine_of_a_zero_vector_and_its_gradient_are_finite():
    f = torch.zeros(1, 3, requires_grad=True)
    y = Cosine()(f)
    y.sum().backward()
    assert torch.equal(y, torch.zeros(1, 3))
    assert torch.isfinite(f.grad).all()


def test_an_unknown_similarity_is_refused():
    with pytest.raises(ParameterError, match=r"'inner', 'cosine', .*; did you mean 'cosine'"):
        build_similarity("cosinus", 3)


@pytest.mark.parametrize(("name", "n_learned"), [("inner", 0), ("cosine", 1)])
def test_cosine_learns_one_scale_for_all_views(graph, name, n_learned):
    schemas = schemas_of(graph)
    choices = choose_encoders(
        {"a": torch.nn.Linear(4, 3), "b": torch.nn.Linear(6, 3), "c": torch.nn.Embedding(5, 3)},
        None,
        schemas,
    )
    network = MultiViewEncoder(choices, schemas, 3, name)
    assert sum(p.numel() for p in network.similarity.parameters()) == n_learned


@pytest.mark.parametrize("name", ["inner", "cosine"])
def test_inner_products_of_embeddings_are_the_models_g(graph, name):
    model = fitted(graph, name)
    Y = {view: model.embeddings_[view].astype(np.float64) for view in "abc"}
    g = Y["a"] @ Y["b"].T
    a, b = graph.views["a"], graph.views["b"]
    mu = model.intensity("a", a, "b", b)
    np.testing.assert_allclose(mu, model.alpha_[0, 1] * np.exp(g), rtol=1e-5)
    np.testing.assert_array_equal(model.alpha_, model.alpha_.T)
    ids, best = model.search("a", a, among="b", k=20, by="similarity")
    np.testing.assert_allclose(best, np.take_along_axis(g, ids, axis=1), rtol=1e-4, atol=1e-5)
    assert model.alpha_[0, 1] == pytest.approx(graph.links["a", "b"].total / np.exp(g).sum())


def test_all_cosine_vectors_have_the_same_learned_norm(graph):
    model = fitted(graph, "cosine")
    new = np.random.default_rng(1).normal(size=(10, 4)) * 100
    vectors = np.concatenate([*model.embeddings_.values(), model.embed("a", new)])
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    np.testing.assert_allclose(norms, norms[0], rtol=1e-5)
    assert abs(norms[0] ** 2 - INITIAL_SCALE) > 0.1


def test_inner_vectors_have_different_norms(graph):
    norms = np.linalg.norm(fitted(graph, "inner").embeddings_["a"], axis=1)
    assert norms.std() > 0.05 * norms.mean()
