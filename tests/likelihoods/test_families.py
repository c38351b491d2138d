"""Families against double loops and scipy's optimizers.

Three have only ``zero`` and ``at_link``; Bernoulli and negative binomial have sums of their own.
"""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import optimize, special
from torch import nn

from pmvge import MultiViewGraph, PMvGE
from pmvge.distributed import SINGLE_PROCESS, Shards
from pmvge.evaluation import evaluate_links
from pmvge.likelihoods import (
    POISSON,
    Bernoulli,
    BlockObjective,
    Family,
    Logistic,
    NegativeBinomial,
    TrainedGraph,
    expected_weight,
    intensity,
    log_likelihood,
)
from pmvge.likelihoods import alpha as alpha_module
from pmvge.likelihoods.terms import solve
from pmvge.sampling import BlockSampler


class Linked(Family):
    """w is 0 or 1: linked with probability 1 - exp(-mu)."""

    def zero(self, eta, pair):
        return -eta.exp()

    def at_link(self, w, eta, pair):
        return torch.log(-torch.expm1(-eta.exp()))

    def expected(self, eta):
        return -torch.expm1(-eta.exp())

    def saturated(self, w, pair):
        return torch.zeros_like(w)


class Dispersed(Family):
    """Negative binomial counts of mean mu, with a learned log size for each view pair."""

    def __init__(self, pairs=()):
        super().__init__(pairs)
        self.log_size = nn.Parameter(torch.linspace(-0.5, 1.0, len(self.pairs)))

    def _size(self, pair):
        return self.log_size[self.index[pair]].exp()

    def zero(self, eta, pair):
        r = self._size(pair)
        return -r * torch.log1p(eta.exp() / r)

    def at_link(self, w, eta, pair):
        r = self._size(pair)
        log_total = torch.log(r + eta.exp())
        constant = torch.lgamma(w + r) - torch.lgamma(r)
        return constant + r * (r.log() - log_total) + w * (eta - log_total)


def negative_binomial(pairs=()):
    """The package's family, with another dispersion for each view pair."""
    family = NegativeBinomial(pairs)
    with torch.no_grad():
        family.theta.copy_(torch.linspace(-0.05, 0.1, len(family.pairs)))
    return family


class PlainPoisson(Family):
    """The Poisson family without its closed forms."""

    measure = "weight"

    def zero(self, eta, pair):
        return -eta.exp()

    def at_link(self, w, eta, pair):
        return w * eta - eta.exp()


def log_probability(family, pair, w, eta):
    """The families again, for one weight and in plain Python."""
    mu = math.exp(eta)
    if isinstance(family, Linked | Bernoulli):
        return -mu if w == 0 else math.log(1 - math.exp(-mu))
    if isinstance(family, Logistic):
        return w * eta - math.log(1 + mu)
    if isinstance(family, PlainPoisson):
        return w * eta - mu
    if isinstance(family, NegativeBinomial):
        r = math.exp(10 * float(family.theta.detach()[family.pairs.index(pair)]))
    else:
        r = math.exp(float(family.log_size.detach()[family.pairs.index(pair)]))
    log_choose = special.gammaln(w + r) - special.gammaln(r)
    return log_choose + r * math.log(r / (r + mu)) + w * math.log(mu / (r + mu))


PAIRS = {
    "cross-view": ("a", "b"),
    "within": ("a", "a"),
    "all of one view": ("a", "c"),
    "all of one view, within": ("c", "c"),
    "all of both views": ("c", "d"),
}
SIZES = {"a": 30, "b": 25, "c": 6, "d": 5}
FAMILIES = {
    "linked": Linked,
    "dispersed": Dispersed,
    "poisson": PlainPoisson,
    "bernoulli": Bernoulli,
    "logistic": Logistic,
    "negative_binomial": negative_binomial,
}
BINARY = ("linked", "bernoulli", "logistic")
families = pytest.mark.parametrize("name", FAMILIES)
pairs = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())


