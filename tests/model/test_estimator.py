"""Methods and attributes of a fitted estimator."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError, NotInductive
from pmvge.likelihoods import graph_log_partitions

rng = np.random.default_rng(0)
Z = rng.normal(size=(90, 3))
X = (Z @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(90, 12))).astype(np.float32)
T = sparse.csr_array(np.abs(rng.normal(size=(40, 8))) * (rng.random((40, 8)) < 0.4))
USERS = [f"user {i}" for i in range(7)]
NEW_X = rng.normal(size=(5, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def graph() -> MultiViewGraph:
    return MultiViewGraph(
        {"image": X, "tag": T, "user": 7},
        {
            ("image", "tag"): rng.poisson(0.3, (90, 40)),
            ("user", "image"): rng.poisson(0.5, (7, 90)),
            ("image", "image"): np.triu(rng.poisson(0.1, (90, 90)), 1),
        },
        {"user": USERS},
    )


@pytest.fixture(scope="module", params=["inner", "cosine"])
def model(request: pytest.FixtureRequest, graph: MultiViewGraph) -> PMvGE:
    return PMvGE(
        6, similarity=request.param, effects="none", max_steps=60, batch_size=64, random_state=0
    ).fit(graph)


def test_learned_attributes(model, graph):
    assert model.view_names_ == ("image", "tag", "user")
    assert {view: Y.shape for view, Y in model.embeddings_.items()} == {
        "image": (90, 6),
        "tag": (40, 6),
        "user": (7, 6),
    }
    assert all(Y.dtype == np.float32 for Y in model.embeddings_.values())
    assert model.ids_["user"].tolist() == USERS
    assert (model.alpha_ == model.alpha_.T).all()
    zero = {(1, 1), (2, 2), (1, 2), (2, 1)}
    assert {tuple(map(int, index)) for index in np.argwhere(model.alpha_ == 0)} == zero
    assert set(model.alpha_error_.values()) == {0.0}
    assert len(model.history_) > 0


def test_embed_reproduces_the_vectors_of_training_rows(model):
    np.testing.assert_allclose(model.embed("image", X), model.embeddings_["image"], rtol=1e-6)
    np.testing.assert_allclose(model.embed("tag", T), model.embeddings_["tag"], rtol=1e-6)
    assert (model.embed("user", ["user 3"]) == model.embeddings_["user"][3]).all()


def test_new_rows_are_embedded_from_features(model):
    Y = model.embed("image", NEW_X)
    assert Y.shape == (5, 6)
    assert Y.dtype == np.float32
    for one, together in zip(NEW_X, Y, strict=True):
        np.testing.assert_allclose(
            model.embed("image", one[None])[0], together, rtol=1e-4, atol=1e-6
        )


def test_sparse_and_dense_rows_are_interchangeable(model):
    np.testing.assert_allclose(
        model.embed("tag", T.toarray()), model.embed("tag", T), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        model.embed("image", sparse.csr_array(NEW_X)),
        model.embed("image", NEW_X),
        rtol=1e-5,
        atol=1e-6,
    )


def test_no_rows_give_no_vectors(model):
    assert model.embed("image", NEW_X[:0]).shape == (0, 6)


def test_intensity_is_alpha_exp_of_inner_products(model):
    mu = model.intensity("image", NEW_X, "tag", T)
    Y, V = model.embed("image", NEW_X).astype(float), model.embed("tag", T).astype(float)
    alpha = model.alpha_[0, 1]
    expected = [[alpha * math.exp(y @ v) for v in V] for y in Y]
    np.testing.assert_allclose(mu, expected, rtol=1e-10)
    np.testing.assert_allclose(model.intensity("tag", T, "image", NEW_X), mu.T, rtol=1e-10)


def test_expected_and_observed_totals_agree_on_the_training_graph(model, graph):
    for (a, b), links in graph.links.items():
        rows = {"image": X, "tag": T, "user": USERS}
        mu = model.intensity(a, rows[a], b, rows[b])
        total = np.triu(mu, 1).sum() if a == b else mu.sum()
        assert total == pytest.approx(links.total, rel=1e-5)


def test_search_returns_the_largest_intensities(model):
    ids, mu = model.search("image", NEW_X, among="user", k=3)
    full = model.intensity("image", NEW_X, "user", USERS)
    order = np.argsort(-full, axis=1, kind="stable")[:, :3]
    assert ids.tolist() == [[USERS[j] for j in row] for row in order]
    np.testing.assert_allclose(mu, np.take_along_axis(full, order, 1), rtol=1e-5)


def test_search_by_similarity_ranks_view_pairs_without_links(model):
    with pytest.raises(InputError, match="between 'tag' and 'user' were not observed"):
        model.search("tag", T, among="user")
    ids, g = model.search("tag", T, among="user", k=2, by="similarity")
    full = model.embed("tag", T) @ model.embeddings_["user"].T
    np.testing.assert_allclose(g, -np.sort(-full, axis=1)[:, :2], rtol=1e-5, atol=1e-6)
    assert ids.shape == (40, 2)


def test_search_among_candidates_returns_positions(model):
    ids, mu = model.search("tag", T, among="image", k=2, candidates=NEW_X)
    full = model.intensity("tag", T, "image", NEW_X)
    assert ids.tolist() == np.argsort(-full, axis=1)[:, :2].tolist()
    np.testing.assert_allclose(mu, -np.sort(-full, axis=1)[:, :2], rtol=1e-5)


def test_log_likelihood_is_the_sum_over_pair_terms(model, graph):
    by_pair = model.log_likelihood(graph, by_pair=True)
    rows = {"image": X, "tag": T, "user": USERS}
    for (a, b), links in graph.links.items():
        mu, W = model.intensity(a, rows[a], b, rows[b]), links.matrix().toarray()
        terms = W * np.log(mu) - mu
        expected = np.triu(terms, 1).sum() if a == b else terms.sum()
        assert by_pair[a, b] == pytest.approx(expected, rel=1e-9)
    assert model.log_likelihood(graph) == pytest.approx(sum(by_pair.values()))
    assert model.score(graph) == pytest.approx(sum(by_pair.values()) / graph.n_terms)


def test_log_likelihood_looks_up_featureless_entities_by_id(model, graph):
    part = graph.subgraph({"user": [5, 1], "image": np.arange(20)})
    mu = model.intensity("user", ["user 5", "user 1"], "image", X[:20])
    W = part.links["user", "image"].matrix().toarray()
    found = model.log_likelihood(part, by_pair=True)["user", "image"]
    assert found == pytest.approx((W * np.log(mu) - mu).sum(), rel=1e-9)
    with pytest.raises(NotInductive, match="'user 9'"):
        model.log_likelihood(
            MultiViewGraph(
                {"user": 1, "image": X}, {("user", "image"): ([0], [0])}, {"user": ["user 9"]}
            )
        )


def test_alpha_counts_links_held_out_for_validation(graph):
    """The total is the same whether the links are given as one graph or as two."""
    halves = [
        {
            pair: links.select(np.arange(len(links)) % 2 == part)
            for pair, links in graph.links.items()
        }
        for part in (0, 1)
    ]
    model = PMvGE(4, effects="none", max_steps=20, random_state=0)
    model.fit(graph.with_links(halves[0]), validation=graph.with_links(halves[1]))
    mu = model.intensity("image", X, "tag", T)
    assert mu.sum() == pytest.approx(graph.links["image", "tag"].total, rel=1e-5)


def test_alpha_of_many_pairs_is_estimated_with_a_standard_error(graph, monkeypatch):
    few = partial(graph_log_partitions, exact_terms=1000)
    monkeypatch.setattr("pmvge.likelihoods.sharded.graph_log_partitions", few)
    monkeypatch.setattr("pmvge.likelihoods.partition.BLOCK_SIZE", 20)
    settings = {"n_components": 4, "max_steps": 20, "random_state": 0}
    estimated = PMvGE(**settings).fit(graph)
    monkeypatch.undo()
    exact = PMvGE(**settings).fit(graph)
    assert estimated.alpha_error_["user", "image"] == 0  # 630 terms
    error = estimated.alpha_error_["image", "tag"]
    assert 0 < error < 0.2
    assert estimated.alpha_[0, 1] == pytest.approx(exact.alpha_[0, 1], rel=5 * error)


def test_it_is_a_scikit_learn_estimator(graph):
    model = PMvGE(n_components=3, dropout=0.1)
    copy = clone(model).set_params(n_components=5)
    assert (model.n_components, copy.n_components, copy.dropout) == (3, 5, 0.1)
    assert copy.set_params(max_steps=5).fit(graph).embeddings_["tag"].shape == (40, 5)
