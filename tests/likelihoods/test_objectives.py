"""Losses of batches and their gradients, compared with autograd and the exact likelihood."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph
from pmvge.likelihoods import BlockObjective, PairObjective, log_partition, profile_log_likelihood
from pmvge.likelihoods.block_partition import log_block_partition
from pmvge.sampling import BlockSampler, PairSampler
from pmvge.similarities import Inner
from pmvge.similarities.biased import Biased

PAIRS = {
    "cross-view": ("a", "b"),
    "within": ("a", "a"),
    "all of one view": ("a", "c"),
    "all of one view, within": ("c", "c"),
}


def graph_of(pair: tuple[str, str]) -> MultiViewGraph:
    rng = np.random.default_rng(0)
    sizes = {"a": 40, "b": 30, "c": 6}
    W = rng.poisson(0.3, (sizes[pair[0]], sizes[pair[1]])) * 1.5
    return MultiViewGraph(sizes, {pair: np.triu(W, 1) if pair[0] == pair[1] else W})


def embeddings(graph: MultiViewGraph, scale: float = 0.5) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        view: (scale * torch.randn(n, 3, dtype=torch.float64, generator=generator)).requires_grad_()
        for view, n in graph.sizes.items()
    }


def embedded(batch, Y: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return [Y[view][torch.from_numpy(entities)] for view, entities in batch.inputs]


def block_loss(graph, sampler, Y):
    batch = next(iter(sampler))
    return BlockObjective(graph)(batch, embedded(batch, Y))


def plain_log_partition(left, right, batch) -> torch.Tensor:
    """LinkBatch's formula in torch operations with autograd."""
    cells = left @ right.T
    cells = cells + torch.from_numpy(batch.left.log_weight).to(left)[:, None]
    cells = cells + torch.from_numpy(batch.right.log_weight).to(left)
    corner = torch.zeros_like(cells)
    corner[: batch.corner, : batch.corner] = math.log(batch.corner_weight)
    mask = torch.zeros_like(cells)
    mask[tuple(map(torch.from_numpy, batch.masked))] = -math.inf
    return torch.logsumexp((cells + corner + mask).ravel(), 0) + math.log(batch.factor)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_the_kernel_and_its_gradient_are_those_of_autograd(pair):
    graph = graph_of(pair)
    Y = embeddings(graph)
    sampler = BlockSampler(graph, n_links=8, n_uniform=4, rng=np.random.default_rng(0))
    batch = next(iter(sampler))
    sides = [
        Y[view][torch.from_numpy(side.entities)].detach().requires_grad_()
        for view, side in zip(pair, (batch.left, batch.right), strict=True)
    ]
    ours = log_block_partition(*sides, batch)
    ours_gradient = torch.autograd.grad(ours, sides)
    plain = plain_log_partition(*sides, batch)
    plain_gradient = torch.autograd.grad(plain, sides)
    assert ours.item() == pytest.approx(plain.item(), rel=1e-12)
    for mine, other in zip(ours_gradient, plain_gradient, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
@pytest.mark.parametrize("spread", [1.0, 60.0, 300.0], ids=["near", "far", "very far"])
def test_biases_have_the_sum_and_gradient_of_two_more_coordinates(pair, spread):
    """Also where the largest biases are far from the largest inner products."""
    graph = graph_of(pair)
    batch = next(iter(BlockSampler(graph, n_links=8, n_uniform=4, rng=np.random.default_rng(0))))
    generator = torch.Generator().manual_seed(0)

    def outputs(n: int) -> torch.Tensor:
        y = torch.randn(n, 4, dtype=torch.float64, generator=generator)
        y[:, 0] += torch.linspace(-spread, spread, n) / 6  # a large product has small biases
        y[:, 3] -= 2 * spread * torch.linspace(-1, 1, n)
        return y.requires_grad_()

    n_left, n_right = len(batch.left.entities), len(batch.right.entities)
    sides = outputs(n_left), outputs(n_right)
    similarity = Biased(Inner(), 3, 3, 3)
    factors = similarity.query(sides[0]), similarity.candidate(sides[1])
    ours = log_block_partition(*factors, batch, similarity)
    plain = plain_log_partition(*factors, batch)
    assert ours.item() == pytest.approx(plain.item(), rel=1e-12)
    ours_gradient = torch.autograd.grad(ours, sides, retain_graph=True)
    for mine, other in zip(ours_gradient, torch.autograd.grad(plain, sides), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_a_loss_does_not_change_its_batch(pair):
    """In float32, where tensors share memory with the arrays of the batch."""
    graph = graph_of(pair)
    Y = {view: y.detach().float() for view, y in embeddings(graph).items()}
    sampler = BlockSampler(graph, n_links=8, n_uniform=4, rng=np.random.default_rng(0))
    batch = next(iter(sampler))
    before = copy.deepcopy(batch)
    BlockObjective(graph)(batch, embedded(batch, Y))
    for side, was in ((batch.left, before.left), (batch.right, before.right)):
        np.testing.assert_array_equal(side.log_weight, was.log_weight)
        np.testing.assert_array_equal(side.entities, was.entities)


def test_a_whole_batch_is_the_profile_likelihood():
    """With all entities and links, -loss is l_p / W up to the constants of the docstring."""
    for pair in PAIRS.values():
        graph = graph_of(pair)
        Y = embeddings(graph)
        sampler = BlockSampler(graph, n_links=10**6, n_uniform=1, rng=np.random.default_rng(0))
        loss = block_loss(graph, sampler, Y).value
        links = graph.links[pair]
        plain = {view: y.detach().numpy() for view, y in Y.items()}
        profile = profile_log_likelihood(graph, plain)[pair]
        constant = math.log(links.total) - 1 - math.log(links.n_terms)
        assert -loss.item() == pytest.approx(profile / links.total - constant, rel=1e-6)


def test_the_loss_is_zero_at_zero_similarity():
    graph = graph_of(("c", "c"))
    Y = {view: torch.zeros(n, 3, dtype=torch.float64) for view, n in graph.sizes.items()}
    sampler = BlockSampler(graph, n_links=100, n_uniform=1, rng=np.random.default_rng(0))
    loss = block_loss(graph, sampler, Y).value
    assert loss.item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1e3, 1e9])