def graph_of(name, *pairs, seed=0, rate=0.3):
    rng = np.random.default_rng(seed)
    links = {}
    for a, b in pairs:
        W = rng.poisson(rate, (SIZES[a], SIZES[b])).astype(float)
        W = np.minimum(W, 1) if name in BINARY else 2 * W
        links[a, b] = np.triu(W, 1) if a == b else W
    return MultiViewGraph(SIZES, links)


def vectors(scale=0.5, seed=1):
    rng = np.random.default_rng(seed)
    return {view: scale * rng.normal(size=(n, 3)) for view, n in SIZES.items()}


def entity_pairs(pair):
    a, b = pair
    return [(i, j) for i in range(SIZES[a]) for j in range(SIZES[b]) if a != b or i < j]


def pair_log_likelihood(family, pair, W, Y, log_alpha):
    """The double loop; Y = None is a model with g = 0."""
    a, b = pair
    total = 0.0
    for i, j in entity_pairs(pair):
        g = 0.0 if Y is None else float(np.dot(Y[a][i], Y[b][j]))
        total += log_probability(family, pair, W[i, j], log_alpha + g)
    return total


def maximum(function, around=0.0):
    """The largest value of a function of log alpha, and where."""
    found = optimize.minimize_scalar(
        lambda a: -function(a), bounds=(around - 15, around + 15), options={"xatol": 1e-10}
    )
    return -found.fun, found.x


def measure_of(family, links):
    return links.total if family.measure == "weight" else len(links)


# -- blocks -----------------------------------------------------------------------------------


def batch_of(graph, family, n_links=8, n_uniform=4):
    rng = np.random.default_rng(0)
    sampler = BlockSampler(
        graph, n_links=n_links, n_uniform=n_uniform, rng=rng, measure=family.measure
    )
    return next(iter(sampler))


def block_log_likelihood(family, batch, Y, links, log_alpha):
    """The estimate by the formulas of LinkBatch, cell by cell, per unit of measure."""
    a, b = batch.pair
    masked = set(zip(*(index.tolist() for index in batch.masked), strict=True))
    zeros = 0.0
    for s, i in enumerate(batch.left.entities):
        for t, j in enumerate(batch.right.entities):
            if (s, t) in masked:
                continue
            corner = batch.corner_weight if max(s, t) < batch.corner else 1.0
            weight = math.exp(float(batch.left.log_weight[s]) + float(batch.right.log_weight[t]))
            eta = log_alpha + float(np.dot(Y[a][i], Y[b][j]))
            zeros += corner * weight * log_probability(family, batch.pair, 0.0, eta)
    at_links = 0.0
    all_links = max(links.shape) <= 12 and len(links) <= 8  # see batch_of
    for s, t, w in zip(batch.left.links, batch.right.links, batch.weights, strict=True):
        eta = log_alpha + float(
            np.dot(Y[a][batch.left.entities[s]], Y[b][batch.right.entities[t]])
        )  # fmt: skip
        excess = log_probability(family, batch.pair, w, eta)
        excess -= log_probability(family, batch.pair, 0.0, eta)
        density = (w if family.measure == "weight" else 1) / measure_of(family, links)
        at_links += excess / (1 if all_links else len(batch.weights) * density)
    return (batch.factor * zeros + at_links) / measure_of(family, links)


def loss_of(graph, family, batch, Y):
    y = [torch.from_numpy(Y[view][entities]) for view, entities in batch.inputs]
    return BlockObjective(graph, family=family)(batch, y).value.detach()


@families
@pairs
def test_the_loss_of_a_block_is_the_double_loop_at_its_best_alpha(name, pair):
    graph, Y = graph_of(name, pair), vectors()
    family, links = FAMILIES[name](tuple(graph.links)), graph.links[pair]
    batch = batch_of(graph, family)
    best, _ = maximum(lambda a: block_log_likelihood(family, batch, Y, links, a))
    W = links.matrix().toarray()
    constant, _ = maximum(lambda a: pair_log_likelihood(family, pair, W, None, a))
    expected = constant / measure_of(family, links) - best
    assert float(loss_of(graph, family, batch, Y)) == pytest.approx(expected, rel=1e-5, abs=1e-5)


