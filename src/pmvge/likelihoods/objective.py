"""The interface of objectives, which map a batch and its vectors to a loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch

from pmvge.graph import Pair

Embedded = Sequence[torch.Tensor]  # the vectors of a batch's ``inputs``, in their order
Batch_contra = TypeVar("Batch_contra", contravariant=True)


class Loss(NamedTuple):
    """A differentiable loss, and the similarities that an error message reports."""

    value: torch.Tensor
    similarities: dict[Pair, Callable[[], torch.Tensor]]  # g, computed when called
    penalty: torch.Tensor | None = None  # minus the log prior of effects, added in training

    def largest_similarity(self) -> tuple[Pair, float]:
        """Return the view pair with the largest |g|, and that value; NaN counts as the largest."""
        largest = {pair: float(g().abs().max()) for pair, g in self.similarities.items()}
        pair = max(
            largest, key=lambda pair: math.inf if math.isnan(largest[pair]) else largest[pair]
        )
        return pair, largest[pair]


class Objective(Protocol, Generic[Batch_contra]):
    """A function from a batch and its vectors to a loss; it may keep numbers between steps."""

    def __call__(self, batch: Batch_contra, y: Embedded) -> Loss: ...

    def state(self) -> dict[str, float]:
        """Return the numbers that a checkpoint must contain."""
        ...

    def restore(self, state: dict[str, float]) -> None:
        """Restore the numbers that ``state`` returned."""
        ...
