"""Gradient steps of a network: Adam on all weights, lazily on the rows of some."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pmvge.distributed import World
from pmvge.encoders import LazyRows
from pmvge.errors import DivergedError
from pmvge.likelihoods import Loss
from pmvge.training.adam import Adam, Group
from pmvge.training.checkpoints import Tensors
from pmvge.training.lazy_adam import LazyAdam

STABLE_SETTINGS = (
    "scheme='block', similarity='cosine' and standardize=True are the most stable settings"
)


class NetworkOptimizer:
    """The optimizer of a network; its state is the moments of the weights."""

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Any], Loss],
        world: World,
        *,
        lazy: Sequence[LazyRows],
        weight_decay: float,
        clip_norm: float | None,
    ) -> None:
        self.loss, self.world, self.clip_norm = loss, world, clip_norm
        self.lazy = [LazyAdam(m, weight_decay if m.decays else 0.0) for m in lazy]
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.special = _special_weights(network)
        self.adam = _adam(self.parameters, weight_decay, self.special)

    @property
    def is_empty(self) -> bool:
        """Whether there is no parameter to learn."""
        return not self.parameters and not self.lazy

    def step(self, batch: Any, rate: float, number: int) -> float:
        """Make gradient step ``number`` and return the loss before it.

        Raise DivergedError, before any weight changes, if the loss or a gradient is not finite.
        """
        self.adam.zero_grad()
        loss = self.loss(batch)
        total = loss.value if loss.penalty is None else loss.value + loss.penalty
        if total.requires_grad:  # False if all encoders of this view pair are fixed
            total.backward()
        row_gradients = [self._row_gradient(lazy) for lazy in self.lazy]
        norm = self._clip(row_gradients)
        value = float(loss.value.detach())
        if not math.isfinite(value + norm):
            problem = f"loss is {value}" if not math.isfinite(value) else f"gradient is {norm}"
            raise DivergedError(_divergence(number, problem, rate, loss))
        self.adam.step(rate)
        for lazy, row_gradient in zip(self.lazy, row_gradients, strict=True):
            if row_gradient is not None:  # as torch's Adam skips parameters without a gradient
                lazy.step(*row_gradient, rate * lazy.module.lr_multiplier)
        return value

    def _row_gradient(self, lazy: LazyAdam) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return the rows of a lazy weight that any process used, and their mean gradient."""
        own = lazy.gradient()
        if self.world.size == 1:
            return own
        rows, gradient = self.world.average_row_gradients(*(own or lazy.empty_gradient()))
        return (rows, gradient) if len(rows) else None

    def _clip(self, row_gradients: list[tuple[torch.Tensor, torch.Tensor] | None]) -> float:
        """Clip all gradients by their common norm, and return the norm before.

        Effects are clipped apart: a narrow prior has large gradients, which would stop the others.
        """
        groups: dict[bool, list[torch.Tensor]] = {False: [], True: []}
        for p in self.parameters:
            if p.grad is not None:
                groups[id(p) in self.special].append(p.grad)
        for lazy, row_gradient in zip(self.lazy, row_gradients, strict=True):
            if row_gradient is not None:
                groups[id(lazy.module.weight) in self.special].append(row_gradient[1])
        return math.hypot(*(self._clip_group(group) for group in groups.values() if group))

    def _clip_group(self, gradients: list[torch.Tensor]) -> float:
        norm = nn.utils.get_total_norm(gradients)
        if self.clip_norm is not None:
            factor = (self.clip_norm / (norm + 1e-6)).clamp(max=1.0)
            for gradient in gradients:
                gradient.mul_(factor)
        return float(norm)

    def catch_up(self) -> None:
        """Bring all rows of the lazy weights up to date with all steps made."""
        for lazy in self.lazy:
            lazy.catch_up_all()

    def finish(self) -> None:
        """Bring the lazy weights up to date, and make them ordinary weights again."""
        self.catch_up()
        for lazy in self.lazy:
            lazy.module.stop_lazy_updates()

    def state(self) -> Tensors:
        """Return the moments of all weights."""
        tensors: Tensors = {f"adam.{name}": tensor for name, tensor in self.adam.state().items()}
        for number, lazy in enumerate(self.lazy):
            tensors |= {f"lazy.{number}.{k}": v for k, v in lazy.state().items()}
        return tensors

    def restore(self, adam: Tensors, lazy: Tensors) -> None:
        """Restore a state, given without the prefixes ``adam.`` and ``lazy.`` of its names.

        Raise ValueError or KeyError if it does not fit the weights.
        """
        n_lazy = len({name.split(".")[0] for name in lazy})
        if n_lazy != len(self.lazy):
            raise ValueError(f"expected {len(self.lazy)} lazily updated weights, got {n_lazy}")
        self.adam.restore(adam)
        for number, optimizer in enumerate(self.lazy):
            optimizer.restore({key: lazy[f"{number}.{key}"] for key in optimizer.state()})


def _divergence(step: int, problem: str, rate: float, loss: Loss) -> str:
    """Return the message of a DivergedError; losses other than PMvGE's have no similarities."""
    if not loss.similarities:
        return (
            f"training diverged at step {step}: the {problem}, with learning rate {rate:g}. "
            "Try a smaller learning_rate"
        )
    (a, b), largest = loss.largest_similarity()
    return (
        f"training diverged at step {step} on the links ({a!r}, {b!r}): the "
        f"{problem}, with similarities up to {largest:.3g} and learning rate {rate:g}. Try a "
        f"smaller learning_rate; {STABLE_SETTINGS}"
    )


def _special_weights(network: nn.Module) -> dict[int, LazyRows]:
    """Return the modules whose weights have a learning rate or decay of their own."""
    return {
        id(module.weight): module
        for module in network.modules()
        if isinstance(module, LazyRows) and (module.lr_multiplier != 1 or not module.decays)
    }


def _adam(
    parameters: list[nn.Parameter], weight_decay: float, special: dict[int, LazyRows]
) -> Adam:
    """Return the optimizer of the weights, without decay of biases, norms and scales."""
    plain = [p for p in parameters if id(p) not in special]
    own = [(p, special[id(p)]) for p in parameters if id(p) in special]
    return Adam(
        [
            Group([p for p in plain if p.ndim > 1], weight_decay),
            Group([p for p in plain if p.ndim <= 1], 0.0),
            *(Group([p], weight_decay if m.decays else 0.0, m.lr_multiplier) for p, m in own),
        ]
    )
