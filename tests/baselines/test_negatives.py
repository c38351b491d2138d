"""Negative sampling: frequencies of the draws, and the loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph
from pmvge.baselines.flattening import flatten
from pmvge.baselines.gradient import seeded, single_thread, train
from pmvge.baselines.negatives import LinkSampler, inner_product_loss, negative_sampling_loss

GRAPH = MultiViewGraph(
    {"a": 3, "b": 4},
    {
        ("a", "b"): ([0, 1, 2, 0], [0, 1, 2, 3], [1.0, 2.0, 4.0, 3.0]),
        ("a", "a"): ([0], [1], [10.0]),
    },
)


def test_links_are_drawn_by_weight_in_both_directions():
    batch = LinkSampler(flatten(GRAPH), 40_000, 1, np.random.default_rng(0)).draw()
    counts = np.zeros((7, 7))
    np.add.at(counts, (batch.heads, batch.tails), 1)
    want = np.zeros((7, 7))
    for i, j, w in ((0, 3, 1), (1, 4, 2), (2, 5, 4), (0, 6, 3), (0, 1, 10)):
        want[i, j] = want[j, i] = w / 40
    np.testing.assert_allclose(counts / 40_000, want, atol=0.01)


def test_negatives_are_of_the_tails_view_by_degree_to_the_power_three_quarters():
    flat = flatten(GRAPH)
    batch = LinkSampler(flat, 40_000, 2, np.random.default_rng(1)).draw()
    of_a = batch.tails < 3
    assert (batch.noise[of_a] < 3).all()
    assert (batch.noise[~of_a] >= 3).all()
    for part, drawn in ((slice(0, 3), batch.noise[of_a]), (slice(3, 7), batch.noise[~of_a])):
        frequency = flat.degrees[part] ** 0.75
        found = np.bincount(drawn.ravel(), minlength=7)[part] / drawn.size
        np.testing.assert_allclose(found, frequency / frequency.sum(), atol=0.01)


def test_the_loss_equals_its_formula():
    link, noise = torch.tensor([1.0, -2.0]), torch.tensor([[0.5, 0.0], [3.0, -1.0]])

    def log_sigmoid(x: float) -> float:
        return -np.log1p(np.exp(-x))

    rows = [(1.0, [0.5, 0.0]), (-2.0, [3.0, -1.0])]
    want = -np.mean([log_sigmoid(s) + sum(log_sigmoid(-k) for k in ks) for s, ks in rows])
    assert float(negative_sampling_loss(link, noise)) == pytest.approx(want, rel=1e-6)
    heads = torch.tensor([[1.0, 2.0]])
    value = inner_product_loss(heads, torch.tensor([[3.0, 1.0]]), torch.tensor([[[1.0, -1.0]]]))
    assert float(value) == pytest.approx(-(log_sigmoid(5) + log_sigmoid(1)), rel=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_weight_decay_and_steps_reach_the_optimiser(decay):
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    history = train(
        layer, iter(int, 1), lambda batch: 0 * layer.weight.sum(), steps=7, learning_rate=0.1,
        weight_decay=decay,
    )  # fmt: skip
    assert history[-1].step == 7
    assert float(layer.weight.detach()) == pytest.approx((1 - 0.1 * decay) ** 7)


def test_generators_and_threads_are_restored():
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    with seeded(3):
        first = torch.rand(2)
    with seeded(3), single_thread():
        assert torch.get_num_threads() == 1
        torch.testing.assert_close(torch.rand(2), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