@families
def test_the_gradient_of_the_loss_is_that_of_the_maximum_over_alpha(name):
    graph, Y = graph_of(name, ("a", "b")), vectors()
    family = FAMILIES[name](tuple(graph.links))
    batch = batch_of(graph, family)
    y = [torch.from_numpy(Y[v][e]).requires_grad_() for v, e in batch.inputs]
    objective = BlockObjective(graph, family=family)
    objective(batch, y).value.backward()
    step = 1e-2
    for row, column in ((0, 0), (5, 2), (11, 1)):
        values = []
        for shift in (-step, step):
            moved = [part.detach().clone() for part in y]
            moved[0][row, column] += shift
            values.append(float(objective(batch, moved).value.detach()))
        slope = (values[1] - values[0]) / (2 * step)
        assert float(y[0].grad[row, column]) == pytest.approx(slope, rel=2e-3, abs=2e-5)


@families
@pairs
def test_the_loss_is_zero_at_zero_similarity(name, pair):
    graph = graph_of(name, pair)
    family = FAMILIES[name](tuple(graph.links))
    batch = batch_of(graph, family, n_links=10**4)
    Y = {view: np.zeros((n, 2)) for view, n in SIZES.items()}
    assert float(loss_of(graph, family, batch, Y)) == pytest.approx(0, abs=1e-6)


@pairs
def test_without_closed_forms_the_poisson_loss_is_the_same(pair):
    graph, Y = graph_of("poisson", pair), vectors()
    batch = batch_of(graph, POISSON)
    expected = float(loss_of(graph, POISSON, batch, Y))
    found = float(loss_of(graph, PlainPoisson(), batch, Y))
    assert found == pytest.approx(expected, rel=1e-6)


@families
@pytest.mark.parametrize("scale", [1e-6, 3.0])
def test_losses_and_gradients_are_finite_in_float32(name, scale):
    graph, Y = graph_of(name, ("a", "a")), vectors(scale)
    family = FAMILIES[name](tuple(graph.links))
    batch = batch_of(graph, family)
    y = [torch.from_numpy(Y[v][e]).float().requires_grad_() for v, e in batch.inputs]
    loss = BlockObjective(graph, family=family)(batch, y).value
    loss.backward()
    assert bool(loss.isfinite())
    assert all(bool(part.grad.isfinite().all()) for part in y)


def test_each_view_pair_learns_its_own_parameter():
    graph, Y = graph_of("dispersed", ("a", "b"), ("a", "a")), vectors()
    family = Dispersed(tuple(graph.links))
    objective = BlockObjective(graph, family=family)
    for batch in BlockSampler(
        graph, n_links=8, n_uniform=8, rng=np.random.default_rng(0), measure="uniform"
    ).each_pair():
        family.zero_grad()
        y = [torch.from_numpy(Y[view][entities]) for view, entities in batch.inputs]
        objective(batch, y).value.backward()
        moved = family.log_size.grad.numpy() != 0
        assert moved.tolist() == [pair == batch.pair for pair in graph.links]


def test_a_share_of_the_links_has_the_likelihood_of_all():
    """Each of two processes draws half of the links; unlinked pairs count once for both."""
    graph, Y = graph_of("linked", ("c", "d"), rate=2.0), vectors()
    family, links = Linked(tuple(graph.links)), graph.links["c", "d"]
    losses = []
    for rank in range(2):
        share = graph.with_links({("c", "d"): links.select(np.arange(rank, len(links), 2))})
        batch = batch_of(share, family, n_links=len(links))
        losses.append(float(loss_of(graph, family, batch, Y)))
    # Each loss is a maximum over alpha of its own, so the mean is at least as good.
    whole = float(loss_of(graph, family, batch_of(graph, family, n_links=len(links)), Y))
    assert np.mean(losses) == pytest.approx(whole, abs=0.05)
    assert np.mean(losses) <= whole + 1e-6


# -- alpha ------------------------------------------------------------------------------------


