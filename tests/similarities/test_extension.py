"""Similarities defined outside the package: registered, fitted, searched, saved and reported."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import ParameterError
from pmvge.evaluation import evaluate_links
from pmvge.likelihoods import log_likelihood, log_partition, profile_log_likelihood
from pmvge.likelihoods.block import BlockObjective
from pmvge.likelihoods.partition import estimate_log_partition
from pmvge.report import write_report
from pmvge.sampling import BlockSampler
from pmvge.similarities import (
    SIMILARITIES,
    Similarity,
    build_similarity,
    check_similarity,
    register_similarity,
    similarity_name,
)


class Tilted(Similarity):
    """g = <lambda * y, y'> with learned weights of the coordinates, which may be negative."""

    def __init__(self, n_components) -> None:
        super().__init__(n_components)
        self.weight = nn.Parameter(torch.tensor([1.0, -0.5, 2.0]))

    def query(self, y):
        return y * self.weight.to(y.dtype)


class Compressed(Similarity):
    """g = 2 arsinh<y, y'>: an increasing function of the inner product."""

    linear: ClassVar[bool] = False

    def outer(self, product):
        return 2 * torch.asinh(product)


TOYS = {"tilted": Tilted, "compressed": Compressed}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register the toys for the duration of a test."""
    monkeypatch.setattr("pmvge.similarities.registry.SIMILARITIES", SIMILARITIES)
    for name, toy in TOYS.items():
        monkeypatch.setitem(SIMILARITIES, name, toy)


def g_of(similarity, y, y_other):
    """Return g of one pair by the definition, in plain Python."""
    if isinstance(similarity, Tilted):
        weight = similarity.weight.detach().double().numpy()
        return sum(w * a * b for w, a, b in zip(weight, y, y_other, strict=True))
    product = sum(a * b for a, b in zip(y, y_other, strict=True))
    return 2 * math.asinh(product)


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(40, 4)), rng.normal(size=(25, 5))
    across = np.nonzero(rng.random((40, 25)) < 0.25 / (1 + np.exp(-2 * X[:, :1] * T[:, 0])))
    within = np.nonzero(np.triu(rng.random((40, 40)) < 0.1, 1))
    ids = {"a": [f"a{n}" for n in range(40)], "b": [f"b{n}" for n in range(25)]}
    links = {("a", "b"): (*across, 1.0 + np.arange(len(across[0])) % 3), ("a", "a"): within}
    return MultiViewGraph({"a": X, "b": T}, links, ids)


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(1)
    return {"a": 0.7 * rng.normal(size=(40, 3)), "b": 0.7 * rng.normal(size=(25, 3))}


def pair_terms(pair, sizes):
    a, b = pair
    return [(i, j) for i in range(sizes[a]) for j in range(sizes[b]) if a != b or i < j]


@pytest.mark.parametrize("name", TOYS)
def test_exact_sums_are_those_of_a_double_loop(name, graph, vectors):
    similarity = build_similarity(name, 3)
    Y = vectors
    log_alpha = {("a", "b"): -1.0, ("a", "a"): -2.0}
    found = log_likelihood(graph, Y, log_alpha, similarity=similarity)
    profile = profile_log_likelihood(graph, Y, similarity=similarity)
    for pair, links in graph.links.items():
        a, b = pair
        g = {(i, j): g_of(similarity, Y[a][i], Y[b][j]) for i, j in pair_terms(pair, graph.sizes)}
        log_Z = math.log(math.fsum(map(math.exp, g.values())))
        other = None if a == b else Y[b]
        assert log_partition(Y[a], other, similarity=similarity, tile=7) == pytest.approx(log_Z)
        entries = list(zip(links.rows, links.cols, links.weights, strict=True))
        attraction = sum(w * (g[int(i), int(j)] + log_alpha[pair]) for i, j, w in entries)
        expected = math.fsum(math.exp(log_alpha[pair] + value) for value in g.values())
        assert found[pair] == pytest.approx(attraction - expected)
        W = links.total
        at_links = sum(w * g[int(i), int(j)] for i, j, w in entries)
        assert profile[pair] == pytest.approx(at_links - W * log_Z + W * math.log(W) - W)


@pytest.mark.parametrize("name", TOYS)
@pytest.mark.parametrize("pair", [("a", "b"), ("a", "a")])
def test_sampled_blocks_estimate_the_exact_sum(name, pair, graph, vectors):
    similarity = build_similarity(name, 3)
    alone = graph.with_links({pair: graph.links[pair]})
    sampler = BlockSampler(alone, n_links=6, n_uniform=6, rng=np.random.default_rng(0))
    Y, other = vectors[pair[0]], vectors[pair[1]]
    found = estimate_log_partition(Y, other, sampler, similarity=similarity, blocks=800)
    exact = log_partition(Y, None if pair[0] == pair[1] else other, similarity=similarity)
    assert abs(found.value - exact) < 5 * found.standard_error
    assert found.standard_error < 0.1


@pytest.mark.parametrize("name", TOYS)
def test_the_objective_of_a_whole_graph_is_the_profile_likelihood(name, graph, vectors):
    similarity = build_similarity(name, 3)
    objective = BlockObjective(graph, similarity)
    sampler = BlockSampler(graph, n_links=1000, n_uniform=1000, rng=np.random.default_rng(0))
    exact = profile_log_likelihood(graph, vectors, similarity=similarity)
    for batch in sampler.each_pair():
        y = [torch.tensor(vectors[view][rows], requires_grad=True) for view, rows in batch.inputs]
        loss = objective(batch, y).value
        links = graph.links[batch.pair]
        W, constant = links.total, math.log(links.total / links.n_terms) - 1
        loss.backward()
        value = float(loss.detach())
        assert value == pytest.approx(constant - exact[batch.pair] / W, rel=1e-5)
        step = 1e-6
        moved = [t.detach().clone() for t in y]
        moved[0][3, 1] += step
        slope = (float(objective(batch, moved).value.detach()) - value) / step
        assert float(y[0].grad[3, 1]) == pytest.approx(slope, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("scheme", ["block", "paper"])
@pytest.mark.parametrize("name", TOYS)
def test_fit_search_evaluate_save_load_and_report(name, scheme, graph, tmp_path):
    settings = {"hidden_sizes": (6,), "max_steps": 40, "batch_size": 32, "random_state": 0}
    model = PMvGE(
        3, similarity=name, scheme=scheme, effects="none", progress=False, **settings
    ).fit(graph)
    Y = model.embeddings_
    g = np.array([[g_of(model.similarity_, y, z) for z in Y["b"]] for y in Y["a"]])
    mu = np.exp(g + model.log_alpha_["a", "b"])

    total = graph.links["a", "b"].total
    assert mu.sum() == pytest.approx(total, rel=1e-4)  # alpha is exact
    X, T = graph.views["a"], graph.views["b"]
    np.testing.assert_allclose(model.intensity("a", X, "b", T), mu, rtol=1e-4)

    query = model.vectors("a", among="b")
    candidate = model.vectors("b", among="a", side="candidate")
    product = torch.from_numpy(query.astype(float) @ candidate.T.astype(float))
    np.testing.assert_allclose(model.similarity_.outer(product).detach(), g, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(model.vectors("a", ids=["a3", "a1"]), query[[3, 1]])

    ids, found = model.search("a", X[:5], among="b", k=4)
    best = np.argsort(-mu[:5], axis=1)[:, :4]
    np.testing.assert_array_equal(ids, model.ids_["b"][best])
    np.testing.assert_allclose(found, np.take_along_axis(mu[:5], best, 1), rtol=1e-4)

    scores = evaluate_links(
        Y["a"],
        Y["b"],
        graph.links["a", "b"],
        log_alpha=model.log_alpha_["a", "b"],
        similarity=model.similarity_,
    )
    assert scores["expected_over_observed"] == pytest.approx(1, rel=1e-4)

    model.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model")
    assert type(loaded.similarity_) is TOYS[name]
    np.testing.assert_array_equal(loaded.search("a", X[:5], among="b", k=4)[1], found)
    page = write_report(tmp_path / "report.html", loaded)
    assert page.stat().st_size > 100_000


# -- bad input ------------------------------------------------------------------------------


def test_an_unknown_similarity_lists_the_known_ones(graph):
    with pytest.raises(
        ParameterError, match=r"expected one of 'auto', 'inner', 'cosine', .*'tilted'"
    ):
        PMvGE(similarity="tiltd").fit(graph)


def test_a_name_is_taken_once():
    register_similarity("tilted", Tilted)  # again: no change
    with pytest.raises(ParameterError, match="'inner': the name is taken by Inner"):
        register_similarity("inner", Tilted)
    with pytest.raises(ParameterError, match="expected a subclass of Similarity"):
        register_similarity("linear", nn.Linear)
    for name in ("", 3):
        with pytest.raises(ParameterError, match=f"expected a name .* got {name!r}"):
            register_similarity(name, Tilted)


def test_a_registered_name_can_be_built(monkeypatch):
    monkeypatch.delitem(SIMILARITIES, "tilted")
    register_similarity("tilted", Tilted)
    assert type(build_similarity("tilted", 3)) is Tilted


def test_a_similarity_without_a_name_cannot_be_saved():
    class Unregistered(Similarity):
        pass

    with pytest.raises(ParameterError, match="Unregistered: expected a registered one"):
        similarity_name(Unregistered())


class WiderQuery(Similarity):
    def query(self, y):
        return torch.cat([y, y], 1)


class Directed(Similarity):
    def query(self, y):
        return y.roll(1, dims=1)


class Decreasing(Similarity):
    linear: ClassVar[bool] = False

    def outer(self, product):
        return -product


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WiderQuery, r"expected query and candidate of one shape \(8, width\), got \(8, 6\)"),
        (Directed, "expected <query\\(i\\), candidate\\(j\\)> = <query"),
        (Decreasing, "expected outer to be elementwise and increasing"),
    ],
)
def test_a_broken_contract_is_an_error_before_training(broken, message, monkeypatch, graph):
    monkeypatch.setitem(SIMILARITIES, "broken", broken)
    with pytest.raises(ParameterError, match=message):
        PMvGE(3, similarity="broken", max_steps=1).fit(graph)


@pytest.mark.parametrize("name", ["inner", "cosine", *TOYS])
def test_registered_similarities_keep_the_contract(name):
    check_similarity(build_similarity(name, 3), 3)
