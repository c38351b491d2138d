"""PMvGE.evaluate against a brute-force evaluation of all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import average_precision_score, roc_auc_score

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import GraphError, InputError, NotInductive
from pmvge.evaluation import Popularity
from pmvge.graph import parse_links

N, M = 30, 14


@pytest.fixture(scope="module")
def world():
    """Return a graph, weights of held-out links, and the weights of the graph."""
    rng = np.random.default_rng(1)
    kinds = rng.choice(3, p=[0.6, 0.3, 0.1], size=(N, M))  # no link, training, held out
    W = rng.uniform(1, 4, size=(N, M))  # no two products of degrees are equal
    ids = {"user": [f"u{i}" for i in range(N)], "film": [f"f{j}" for j in range(M)]}
    graph = MultiViewGraph(
        {"user": rng.normal(size=(N, 4)), "film": M}, {("user", "film"): W * (kinds == 1)}, ids
    )
    return graph, W * (kinds == 2), W * (kinds == 1)


@pytest.fixture(scope="module")
def model(world):
    return PMvGE(4, max_steps=20, random_state=0, progress=False).fit(world[0])


def as_table(W):
    i, j = np.nonzero(W)
    return [f"u{n}" for n in i], [f"f{n}" for n in j], W[i, j]


def by_hand(scores, held, known, k):
    """Return AUC, AP and recall over all pairs without a known link."""
    left = known == 0
    recall = []
    for i in np.flatnonzero(held.sum(1)):
        order = [j for j in np.argsort(-scores[i], kind="stable") if left[i, j]][:k]
        recall.append(np.mean([j in order for j in np.flatnonzero(held[i])]))
    return {
        "roc_auc": roc_auc_score((held > 0)[left], scores[left]),
        "average_precision": average_precision_score((held > 0)[left], scores[left]),
        f"recall@{k}": np.mean(recall),
        "expected_over_observed": scores[left].sum() / held.sum(),
    }


def check(found, expected):
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-4), name


def test_results_are_those_of_all_pairs_without_known_links(model, world):
    _, held, known = world
    results = model.evaluate({("user", "film"): as_table(held)}, k=3)
    Y = model.embeddings_
    g = Y["user"].astype(float) @ Y["film"].T.astype(float)
    mu = np.exp(g + model.log_alpha_["user", "film"]) * held.sum() / known.sum()
    check(results["pairs"]["user,film"], by_hand(mu, held, known, 3))
    assert results["overall"]["roc_auc"] == results["pairs"]["user,film"]["roc_auc"]


def test_popularity_is_the_product_of_degrees(model, world):
    _, held, known = world
    mu = np.outer(known.sum(1), known.sum(0)) / known.sum() * held.sum() / known.sum()
    popularity = model.evaluate({("user", "film"): as_table(held)}, k=3)["popularity"]
    check(popularity["pairs"]["user,film"], by_hand(mu, held, known, 3))
    assert "same order for every entity" in popularity["meaning"]


def test_links_can_be_given_in_several_forms(model, world):
    graph, held, _ = world
    expected = model.evaluate({("user", "film"): as_table(held)})
    matrix = {("user", "film"): sparse.csr_array(held)}
    assert model.evaluate(matrix) == expected
    others = MultiViewGraph(graph.views | {"film": M}, matrix, graph.ids)
    assert model.evaluate(others) == expected
    assert model.evaluate(others.links) == expected
    turned = model.evaluate({("film", "user"): as_table(held)[1::-1] + as_table(held)[2:]})
    assert turned["pairs"]["film,user"]["roc_auc"] == pytest.approx(expected["overall"]["roc_auc"])


def test_by_default_the_links_held_out_by_fit_are_evaluated(world):
    graph, held, known = world
    all_links = graph.with_links(
        MultiViewGraph({"user": N, "film": M}, {("user", "film"): held + known}).links
    )
    fitted = PMvGE(4, max_steps=20, random_state=0, progress=False).fit(all_links, hold_out=0.25)
    links = fitted.links_
    out = links.held_out["user", "film"].matrix().toarray()
    kept = links.training["user", "film"].matrix().toarray()
    np.testing.assert_array_equal(out + kept, held + known)
    Y = fitted.embeddings_
    g = Y["user"].astype(float) @ Y["film"].T.astype(float)
    mu = np.exp(g + fitted.log_alpha_["user", "film"]) * out.sum() / (out + kept).sum()
    check(fitted.evaluate(k=3)["overall"], by_hand(mu, out, kept, 3))
    popular = np.outer(kept.sum(1), kept.sum(0)) / kept.sum() * out.sum() / kept.sum()
    auc = by_hand(popular, out, kept, 3)["roc_auc"]
    assert fitted.evaluate(k=3)["popularity"]["overall"]["roc_auc"] == pytest.approx(auc, rel=1e-4)


def test_links_of_the_training_are_counted_and_left_out(model, world):
    _, held, known = world
    both = held.copy()
    rows, cols = np.nonzero(known)
    both[rows[:5], cols[:5]] = 1
    found = model.evaluate({("user", "film"): sparse.csr_array(both)})["pairs"]["user,film"]
    assert found["in_training"] == 5
    assert found["links"] == np.count_nonzero(held)
    with pytest.raises(InputError, match=r"all 5 were in training.*include_known=True"):
        model.evaluate({("user", "film"): sparse.csr_array(both - held)})
    included = model.evaluate({("user", "film"): sparse.csr_array(both - held)}, include_known=True)
    assert included["overall"]["links"] == 5
    assert included["popularity"]["overall"]["links"] == 5


def test_a_model_without_held_out_links_has_no_results(world):
    fitted = PMvGE(2, max_steps=2, random_state=0, progress=False).fit(world[0], hold_out=0)
    results = fitted.evaluate()
    assert results["pairs"] == results["overall"] == results["popularity"]["pairs"] == {}


def test_invalid_links_are_refused(model):
    with pytest.raises(NotInductive, match=r"'film'.*'x'"):
        model.evaluate({("user", "film"): (["u0"], ["x"])})
    with pytest.raises(InputError, match="'user' and 'user' were not observed"):
        model.evaluate({("user", "user"): (["u0"], ["u1"])})
    with pytest.raises(GraphError, match="expected a 30 x 14 matrix"):
        model.evaluate({("user", "film"): sparse.csr_array((3, 3))})
    with pytest.raises(InputError, match="expected a MultiViewGraph or"):
        model.evaluate([1])
    for key in ("user,film", ("user", "film", "user")):
        with pytest.raises(InputError, match=r"expected a key \(view, view\), got"):
            model.evaluate({key: (["u0"], ["x"])})
    with pytest.raises(InputError, match="exposure: expected a positive number, got 'x'"):
        model.evaluate(exposure="x")


def test_graphs_may_have_new_entities(world):
    """Users without their id are new; known users keep their links out of the ranking."""
    graph, held, known = world
    model = PMvGE(4, max_steps=20, random_state=0, progress=False, effects="vector").fit(graph)
    names = [f"u{i}" if i % 2 else f"new{i}" for i in range(N)]
    ids = {"user": names, "film": graph.ids["film"]}
    links = {("user", "film"): sparse.csr_array(held)}
    other = MultiViewGraph(graph.views | {"film": M}, links, ids)
    seen = np.where(np.arange(N)[:, None] % 2, known, 0)
    found = model.evaluate(other, k=3)
    query = model.vectors("user", graph.views["user"], ids=names, among="film").astype(float)
    candidate = model.vectors("film", among="user", side="candidate").astype(float)
    eta = query @ candidate.T + model.log_alpha_["user", "film"]
    mu = np.exp(eta) * held.sum() / known.sum()
    check(found["overall"], by_hand(mu, held, seen, 3))
    assert np.abs(query - model.vectors("user", among="film")).max() > 0.01  # new ones differ
    degrees = np.where(np.arange(N) % 2, known.sum(1), known[1::2].sum(1).min() / 2)
    popular = np.outer(degrees, known.sum(0)) / known.sum() * held.sum() / known.sum()
    check(found["popularity"]["overall"], by_hand(popular, held, seen, 3))


def test_entities_without_links_are_the_least_popular():
    links = parse_links("links", ([0, 0, 1], [1, 2, 1], [1, 3, 0.5]), (3, 4), False, None)
    Y, Y_other, log_alpha = Popularity.of(links).vectors()
    mu = np.exp(Y @ Y_other.T + log_alpha)
    left, right = np.array([4, 0.5, 0.25]), np.array([0.75, 1.5, 3, 0.75])
    np.testing.assert_allclose(mu, np.outer(left, right) / 4.5, rtol=1e-5)
    within = parse_links("links", ([0, 1], [1, 2], [1, 2]), (3, 3), True, None)
    Y, Y_other, log_alpha = Popularity.of(within).vectors()
    degree = np.array([1, 3, 2])
    np.testing.assert_allclose(
        np.exp(Y @ Y_other.T + log_alpha), np.outer(degree, degree) / 6, rtol=1e-5
    )
