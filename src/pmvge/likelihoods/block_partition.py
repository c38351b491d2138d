"""log Z of a block, differentiable in its vectors."""

from __future__ import annotations

import math
from typing import Any

import torch

from pmvge.sampling import LinkBatch
from pmvge.similarities import INNER, Similarity

ROWS = 128  # rows of a block that are added up at once; they stay in the cache
MIN_EXPONENT = -80.0  # lower bound of g - max g: subnormal results of exp are slow
# A smaller sum may consist of cells at MIN_EXPONENT: the largest <q, c> and the largest biases
# belong to different cells, and are far apart. Then the biases have to be in g.
LEAST_SUM = 1e-20


def log_block_partition(
    left: torch.Tensor, right: torch.Tensor, batch: LinkBatch, similarity: Similarity = INNER
) -> torch.Tensor:
    r"""Return :math:`\log\hat Z` of a :class:`LinkBatch`, differentiable in both sides.

    ``left`` are query vectors, ``right`` candidate vectors of the similarity.
    """
    if similarity.linear:
        value: torch.Tensor = _LogBlockPartition.apply(  # type: ignore[no-untyped-call]
            left, right, batch, similarity.biased
        )
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
    left: torch.Tensor, right: torch.Tensor, batch: LinkBatch, *, biased: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    r"""Return E, u, v and s of a block: a cell's weight times exp(g) is :math:`e^s u E v`.

    :math:`E = \exp(g - \max g)`; masked cells are about 0. With ``biased``, where the vectors end
    in (bias, 1) and (1, bias), the biases are in u and v instead of E.
    """
    a = torch.from_numpy(batch.left.log_weight).to(left)
    b = torch.from_numpy(batch.right.log_weight).to(right)
    if biased:
        a, b = a + left[:, -2], b + right[:, -1]
        left, right = left[:, :-2], right[:, :-2]
    E = left @ right.T
    rows, cols = (torch.from_numpy(index).to(left.device) for index in batch.masked)
    E[rows, cols] = -math.inf
    scale = largest = E.max()
    if biased:
        scale = largest + a.max() + b.max()
        a, b = a - a.max(), b - b.max()
    return E.sub_(largest).clamp_(min=MIN_EXPONENT).exp_(), a.exp(), b.exp(), scale


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
    weights multiply vectors, not the block. Biases are part of a and b. So products have K columns
    instead of K + 2, and the gradients in the biases are :math:`u \odot E v` and
    :math:`v \odot E^\top u`.
    """

    @staticmethod
    def forward(
        ctx: Any, left: torch.Tensor, right: torch.Tensor, batch: LinkBatch, biased: bool
    ) -> torch.Tensor:
        total, scale, *saved = _weighted_sum(left, right, batch, biased)
        if biased and total < LEAST_SUM:
            total, scale, *saved = _weighted_sum(left, right, batch, biased=False)
        E, u, v, sums = saved
        ctx.biased = biased
        ctx.save_for_backward(left, right, E, u / total, v, sums)
        return total.log() + scale + math.log(batch.factor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        left, right, E, u, v, sums = ctx.saved_tensors
        u = grad * u
        if not ctx.biased:
            u, v = u.unsqueeze(1), v.unsqueeze(1)
            return u * (E @ (v * right)), v * (E.T @ (u * left)), None, None
        slopes = torch.empty_like(left), torch.empty_like(right)
        slopes[0][:, -2], slopes[0][:, -1] = u * sums, 0  # the second is the constant 1
        slopes[1][:, -2], slopes[1][:, -1] = 0, v * torch.mv(E.T, u)
        u, v = u.unsqueeze(1), v.unsqueeze(1)
        torch.mul(u, E @ (v * right[:, :-2]), out=slopes[0][:, :-2])
        torch.mul(v, E.T @ (u * left[:, :-2]), out=slopes[1][:, :-2])
        return *slopes, None, None


def _weighted_sum(
    left: torch.Tensor, right: torch.Tensor, batch: LinkBatch, biased: bool
) -> tuple[torch.Tensor, ...]:
    """Return the sum of u E v and the scale that it lacks, then E, u, v and the sums E v."""
    E, u, v, scale = exp_block(left, right, batch, biased=biased)
    if batch.corner:
        E[: batch.corner, : batch.corner] *= batch.corner_weight
    sums = torch.mv(E, v)
    return torch.dot(u, sums), scale, E, u, v, sums