def trained_graph(name, pair):
    """Half of the links are training links, the others validation links."""
    graph = graph_of(name, pair)
    links = graph.links[pair]
    part = np.arange(len(links)) % 2 == 0
    Y = vectors()
    training, validation = (graph.with_links({pair: links.select(k)}) for k in (part, ~part))
    return graph, TrainedGraph(training, validation, Y, Y)


def fit(family, trained, seed=0):
    return family.fit_alphas(trained, np.random.default_rng(seed))


@families
@pairs
def test_alpha_is_the_maximum_over_training_and_validation_links(name, pair):
    graph, trained = trained_graph(name, pair)
    family = FAMILIES[name](tuple(graph.links))
    W = graph.links[pair].matrix().toarray()
    _, best = maximum(lambda a: pair_log_likelihood(family, pair, W, trained.own, a))
    found = fit(family, trained)[pair]
    assert found.value == pytest.approx(best, abs=1e-5)
    assert found.standard_error == 0
    assert found.weight == pytest.approx(graph.links[pair].total)


def test_without_closed_forms_alpha_of_poisson_is_the_same():
    _, trained = trained_graph("poisson", ("a", "b"))
    assert fit(PlainPoisson(), trained)["a", "b"].value == pytest.approx(
        fit(POISSON, trained)["a", "b"].value, abs=1e-9
    )


def test_a_pair_without_links_has_alpha_zero():
    graph = graph_of("linked", ("a", "b"))
    empty = graph.with_links({("a", "b"): graph.links["a", "b"].select(np.arange(0))})
    Y = vectors()
    assert fit(Linked(), TrainedGraph(empty, None, Y, Y))["a", "b"].value == -math.inf


@pytest.mark.parametrize("pair", [("a", "b"), ("a", "a")])
def test_alpha_of_many_pairs_is_estimated_with_its_error(pair, monkeypatch):
    graph, trained = trained_graph("linked", pair)
    family = Linked(tuple(graph.links))
    exact = fit(family, trained)[pair].value
    monkeypatch.setattr(alpha_module, "EXACT_TERMS", 10)
    whole = fit(family, trained)[pair]
    assert whole.value == pytest.approx(exact, abs=1e-6)  # blocks of all entities
    assert whole.standard_error == pytest.approx(0, abs=1e-6)
    monkeypatch.setattr(alpha_module, "BLOCK_SIZE", 6)
    gaps = []
    for seed in range(30):
        found = fit(family, trained, seed)[pair]
        assert 0.01 < found.standard_error < 0.5
        gaps.append((found.value - exact) / found.standard_error)
    assert abs(np.mean(gaps)) < 4 / math.sqrt(30) + 0.2  # log alpha is consistent, not unbiased
    assert 0.5 < np.std(gaps) < 2


class ThreadWorld:
    """Processes that are threads: sums of numbers over all of them."""

    def __init__(self, rank, size, barrier, slots):
        self.rank, self.size, self.barrier, self.slots = rank, size, barrier, slots

    def total(self, value):
        self.slots[self.rank] = value
        self.barrier.wait()
        total = sum(self.slots)
        self.barrier.wait()
        return total

    def mean(self, value):
        return self.total(value) / self.size


def fit_in_threads(family, graphs, own, gathered, split_views):
    barrier, slots = threading.Barrier(len(graphs), timeout=20), [0.0] * len(graphs)

    def run(rank):
        world = ThreadWorld(rank, len(graphs), barrier, slots)
        shards = Shards(world, sharded=True, split_views=frozenset(split_views))
        trained = TrainedGraph(graphs[rank], None, own[rank], gathered, shards=shards)
        return fit(family, trained, seed=rank)

    with ThreadPoolExecutor(len(graphs)) as threads:
        return list(threads.map(run, range(len(graphs))))


