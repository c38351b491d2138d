"""The profile likelihood of a block, with alpha in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import MultiViewGraph
from pmvge.likelihoods.objective import Embedded, Loss
from pmvge.sampling import LinkBatch
from pmvge.similarities import INNER, Similarity

MIN_EXPONENT = -80.0  # lower bound of g - max g: subnormal results of exp are slow


class BlockObjective:
    r"""Minus the profile likelihood of a view pair per unit of weight, up to a constant.

    .. math:: L = \log \frac{\hat Z}{|I_{de}|} - \sum_{\text{links}} \frac{w_{ij}}{W} g_{ij}

    The constant makes L = 0 at g = 0: -L is the gain over a constant intensity, in nats per unit of
    weight.
    """

    def __init__(self, graph: MultiViewGraph, similarity: Similarity = INNER) -> None:
        self._similarity = similarity
        self._log_terms = {
            pair: math.log(max(1, links.n_terms)) for pair, links in graph.links.items()
        }

    def __call__(self, batch: LinkBatch, y: Embedded) -> Loss:
        """Return the loss of a batch from the vectors of its inputs."""
        similarity = self._similarity
        left, right = _sides(batch, y)
        left, right = similarity.query(left), similarity.candidate(right)
        value = log_block_partition(left, right, batch, similarity) - self._log_terms[batch.pair]
        value = value - link_mean(left, right, batch, similarity)
        left, right = left.detach(), right.detach()
        return Loss(value, {batch.pair: lambda: similarity.outer(left @ right.T)})

    def state(self) -> dict[str, float]:
        """Return no numbers: the objective keeps none between steps."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Do nothing: the objective keeps no numbers between steps."""


def _sides(batch: LinkBatch, y: Embedded) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the vectors of both sides of a block."""
    if batch.shared:
        return y[0], y[0]
    if len(y) == 1:
        n = len(batch.left.entities)
        return y[0][:n], y[0][n:]
    return y[0], y[1]


def link_mean(
    left: torch.Tensor, right: torch.Tensor, batch: LinkBatch, similarity: Similarity = INNER
) -> torch.Tensor:
    r"""Return :math:`\sum (w_{ij} / W) g_{ij}` over the links of a batch."""

    def ends(y: torch.Tensor, links: NDArray[np.int64]) -> torch.Tensor:
        B = batch.corner
        return y[:B] if B else y.index_select(0, torch.from_numpy(links).to(y.device))

    g = similarity.outer(
        torch.linalg.vecdot(ends(left, batch.left.links), ends(right, batch.right.links))
    )
    if batch.link_weights is None:
        return g.mean()
    return g @ torch.from_numpy(batch.link_weights).to(g)


def log_block_partition(
    left: torch.Tensor, right: torch.Tensor, batch: LinkBatch, similarity: Similarity = INNER
) -> torch.Tensor:
    r"""Return :math:`\log\hat Z` of a :class:`LinkBatch`, differentiable in both sides.

    ``left`` are query vectors, ``right`` candidate vectors of the similarity.
    """
    if not similarity.linear:
        return _log_sum_exp(similarity.outer(left @ right.T), batch)
    value: torch.Tensor = _LogBlockPartition.apply(left, right, batch)  # type: ignore[no-untyped-call]
    return value


def _log_sum_exp(g: torch.Tensor, batch: LinkBatch) -> torch.Tensor:
    """Return the log-sum-exp over a block of similarities; autograd computes the gradient."""
    rows, cols = (torch.from_numpy(index).to(g.device) for index in batch.masked)
    weight = torch.from_numpy(batch.left.log_weight).to(g)[:, None]
    weight = weight + torch.from_numpy(batch.right.log_weight).to(g)
    weight[: batch.corner, : batch.corner] += math.log(batch.corner_weight)
    weight[rows, cols] = -math.inf
    return torch.logsumexp((g + weight).flatten(), 0) + math.log(batch.factor)


class _LogBlockPartition(torch.autograd.Function):
    r"""The log-sum-exp over a block, with one exp that the backward pass reuses.

    With :math:`E = \exp(g - \max g)` the sum is :math:`u^\top E v`, :math:`u = e^a, v = e^b`: the
    weights multiply vectors, not the block.
    """

    @staticmethod
    def forward(
        ctx: Any, left: torch.Tensor, right: torch.Tensor, batch: LinkBatch
    ) -> torch.Tensor:
        u = torch.from_numpy(batch.left.log_weight).to(left).exp()
        v = torch.from_numpy(batch.right.log_weight).to(right).exp()
        E = left @ right.T
        rows, cols = (torch.from_numpy(index).to(left.device) for index in batch.masked)
        E[rows, cols] = -math.inf
        largest = E.max()
        E.sub_(largest).clamp_(min=MIN_EXPONENT).exp_()
        if batch.corner:
            E[: batch.corner, : batch.corner] *= batch.corner_weight
        total = torch.dot(u, torch.mv(E, v))
        ctx.save_for_backward(left, right, E, u / total, v)
        return total.log() + largest + math.log(batch.factor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        left, right, E, u, v = ctx.saved_tensors
        u, v = (grad * u).unsqueeze(1), v.unsqueeze(1)
        return u * (E @ (v * right)), v * (E.T @ (u * left)), None
