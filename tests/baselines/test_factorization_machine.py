"""The factorization machine against a double loop over columns, and on simulated links."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from pmvge import MultiViewGraph
from pmvge.baselines import FactorizationMachine
from pmvge.checks import NotFitted
from pmvge.errors import InputError, NotInductive


def machine(K: int = 3, **settings) -> FactorizationMachine:
    fixed = {"max_steps": 30, "batch_size": 64, "progress": False}
    return FactorizationMachine(K, random_state=0, **(fixed | settings))


def by_loops(w0: float, w: np.ndarray, V: np.ndarray, x: np.ndarray) -> float:
    """Return Rendle's equation 1 for one row x."""
    total = w0 + sum(w[a] * x[a] for a in range(len(x)))
    for a in range(len(x)):
        for b in range(a + 1, len(x)):
            total += V[a] @ V[b] * x[a] * x[b]
    return total


@pytest.fixture(scope="module")
def mixed() -> tuple[FactorizationMachine, dict]:
    """Return a fit of a dense, a sparse and a featureless view, and their scaled rows."""
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 5, (12, 4)) * np.array([1, 100, 1, 1])
    dense[:, 3] = 7  # constant
    words = rng.poisson(0.5, (10, 6)).astype(float)
    links = {
        ("dense", "dense"): np.triu(rng.random((12, 12)) < 0.3, k=1),
        ("dense", "w.ords"): (rng.random((12, 10)) < 0.3) * 2.0,
        ("w.ords", "none"): rng.random((10, 5)) < 0.3,
    }
    views = {"dense": dense, "w.ords": sparse.csr_array(words), "none": 5}
    model = machine(learning_rate=0.05).fit(MultiViewGraph(views, links))
    deviation = dense.std(0)
    standard = np.where(deviation > 0, dense - dense.mean(0), 0) / np.maximum(deviation, 1e-9)
    scaled = {
        "dense": standard,
        "w.ords": words / np.sqrt((words**2).sum(1).mean()),
        "none": np.eye(5),
    }
    return model, {view: (X, scaled[view]) for view, X in views.items()}


@pytest.mark.parametrize("view", ["dense", "w.ords", "none"])
@pytest.mark.parametrize("other", ["dense", "w.ords", "none"])
def test_scores_equal_a_double_loop_over_columns(mixed, view, other):
    model, rows = mixed
    (X, x), (X_other, x_other) = rows[view], rows[other]
    given = [np.arange(5) if isinstance(X, int) else X for X in (X, X_other)]
    found = model.scores(view, given[0], other, given[1])
    w = np.concatenate([model.weights_[view], model.weights_[other]]).astype(float)
    V = np.concatenate([model.factors_[view], model.factors_[other]]).astype(float)
    assert np.abs(w).max() > 0.01  # trained: no term is 0
    assert model.intercept_ != 0
    expected = [[by_loops(model.intercept_, w, V, np.r_[a, b]) for b in x_other] for a in x]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_vectors_are_linear_in_the_features(mixed):
    model, rows = mixed
    for view, (_, x) in rows.items():
        np.testing.assert_allclose(
            model.embeddings_[view], x @ model.factors_[view], rtol=1e-5, atol=1e-5
        )


def test_dense_and_sparse_rows_give_the_same_vectors(mixed):
    model, rows = mixed
    words = rows["w.ords"][0]
    found = model.scores("w.ords", words.toarray(), "none", [0, 3])
    np.testing.assert_allclose(found, model.scores("w.ords", words, "none", [0, 3]), atol=1e-6)
    assert model.scores("w.ords", words[:0], "none", [0, 3]).shape == (0, 2)


def test_scores_raises_the_errors_of_embed(mixed):
    model, rows = mixed
    with pytest.raises(InputError, match="unknown view 'word'"):
        model.scores("word", rows["w.ords"][0], "none", [0])
    with pytest.raises(InputError, match=r"expected rows of shape \(6,\), got \(4,\)"):
        model.scores("w.ords", rows["dense"][0], "none", [0])
    with pytest.raises(NotInductive, match="such as 9"):
        model.scores("w.ords", rows["w.ords"][0], "none", [9])
    with pytest.raises(NotFitted):
        machine().scores("a", [[1]], "b", [[1]])


def planted(rng: np.random.Generator, n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features of users and items, with noise columns, and the probabilities of links."""
    taste, kind = rng.integers(3, size=n), rng.integers(3, size=m)
    users = np.hstack([np.eye(3)[taste], rng.normal(size=(n, 4))])
    items = np.hstack([rng.normal(size=(m, 2)), 2 * np.eye(3)[kind][:, [2, 0, 1]]])
    return users, items, taste[:, None] == kind


def test_planted_links_between_unseen_rows_are_found():
    rng = np.random.default_rng(0)
    users, items, likes = planted(rng, 150, 60)
    W = rng.random(likes.shape) < np.where(likes, 0.3, 0.02)
    graph = MultiViewGraph({"user": users, "item": items}, {("user", "item"): W})
    model = machine(8, max_steps=300, learning_rate=0.02).fit(graph)
    users, items, likes = planted(rng, 150, 60)
    found = model.scores("user", users, "item", items)
    assert roc_auc_score(likes.ravel(), found.ravel()) > 0.95
    inner = model.embed("user", users) @ model.embed("item", items).T
    assert roc_auc_score(likes.ravel(), inner.ravel()) > 0.95


def test_entities_without_links_or_features_have_the_vector_0():
    graph = MultiViewGraph({"a": 4, "b": np.eye(3)}, {("a", "b"): ([0, 1, 2], [0, 1, 2])})
    Y = machine(5).fit(graph).embeddings_["a"]
    assert (Y[3] == 0).all()
    assert (np.abs(Y[:3]).max(1) > 0).all()