@pytest.mark.parametrize("exact_terms", [10**6, 10])
def test_processes_with_shares_of_the_links_find_the_same_alpha(exact_terms, monkeypatch):
    monkeypatch.setattr(alpha_module, "EXACT_TERMS", exact_terms)
    graph, Y = graph_of("linked", ("a", "b")), vectors()
    family, links = Linked(tuple(graph.links)), graph.links["a", "b"]
    alone = fit(family, TrainedGraph(graph, None, Y, Y, shards=SINGLE_PROCESS))["a", "b"]
    shares = [
        graph.with_links({("a", "b"): links.select(np.arange(rank, len(links), 2))})
        for rank in range(2)
    ]
    for found in fit_in_threads(family, shares, [Y, Y], Y, ()):
        assert found["a", "b"].value == pytest.approx(alone.value, abs=1e-6)
        assert found["a", "b"].weight == links.total


def test_processes_agree_on_an_estimate(monkeypatch):
    """Each process draws blocks of its own entities and links; their mean estimates the sum."""
    graph, Y = graph_of("linked", ("a", "b"), rate=1.0), vectors()
    family = Linked(tuple(graph.links))
    exact = fit(family, TrainedGraph(graph, None, Y, Y))["a", "b"].value
    monkeypatch.setattr(alpha_module, "EXACT_TERMS", 10)
    monkeypatch.setattr(alpha_module, "BLOCK_SIZE", 4)
    parts = [np.arange(0, 30, 2), np.arange(1, 30, 2)]
    own = [{**Y, "a": Y["a"][rows]} for rows in parts]
    first, second = fit_in_threads(
        family, [graph.subgraph({"a": rows}) for rows in parts], own, Y, ("a",)
    )
    assert first == second
    found = first["a", "b"]
    assert 0.001 < found.standard_error < 0.3
    assert abs(found.value - exact) < 4 * found.standard_error


def test_processes_with_entities_of_their_own_sum_over_the_pairs_of_all():
    """Rows of view a are split: pairs of all rows count, links are those of both processes."""
    graph, Y = graph_of("linked", ("a", "b")), vectors()
    family = Linked(tuple(graph.links))
    alone = fit(family, TrainedGraph(graph, None, Y, Y))["a", "b"]
    parts = [np.arange(0, 12), np.arange(12, 30)]
    own = [{**Y, "a": Y["a"][rows]} for rows in parts]
    shards = [graph.subgraph({"a": rows}) for rows in parts]
    for found in fit_in_threads(family, shards, own, Y, ("a",)):
        assert found["a", "b"].value == pytest.approx(alone.value, abs=1e-6)


@pytest.mark.parametrize("root", [-40.0, -3.0, 0.0, 3.0, 40.0])
def test_the_solver_finds_distant_roots(root):
    def slope(x):
        with np.errstate(over="ignore", invalid="ignore"):
            value = 1 - np.exp(np.float64(2 * (x - root)))
        return float(value) if x - root < 5 else math.nan  # overflow

    assert solve(slope, 0.0, tolerance=1e-10) == pytest.approx(root, abs=1e-8)


def test_the_solver_stops_where_there_is_no_root():
    assert math.isfinite(solve(lambda x: math.exp(-x), 0.0, tolerance=1e-4))


# -- exact likelihood, expected weights, deviance ---------------------------------------------


@families
def test_the_exact_log_likelihood_is_the_double_loop(name):
    graph, Y = graph_of(name, ("a", "b"), ("c", "c")), vectors()
    family = FAMILIES[name](tuple(graph.links))
    log_alpha = {("a", "b"): -1.0, ("c", "c"): 0.3}
    calls = []
    found = log_likelihood(
        graph, Y, log_alpha, family=family, on_progress=lambda *call: calls.append(call)
    )
    for pair, links in graph.links.items():
        W = links.matrix().toarray()
        expected = pair_log_likelihood(family, pair, W, Y, log_alpha[pair])
        assert found[pair] == pytest.approx(expected, rel=1e-6)
    assert calls[-1][0] == calls[-1][1]


