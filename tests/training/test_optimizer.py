"""Gradient steps: those of torch's AdamW, and a state that only the same weights take back."""

import math
from itertools import count, pairwise

import pytest
import torch
from torch import nn

from pmvge.distributed import World
from pmvge.errors import DivergedError
from pmvge.likelihoods import Loss
from pmvge.training.optimizer import Descent

DECAY = 0.1


def network(*sizes: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes)))


def descent(net: nn.Module, *, clip_norm: float | None = None, times: float = 1.0) -> Descent:
    def loss(batch: torch.Tensor) -> Loss:
        return Loss(times * net(batch).square().mean(), {})

    return Descent(net, loss, World(), lazy=(), weight_decay=DECAY, clip_norm=clip_norm)


def state(of: Descent) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """As ``restore`` takes it."""
    parts = {"adam": {}, "lazy": {}}
    for name, tensor in of.state().items():
        part, _, rest = name.partition(".")
        parts[part][rest] = tensor
    return parts["adam"], parts["lazy"]


@pytest.mark.parametrize("clip_norm", [None, 1e-3])
def test_steps_are_those_of_adamw(clip_norm):
    ours, theirs = network(3, 4, 2), network(3, 4, 2)
    weights = [p for p in theirs.parameters() if p.ndim > 1]
    biases = [p for p in theirs.parameters() if p.ndim == 1]
    groups = [{"params": weights, "weight_decay": DECAY}, {"params": biases, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups)
    steps = descent(ours, clip_norm=clip_norm)
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
        assert steps.step(X, rate, number) == pytest.approx(float(expected.detach()), rel=1e-4)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_what_goes_on_from_a_state_is_what_never_stopped():
    whole, first = (descent(network(3, 2)) for _ in range(2))
    batches = torch.randn(10, 5, 3)
    for number, X in zip(count(1), batches):
        whole.step(X, 0.1, number)
    for number, X in zip(count(1), batches[:4]):
        first.step(X, 0.1, number)
    net = network(3, 2)
    with torch.no_grad():
        for new, old in zip(net.parameters(), first.parameters, strict=True):
            new.copy_(old)
    second = descent(net)
    second.restore(*state(first))
    for number, X in zip(count(5), batches[4:]):
        second.step(X, 0.1, number)
    for mine, other in zip(second.parameters, whole.parameters, strict=True):
        assert torch.equal(mine, other)


def test_a_state_of_other_weights_is_refused():
    made = descent(network(3, 2))
    made.step(torch.randn(5, 3), 0.1, 1)
    adam, lazy = state(made)
    with pytest.raises(ValueError, match="the moments of weights 0 have another shape"):
        descent(network(4, 2)).restore(adam, lazy)
    with pytest.raises(ValueError, match="expected 0 tables by row, got 1"):
        descent(network(3, 2)).restore(adam, {"0.moved": torch.zeros(1)})


@pytest.mark.parametrize(("times", "told"), [(math.inf, "loss is inf"), (1e38, "gradient is inf")])
def test_a_divergence_is_told_before_it_does_harm(times, told):
    net = network(3, 2)
    before = [p.clone() for p in net.parameters()]
    X = torch.ones(5, 3) * (1.0 if math.isinf(times) else 1.5)
    with pytest.raises(DivergedError, match=rf"diverged at step 7: the {told}, with learning rate"):
        descent(net, times=times).step(X, 0.25, 7)
    for old, new in zip(before, net.parameters(), strict=True):
        assert torch.equal(old, new)


def test_a_network_of_fixed_weights_has_nothing_to_learn():
    net = network(3, 2)
    assert not descent(net).idle
    assert descent(net.requires_grad_(False)).idle
