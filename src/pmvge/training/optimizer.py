"""Gradient steps: Adam on all weights of a network, or on the rows that a step needs of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pmvge.distributed import World
from pmvge.encoders import RowTable
from pmvge.errors import DivergedError
from pmvge.likelihoods import Loss
from pmvge.training.checkpoints import Tensors
from pmvge.training.lazy_adam import LazyAdam


class Descent:
    """Takes a network down a loss; the moments of its weights are its state."""

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Any], Loss],
        world: World,
        *,
        lazy: Sequence[RowTable],
        weight_decay: float,
        clip_norm: float | None,
    ) -> None:
        self.loss, self.world, self.clip_norm = loss, world, clip_norm
        self.tables = [LazyAdam(table, weight_decay) for table in lazy]
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.optimizer = _adam(self.parameters, weight_decay)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to learn."""
        return not self.parameters and not self.tables

    def step(self, batch: Any, rate: float, number: int) -> float:
        """Make one gradient step, the ``number``-th, and return the loss before it."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        if loss.value.requires_grad:  # not so if this pair's encoders are all fixed
            loss.value.backward()
        changes = [self._mean_change(table) for table in self.tables]
        norm = self._clip([change[1] for change in changes if change is not None])
        value = float(loss.value.detach())
        if not math.isfinite(value + float(norm)):
            what = f"loss is {value}" if not math.isfinite(value) else f"gradient is {float(norm)}"
            raise DivergedError(_divergence(number, what, rate, loss))
        self.optimizer.step()
        for table, change in zip(self.tables, changes, strict=True):
            if change is not None:  # as torch's Adam, which leaves out what has no gradient
                table.descend(*change, rate)
        return value

    def _mean_change(self, table: LazyAdam) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Rows of a table, and the gradient in them of all processes' losses."""
        change = table.gradient()
        if self.world.size == 1:
            return change
        rows, gradient = self.world.mean_of_rows(*(change or table.no_gradient()))
        return (rows, gradient) if len(rows) else None

    def _clip(self, others: list[torch.Tensor]) -> torch.Tensor:
        """Shorten all gradients together, those of tables too; return their norm before."""
        gradients = [p.grad for p in self.parameters if p.grad is not None] + others
        norm = nn.utils.get_total_norm(gradients)
        if self.clip_norm is not None:
            factor = (self.clip_norm / (norm + 1e-6)).clamp(max=1.0)
            for gradient in gradients:
                gradient.mul_(factor)
        return norm

    def catch_up(self) -> None:
        """Bring all rows of the tables to where Adam would have them by now."""
        for table in self.tables:
            table.catch_up_all()

    def end(self) -> None:
        """Bring the tables up to date, and make them ordinary weights again."""
        self.catch_up()
        for table in self.tables:
            table.table.end_lazy()

    def state(self) -> Tensors:
        """The moments of all weights."""
        tensors: Tensors = {}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam.{index}.{k}": v for k, v in state.items()}
        for number, table in enumerate(self.tables):
            tensors |= {f"lazy.{number}.{k}": v for k, v in table.state().items()}
        return tensors

    def restore(self, adam: Tensors, lazy: Tensors) -> None:
        """Go back to a state, whose names are without the ``adam.`` and ``lazy.`` here."""
        self._check_layout(adam, lazy)
        whole = self.optimizer.state_dict()
        whole["state"] = {}
        for name, tensor in adam.items():
            index, key = name.split(".")
            whole["state"].setdefault(int(index), {})[key] = tensor
        self.optimizer.load_state_dict(whole)
        for number, table in enumerate(self.tables):
            table.restore({key: lazy[f"{number}.{key}"] for key in table.state()})

    def _check_layout(self, adam: Tensors, lazy: Tensors) -> None:
        """Whether moments are those of the same weights: a list of them has no names."""
        tables = {name.split(".")[0] for name in lazy}
        if len(tables) != len(self.tables):
            raise ValueError(f"expected {len(self.tables)} tables by row, got {len(tables)}")
        ordered = [p for group in self.optimizer.param_groups for p in group["params"]]
        for name, tensor in adam.items():
            index, key = name.split(".")
            if key != "step" and tensor.shape != ordered[int(index)].shape:
                raise ValueError(f"the moments of weights {index} have another shape")


def _divergence(step: int, what: str, rate: float, loss: Loss) -> str:
    """What happened, where, and what may help; only PMvGE's losses know their similarities."""
    if not loss.similarities:
        return (
            f"training diverged at step {step}: the {what}, with learning rate {rate:g}. "
            "Try a smaller learning_rate"
        )
    (a, b), largest = loss.largest_similarity()
    return (
        f"training diverged at step {step} on the links ({a!r}, {b!r}): the "
        f"{what}, with similarities up to {largest:.3g} and learning rate {rate:g}. Try a "
        "smaller learning_rate; scheme='block', similarity='cosine' and standardize=True "
        "are the most stable settings"
    )


def _adam(parameters: list[nn.Parameter], weight_decay: float) -> torch.optim.Optimizer:
    """Adam with decoupled decay of weights (not of biases, norms and scales), fused if possible."""
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)
    return torch.optim.AdamW(
        [group for group in groups if group["params"]] or [{"params": [torch.zeros(1)]}],
        fused=fused,
    )