def test_extreme_similarities_give_finite_losses_and_gradients(scale):
    graph = graph_of(("a", "b"))
    Y = {
        view: y.detach().float().mul(scale).requires_grad_()
        for view, y in embeddings(graph).items()
    }
    sampler = BlockSampler(graph, n_links=8, n_uniform=8, rng=np.random.default_rng(0))
    loss = block_loss(graph, sampler, Y)
    loss.value.backward()
    assert math.isfinite(loss.value.item())
    assert all(Y[view].grad.isfinite().all() for view in ("a", "b"))


def test_largest_similarity_and_its_pair():
    graph = graph_of(("a", "b"))
    Y = embeddings(graph)
    sampler = BlockSampler(graph, n_links=100, n_uniform=100, rng=np.random.default_rng(0))
    loss = block_loss(graph, sampler, Y)
    largest = (Y["a"] @ Y["b"].T).abs().max().item()
    assert loss.largest_similarity() == (("a", "b"), pytest.approx(largest))

    graph = two_pairs()
    Y = embeddings(graph)
    Y["b"] = Y["b"] * math.nan
    batch = next(iter(PairSampler(graph, m=30, r=2, tau=1.0, rng=np.random.default_rng(0))))
    pair, value = PairObjective(graph)(batch, embedded(batch, Y)).largest_similarity()
    assert pair == ("a", "b")
    assert math.isnan(value)


# -- the paper's scheme ---------------------------------------------------------------------


def two_pairs() -> MultiViewGraph:
    rng = np.random.default_rng(0)
    return MultiViewGraph(
        {"a": 12, "b": 9},
        {
            ("a", "b"): rng.poisson(0.3, (12, 9)),
            ("a", "a"): np.triu(2.0 * rng.poisson(0.3, (12, 12)), 1),
        },
    )


