"""What a loss of a batch is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch

from pmvge.graph import Pair

Embedded = Sequence[torch.Tensor]  # the embeddings of a batch's ``inputs``, in their order
Batch_contra = TypeVar("Batch_contra", contravariant=True)


class Loss(NamedTuple):
    """A differentiable loss, and what an error message needs if it is not finite."""

    value: torch.Tensor
    similarities: dict[Pair, Callable[[], torch.Tensor]]  # g, computed only when asked for

    def largest_similarity(self) -> tuple[Pair, float]:
        """The largest |g| and the pair it is of; NaN counts as the largest."""
        largest = {pair: float(g().abs().max()) for pair, g in self.similarities.items()}
        pair = max(
            largest, key=lambda pair: math.inf if math.isnan(largest[pair]) else largest[pair]
        )
        return pair, largest[pair]


class Objective(Protocol, Generic[Batch_contra]):
    """A loss of batches of some kind, which may keep numbers from step to step."""

    def __call__(self, batch: Batch_contra, y: Embedded) -> Loss: ...

    def state(self) -> dict[str, float]:
        """Numbers that a checkpoint must keep."""
        ...

    def restore(self, state: dict[str, float]) -> None:
        """Take back what ``state`` returned."""
        ...
