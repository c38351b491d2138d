"""The most similar entities of a view against all distances and cosines."""

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError, NotInductive
from pmvge.model.mapping.neighbours import Neighbours

N = 60


def fitted(similarity="inner", n_components=5):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 3))
    popular = rng.normal(size=N)
    A = rng.poisson(0.2 * np.exp(0.5 * z @ z.T + popular[:, None] + popular).clip(0, 20))
    graph = MultiViewGraph(
        {"film": z, "user": 30},
        {("film", "film"): np.triu(A, 1), ("user", "film"): rng.poisson(0.3, (30, N))},
        {"film": [f"f{i}" for i in range(N)]},
    )
    effects = "none" if similarity == "hyperbolic" else "auto"
    return PMvGE(n_components, similarity=similarity, effects=effects, hidden_sizes=(8,),
                 max_steps=80, random_state=0, progress=False).fit(graph)  # fmt: skip


def cosines(Y, others):
    Y, others = (V / np.linalg.norm(V, axis=1, keepdims=True) for V in (Y, others))
    return Y @ others.T


def half_squares(Y, others):
    return -0.5 * np.square(Y[:, None] - others).sum(2)


def poincare(Y, others):
    gaps = np.square(Y[:, None] - others).sum(2)
    room = (1 - np.square(Y).sum(1))[:, None] * (1 - np.square(others).sum(1))
    return -np.arccosh(1 + 2 * gaps / room)


@pytest.mark.parametrize(
    ("similarity", "n_components", "compare"),
    [
        ("inner", 5, cosines),
        ("cosine", 5, cosines),
        ("shifted", 5, cosines),
        ("weighted", 5, cosines),
        ("inner", 2, half_squares),
        ("euclidean", 5, half_squares),
        ("hyperbolic", 3, poincare),
    ],
)
def test_similar_entities_are_those_of_a_full_sort(similarity, n_components, compare):
    model = fitted(similarity, n_components)
    Y = model.embeddings_["film"].astype(np.float64)
    scores = compare(Y, Y)
    np.fill_diagonal(scores, -np.inf)
    order = np.argsort(-scores, axis=1)[:, :7]
    ids, found = model.similar("film", k=7)
    np.testing.assert_allclose(found, np.take_along_axis(scores, order, 1), rtol=1e-3, atol=1e-4)
    rows = np.arange(N)[:, None]
    at = np.searchsorted(np.sort(model.ids_["film"]), ids)
    at = np.argsort(model.ids_["film"])[at]
    np.testing.assert_allclose(scores[rows, at], found, rtol=1e-3, atol=1e-4)
    # The map joins the same entities.
    sample = {view: np.arange(len(ids)) for view, ids in model.ids_.items()}
    nearest = Neighbours(model._check_fitted(), sample).nearest(
        "film", sample["film"], "film", 7, partners=False, own=True
    )
    assert np.array_equal(model.ids_["film"][nearest], ids)


def test_known_and_new_entities_and_first_links():
    model = fitted()
    ids, found = model.similar("film", ids=["f3", "f9"], k=4)
    every = model.similar("film", k=4)
    assert np.array_equal(ids, every[0][[3, 9]])
    np.testing.assert_allclose(found, every[1][[3, 9]], rtol=1e-5)
    X = np.random.default_rng(1).normal(size=(2, 3))
    Y = model.embeddings_["film"].astype(np.float64)
    new, _ = model.similar("film", X, k=N + 5)
    order = np.argsort(-cosines(model.embed("film", X).astype(float), Y), axis=1)
    assert np.array_equal(new, model.ids_["film"][order])
    links = {"user": ([0, 1, 1], [3, 4, 5])}
    first, _ = model.similar("film", X, links=links, k=5)
    order = np.argsort(-cosines(model.fold_in("film", X, links=links).astype(float), Y), axis=1)
    assert np.array_equal(first, model.ids_["film"][order[:, :5]])


def test_bad_input():
    model = fitted()
    with pytest.raises(InputError, match="unknown view 'films'"):
        model.similar("films")
    with pytest.raises(InputError, match="k: expected a positive integer"):
        model.similar("film", k=0)
    with pytest.raises(NotInductive, match="'nothing'"):
        model.similar("film", ids=["nothing"])


def test_a_mapped_model_stores_what_it_compares(tmp_path):
    model = fitted()
    model.save(tmp_path / "model")
    mapped = PMvGE.load(tmp_path / "model", memory_map=tmp_path / "maps")
    for a, b in zip(mapped.similar("film", k=5), model.similar("film", k=5), strict=True):
        assert np.array_equal(a, b)
    state = mapped._check_fitted()
    assert state.similar_vectors("film") is state.similar_vectors("film")