def test_pair_loss_is_the_papers_formula():
    graph = two_pairs()
    Y = embeddings(graph)
    batch = next(iter(PairSampler(graph, m=30, r=2, tau=1.7, rng=np.random.default_rng(0))))
    objective = PairObjective(graph)
    alpha = {("a", "a"): 0.3, ("a", "b"): 0.7}
    objective.log_alpha = {pair: math.log(value) for pair, value in alpha.items()}
    expected, n_links = 0.0, 0
    for (d, e), (rows, cols, weights) in batch.links.items():
        for i, j, w in zip(rows, cols, weights.tolist(), strict=True):
            expected -= w * (math.log(alpha[d, e]) + (Y[d][i] @ Y[e][j]).item())
            n_links += 1
    for (d, e), (rows, cols) in batch.uniform.items():
        for i, j in zip(rows, cols, strict=True):
            expected += 1.7 * alpha[d, e] * math.exp((Y[d][i] @ Y[e][j]).item())
    assert n_links == 10
    loss = objective(batch, embedded(batch, Y)).value.item()
    assert loss == pytest.approx(expected / n_links, rel=1e-7)


def test_the_paper_scheme_encodes_each_entity_once():
    graph = two_pairs()
    batch = next(iter(PairSampler(graph, m=300, r=2, tau=1.0, rng=np.random.default_rng(0))))
    inputs = dict(batch.inputs)
    assert len(inputs) == len(batch.inputs)
    assert inputs["a"].tolist() == list(range(12))  # each is drawn many times
    assert inputs["b"].tolist() == list(range(9))


def test_the_first_loss_uses_alpha_of_its_own_batch():
    """Alpha of g = 0 may be far off for a wide network."""
    graph = two_pairs()
    Y = embeddings(graph, scale=3.0)
    batch = next(iter(PairSampler(graph, m=300, r=2, tau=None, rng=np.random.default_rng(0))))
    first = PairObjective(graph)
    loss = first(batch, embedded(batch, Y)).value.item()
    second = PairObjective(graph)
    second.log_alpha = dict(first.log_alpha)
    assert second(batch, embedded(batch, Y)).value.item() == pytest.approx(loss)
    assert abs(loss) < 50


def test_alpha_moves_to_its_closed_form_on_the_batch():
    """With the numerator replaced by its expectation |I'| W / |I|."""
    graph = two_pairs()
    Y = embeddings(graph)
    batch = next(iter(PairSampler(graph, m=30, r=2, tau=None, rng=np.random.default_rng(0))))
    objective = PairObjective(graph)
    objective(batch, embedded(batch, Y))
    for (d, e), (rows, cols) in batch.uniform.items():
        mass = sum(math.exp((Y[d][i] @ Y[e][j]).item()) for i, j in zip(rows, cols, strict=True))
        links = graph.links[d, e]
        expected = len(rows) * links.total / links.n_terms / mass
        assert math.exp(objective.log_alpha[d, e]) == pytest.approx(expected, rel=1e-7)


def test_alternating_alpha_settles_near_the_exact_one():
    graph = two_pairs()
    Y = embeddings(graph)
    objective = PairObjective(graph)
    batches = iter(PairSampler(graph, m=4000, r=100, tau=None, rng=np.random.default_rng(0)))
    batch = next(batches)
    objective(batch, embedded(batch, Y))
    plain = {view: y.detach().numpy() for view, y in Y.items()}
    for (d, e), links in graph.links.items():
        exact = math.log(links.total) - log_partition(plain[d], None if d == e else plain[e])
        assert objective.log_alpha[d, e] == pytest.approx(exact, abs=0.05)


def test_state_survives_a_round_trip():
    graph = two_pairs()
    objective = PairObjective(graph)
    batch = next(iter(PairSampler(graph, m=30, r=2, tau=None, rng=np.random.default_rng(0))))
    objective(batch, embedded(batch, embeddings(graph)))
    other = PairObjective(graph)
    assert other.log_alpha != objective.log_alpha
    other.restore(objective.state())
    assert other.log_alpha == objective.log_alpha
