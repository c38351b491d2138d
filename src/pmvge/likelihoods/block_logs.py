r"""The sum of :math:`r \log(1 + \mu / r)` over a block, with alpha at its maximum.

It is minus the log-likelihood of weights 0, for negative binomial weights of size r and, with
r = 1, for links with the odds :math:`\mu`. With E = exp(g - max g) of the block, computed once, the
sums of a given alpha take one division per cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from pmvge.likelihoods.block_loss import BLOCK_TOLERANCE, Block
from pmvge.likelihoods.block_partition import ROWS, exp_block
from pmvge.likelihoods.terms import solve
from pmvge.sampling import LinkBatch

SKETCH = 8  # every eighth row of a block gives the first guess of alpha
STEP = 0.05  # of log alpha, for the curvature of the guess
RANGE = 80.0  # bound of the log of mu / r at the largest similarity of a block


def sum_of_logs(
    block: Block, log_r: torch.Tensor, link_slope: Callable[[float], float]
) -> tuple[torch.Tensor, float]:
    r"""Return the sum of :math:`r \log(1 + \mu / r)` per unit of measure, and log alpha.

    The sum is differentiable in the vectors and in ``log_r``; the similarity is linear. At log
    alpha its derivative equals ``link_slope``, that of the terms of links, which does not increase.
    """
    batch = block.batch
    with torch.no_grad():
        E, u, v, largest = exp_block(block.left, block.right, batch)
        cells = _Cells(E, u * (batch.factor / block.total), v, batch)
        shift = float(largest) - float(log_r)
        log_alpha = _solve_alpha(cells, link_slope, shift, float(log_r))
    total: torch.Tensor = _Logs.apply(  # type: ignore[no-untyped-call]
        block.left, block.right, log_r, cells, _ratio(log_alpha + shift)
    )
    return total, log_alpha


class _Cells:
    r"""The cells of a block, for sums of functions of :math:`\mu / r = t E`; overwrites E.

    Sums run over a few rows at a time: allocating another block takes longer than its arithmetic.
    """

    def __init__(
        self, E: torch.Tensor, u: torch.Tensor, v: torch.Tensor, batch: LinkBatch | None = None
    ) -> None:
        self.u, self.v = u, v
        self.corner = 0 if batch is None else batch.corner
        self.extra = 0.0 if batch is None else batch.corner_weight - 1
        # Weights of the columns in the rows of drawn links.
        self.corner_v = torch.cat([v[: self.corner] * (1 + self.extra), v[self.corner :]])
        self.inverse = E.reciprocal_()  # r / mu, up to t
        self._buffer = torch.empty_like(E[:ROWS])
        self._one = torch.ones((), dtype=E.dtype, device=E.device)
        self.sum = self.total(lambda inverse, out: torch.reciprocal(inverse, out=out))

    def total(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> float:
        """Return the weighted sum of a function of the inverse; its second argument is the out."""
        total = 0.0
        for start, stop, v in (
            (0, self.corner, self.corner_v),
            (self.corner, len(self.inverse), self.v),
        ):
            for first in range(start, stop, ROWS):
                inverse = self.inverse[first : min(first + ROWS, stop)]
                values = function(inverse, self._buffer[: len(inverse)])
                u = self.u[first : first + len(inverse)]
                total += float(torch.dot(u, torch.mv(values, v)))
        return total

    def shares(self, t: float) -> float:
        """Return the sum of mu / (r + mu), accurate also where mu is small."""
        return self.total(lambda inverse, out: self._share(inverse, t, out))

    def logs(self, t: float) -> float:
        """Return the sum of log(1 + mu / r)."""
        return self.total(lambda inverse, out: torch.reciprocal(inverse, out=out).mul_(t).log1p_())

    def finish(self, t: float) -> torch.Tensor:
        """Return mu / (r + mu), times the weights of the corner; overwrite the cells."""
        share, c = self._share(self.inverse, t, self.inverse), self.corner
        if c:
            share[:c, :c] *= 1 + self.extra
        return share

    def sketch(self) -> _Cells:
        """Return every eighth row of the cells, with the same sum of E."""
        part = _Cells(self.inverse[::SKETCH].reciprocal(), self.u[::SKETCH], self.v)
        part.u = part.u * (self.sum / max(part.sum, 1e-300))
        return part

    def _share(self, inverse: torch.Tensor, t: float, out: torch.Tensor) -> torch.Tensor:
        return torch.add(self._one, inverse, alpha=1 / t, out=out).reciprocal_()


def _solve_alpha(
    cells: _Cells, link_slope: Callable[[float], float], shift: float, log_r: float
) -> float:
    """Return the log alpha that maximises the likelihood of a block."""

    def slope(part: _Cells, a: float) -> float:
        return link_slope(a) - math.exp(log_r) * part.shares(_ratio(a + shift))

    start = -math.log(max(cells.sum, 1e-300)) - shift - log_r
    sketch = cells.sketch()
    guess = solve(lambda a: slope(sketch, a), start, tolerance=10 * BLOCK_TOLERANCE)
    fall = (slope(sketch, guess - STEP) - slope(sketch, guess + STEP)) / (2 * STEP)
    inverse = 1 / fall if fall > 1e-6 else 1.0
    return solve(lambda a: slope(cells, a), guess, tolerance=BLOCK_TOLERANCE, inverse=inverse)


def _ratio(exponent: float) -> float:
    """Return t = exp(a + max g) / r, within the range of float32."""
    return math.exp(min(max(exponent, -RANGE), RANGE))


class _Logs(torch.autograd.Function):
    r"""The sum of :math:`r \log(1 + t E)` over a block, with alpha detached.

    Its derivative in g is :math:`r\, t E / (1 + t E)`. That in log r, which divides t, too, is
    :math:`r \log(1 + t E) - r\, t E / (1 + t E)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        left: torch.Tensor,
        right: torch.Tensor,
        log_r: torch.Tensor,
        cells: _Cells,
        t: float,
    ) -> torch.Tensor:
        r = float(log_r.double().exp())
        logs = cells.logs(t)
        ctx.slope = r * (logs - cells.shares(t))
        ctx.save_for_backward(left, right, cells.finish(t), cells.u * r, cells.v)
        return left.new_tensor(r * logs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        left, right, P, u, v = ctx.saved_tensors
        u, v = (grad * u).unsqueeze(1), v.unsqueeze(1)
        return u * (P @ (v * right)), v * (P.T @ (u * left)), grad * ctx.slope, None, None