def test_expected_weights_are_those_of_the_family():
    Y = vectors()
    eta = Y["a"] @ Y["b"].T - 0.5
    mu = intensity(Y["a"], Y["b"], -0.5, family=Linked())
    np.testing.assert_allclose(mu, 1 - np.exp(-np.exp(eta)), rtol=1e-12)
    np.testing.assert_array_equal(
        expected_weight(eta, 0.0), expected_weight(eta, 0.0, PlainPoisson())
    )
    assert expected_weight(np.array([-np.inf, 5e3]), 0.0, Linked()).tolist() == [0, 1]


@families
def test_deviance_is_twice_the_loss_against_the_saturated_model(name):
    family = FAMILIES[name]((("a", "b"),))
    eta = torch.linspace(-4, 3, 8, dtype=torch.float64)
    weights = torch.tensor([0.0, 1.0] if name in BINARY else [0.0, 1.0, 2.0, 7.0]).double()
    for w in weights.tolist():
        saturated = 0.0
        if w:
            saturated, _ = maximum(lambda a, w=w: log_probability(family, ("a", "b"), w, a))
        found = family.deviance(torch.full_like(eta, w), eta, ("a", "b"))
        expected = [
            2 * (saturated - log_probability(family, ("a", "b"), w, value)) for value in eta
        ]
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-5, atol=1e-6)


@families
@pytest.mark.parametrize("pair", [("a", "b"), ("a", "a")])
def test_evaluation_uses_the_family(name, pair):
    graph = graph_of(name, pair, ("c", "d"))
    family, Y = FAMILIES[name](tuple(graph.links)), vectors()
    links = graph.links[pair]
    found = evaluate_links(
        Y[pair[0]], Y[pair[1]], links, log_alpha=-1.0, exposure=0.5, family=family, pair=pair
    )
    W = links.matrix().toarray()
    deviance = expected = 0.0
    for i, j in entity_pairs(pair):
        g = float(np.float32(Y[pair[0]][i]) @ np.float32(Y[pair[1]][j]))
        eta = torch.tensor(math.log(0.5) - 1 + g, dtype=torch.float64)
        w = torch.tensor(W[i, j])
        deviance += float(family.deviance(w, eta, pair).detach())
        expected += float(family.expected(eta))
    assert found["deviance"] == pytest.approx(deviance / len(entity_pairs(pair)), rel=1e-5)
    assert found["expected_over_observed"] == pytest.approx(expected / links.total, rel=1e-5)


def test_the_deviance_of_a_link_is_finite_where_mu_overflows():
    w, eta = torch.tensor([2.0]).double(), torch.tensor([900.0]).double()
    assert float(POISSON.link_deviance(w, eta, ("a", "b"))) == pytest.approx(
        4 * (math.log(2) - 901)
    )
    assert float(POISSON.excess(w, eta, ("a", "b"))) == 1800


def test_a_pair_is_found_in_either_order():
    family = Dispersed((("a", "b"), ("b", "b")))
    assert family.index == {("a", "b"): 0, ("b", "a"): 0, ("b", "b"): 1}


def test_bernoulli_blocks_with_certain_links_have_a_bounded_loss() -> None:
    """A drawn link has a large mu, and the other pairs of the block a small one."""
    rng = np.random.default_rng(0)
    Y, Y_other = rng.normal(size=(30, 5)) * 0.1, rng.normal(size=(40, 5)) * 0.1
    Y[:5], Y_other[:5] = 4 * np.eye(5), 4 * np.eye(5)
    W = np.zeros((30, 40))
    W[np.arange(5), np.arange(5)] = 1
    graph = MultiViewGraph({"a": Y, "b": Y_other}, {("a", "b"): W})
    module = {view: nn.Linear(5, 5, bias=False) for view in "ab"}
    for each in module.values():
        nn.init.eye_(each.weight)
    model = PMvGE(
        5,
        encoder=module,
        similarity="inner",
        family="bernoulli",
        effects="none",
        standardize=False,
        batch_size=2,
        max_steps=20,
        learning_rate=1e-6,
        patience=None,
        random_state=0,
        progress=False,
    ).fit(graph)
    assert np.abs([record.loss for record in model.history_]).max() < 1e3
