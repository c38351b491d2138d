"""log Z of a block, differentiable in its vectors."""

from __future__ import annotations

import math
from typing import Any

import torch

from pmvge.sampling import LinkBatch
from pmvge.similarities import INNER, Similarity

ROWS = 128  # rows of a block that are added up at once; they stay in the cache
MIN_EXPONENT = -80.0  # lower bound of g - max g: subnormal results of exp are slow


def log_block_partition(
    left: torch.Tensor, right: torch.Tensor, batch: LinkBatch, similarity: Similarity = INNER
) -> torch.Tensor:
    r"""Return :math:`\log\hat Z` of a :class:`LinkBatch`, differentiable in both sides.

    ``left`` are query vectors, ``right`` candidate vectors of the similarity.
    """
    if similarity.linear:
        value: torch.Tensor = _LogBlockPartition.apply(left, right, batch)  # type: ignore[no-untyped-call]
        return value
    if type(similarity).exp_outer is Similarity.exp_outer:
        return _log_sum_exp(similarity.outer(left @ right.T), batch)
    total: torch.Tensor = _BlockPartition.apply(left, right, batch, similarity)  # type: ignore[no-untyped-call]
    return total.log()


def _log_sum_exp(g: torch.Tensor, batch: LinkBatch) -> torch.Tensor:
    """Return the log-sum-exp over a block of similarities; autograd computes the gradient."""
    rows, cols = (torch.from_numpy(index).to(g.device) for index in batch.masked)
    weight = torch.from_numpy(batch.left.log_weight).to(g)[:, None]
    weight = weight + torch.from_numpy(batch.right.log_weight).to(g)
    weight[: batch.corner, : batch.corner] += math.log(batch.corner_weight)
    weight[rows, cols] = -math.inf
    return torch.logsumexp((g + weight).flatten(), 0) + math.log(batch.factor)


def exp_block(
    left: torch.Tensor, right: torch.Tensor, batch: LinkBatch
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    r"""Return :math:`E = \exp(g - \max g)` of a block, the weights u and v of its sides, and max g.

    Masked cells are about 0.
    """
    u = torch.from_numpy(batch.left.log_weight).to(left).exp()
    v = torch.from_numpy(batch.right.log_weight).to(right).exp()
    E = left @ right.T
    rows, cols = (torch.from_numpy(index).to(left.device) for index in batch.masked)
    E[rows, cols] = -math.inf
    largest = E.max()
    return E.sub_(largest).clamp_(min=MIN_EXPONENT).exp_(), u, v, largest


class _BlockPartition(torch.autograd.Function):
    """The sum of exp(g) over a block, for similarities that define :meth:`Similarity.exp_outer`.

    It runs over a few rows at a time: allocating another block takes longer than its arithmetic.
    """

    @staticmethod
    def forward(
        ctx: Any,
        left: torch.Tensor,
        right: torch.Tensor,
        batch: LinkBatch,
        similarity: Similarity,
    ) -> torch.Tensor:
        u = torch.from_numpy(batch.left.log_weight).to(left).exp().mul_(batch.factor)
        v = torch.from_numpy(batch.right.log_weight).to(right).exp()
        slope, total, c = left @ right.T, left.new_zeros(()), batch.corner
        rows, cols = (torch.from_numpy(index).to(left.device) for index in batch.masked)
        slope[rows, cols] = -math.inf
        corner_v = torch.cat([v[:c] * batch.corner_weight, v[c:]])
        for start, stop, weights in ((0, c, corner_v), (c, len(u), v)):
            for first in range(start, stop, ROWS):
                part = slice(first, min(first + ROWS, stop))
                found = similarity.exp_outer(slope[part])
                assert found is not None
                total = total + torch.dot(u[part], torch.mv(found[0], weights))
                slope[part] = found[1]
        if c:
            slope[:c, :c] *= batch.corner_weight
        ctx.save_for_backward(left, right, slope, u, v)
        return total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        left, right, slope, u, v = ctx.saved_tensors
        u, v = (grad * u).unsqueeze(1), v.unsqueeze(1)
        return u * (slope @ (v * right)), v * (slope.T @ (u * left)), None, None


class _LogBlockPartition(torch.autograd.Function):
    r"""The log-sum-exp over a block, with one exp that the backward pass reuses.

    With :math:`E = \exp(g - \max g)` the sum is :math:`u^\top E v`, :math:`u = e^a, v = e^b`: the
    weights multiply vectors, not the block.
    """

    @staticmethod
    def forward(
        ctx: Any, left: torch.Tensor, right: torch.Tensor, batch: LinkBatch
    ) -> torch.Tensor:
        E, u, v, largest = exp_block(left, right, batch)
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
