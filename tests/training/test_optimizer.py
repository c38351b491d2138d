"""Gradient steps equal torch's AdamW; a state is restored for the same weights only."""

import math
from itertools import count, pairwise

import pytest
import torch
from torch import nn

from pmvge.distributed import World
from pmvge.errors import DivergedError
from pmvge.likelihoods import Loss
from pmvge.training.optimizer import NetworkOptimizer

DECAY = 0.1


def network(*sizes: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes)))


def optimizer(
    net: nn.Module, *, clip_norm: float | None = None, times: float = 1.0
) -> NetworkOptimizer:
    def loss(batch: torch.Tensor) -> Loss:
        return Loss(times * net(batch).square().mean(), {})

    return NetworkOptimizer(net, loss, World(), lazy=(), weight_decay=DECAY, clip_norm=clip_norm)


def state(of: NetworkOptimizer) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The state in the form that ``restore`` takes."""
    parts = {"adam": {}, "lazy": {}}
    for name, tensor in of.state().items():
        part, _, rest = name.partition(".")
        parts[part][rest] = tensor
    return parts["adam"], parts["lazy"]


@pytest.mark.parametrize("clip_norm", [None, 1e-3])
def test_steps_equal_adamw(clip_norm):
    ours, theirs = network(3, 4, 2), network(3, 4, 2)
    weights = [p for p in theirs.parameters() if p.ndim > 1]
    biases = [p for p in theirs.parameters() if p.ndim == 1]
    groups = [{"params": weights, "weight_decay": DECAY}, {"params": biases, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups)
    made = optimizer(ours, clip_norm=clip_norm)
    for number in range(1, 20):
        X, rate = torch.randn(5, 3), 0.1 / number
        for group in adam.param_groups:
            group["lr"] = rate
        adam.zero_grad()
        expected = theirs(X).square().mean()
        expected.backward()
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(theirs.parameters(), clip_norm)
        adam.step()
        assert made.step(X, rate, number) == pytest.approx(float(expected.detach()), rel=1e-4)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_restoring_a_state_continues_with_the_same_bits():
    expected, first = (optimizer(network(3, 2)) for _ in range(2))
    batches = torch.randn(10, 5, 3)
    for number, X in zip(count(1), batches):
        expected.step(X, 0.1, number)
    for number, X in zip(count(1), batches[:4]):
        first.step(X, 0.1, number)
    net = network(3, 2)
    with torch.no_grad():
        for new, old in zip(net.parameters(), first.parameters, strict=True):
            new.copy_(old)
    second = optimizer(net)
    second.restore(*state(first))
    for number, X in zip(count(5), batches[4:]):
        second.step(X, 0.1, number)
    for mine, other in zip(second.parameters, expected.parameters, strict=True):
        assert torch.equal(mine, other)


def test_a_state_of_other_weights_is_refused():
    made = optimizer(network(3, 2))
    made.step(torch.randn(5, 3), 0.1, 1)
    adam, lazy = state(made)
    with pytest.raises(
        ValueError, match=r"moments of weight 0: expected shape \(2, 4\), got \(2, 3\)"
    ):
        optimizer(network(4, 2)).restore(adam, lazy)
    with pytest.raises(ValueError, match="expected 0 lazily updated weights, got 1"):
        optimizer(network(3, 2)).restore(adam, {"0.moved": torch.zeros(1)})


@pytest.mark.parametrize(("times", "what"), [(math.inf, "loss is inf"), (1e38, "gradient is inf")])
def test_divergence_is_raised_before_weights_change(times, what):
    net = network(3, 2)
    before = [p.clone() for p in net.parameters()]
    X = torch.ones(5, 3) * (1.0 if math.isinf(times) else 1.5)
    with pytest.raises(DivergedError, match=rf"diverged at step 7: the {what}, with learning rate"):
        optimizer(net, times=times).step(X, 0.25, 7)
    for old, new in zip(before, net.parameters(), strict=True):
        assert torch.equal(old, new)


def test_a_network_of_fixed_weights_is_empty():
    net = network(3, 2)
    assert not optimizer(net).is_empty
    assert optimizer(net.requires_grad_(False)).is_empty
