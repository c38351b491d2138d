"""The negative binomial family: counts that vary more than Poisson counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pmvge.errors import GraphError
from pmvge.graph import Pair
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.block_loss import BLOCK_TOLERANCE, Block
from pmvge.likelihoods.block_partition import exp_block
from pmvge.likelihoods.terms import Array, PairTerms, no_cells, solve
from pmvge.sampling import LinkBatch

# The learning rate of log r, as a multiple of that of the encoders: r can be far from 1.
SIZE_LR_MULTIPLIER = 10.0
LOG_SIZES = (-9.0, 9.0)  # bounds of log r; at r = 8,000 counts are Poisson to all purposes
SKETCH = 8  # every eighth row of a block gives the first guess of alpha
ROWS = 128  # rows of a block that are added up at once; they stay in the cache
STEP = 0.05  # of log alpha, for the curvature of the guess
RANGE = 80.0  # bound of the log of mu / r at the largest similarity of a block


class NegativeBinomial(Family):
    r"""Weights are counts of mean :math:`\mu` and variance :math:`\mu + \mu^2 / r`.

    .. math:: \mathrm{zero}(\eta) = -r \log(1 + \mu / r), \qquad
              \mathrm{at\_link}(w, \eta) - \mathrm{zero}(\eta) = \log\frac{\Gamma(w + r)}{\Gamma(r)}
              - w \log(1 + r / \mu).

    The size r is learned for each view pair; 1 / r is the dispersion. For large r the family is
    Poisson. A link of weight 1,000 has a gradient of at most :math:`w r / (r + \mu)` instead of w,
    so that a few large counts do not decide everything.
    """

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        super().__init__(pairs)
        self.theta = nn.Parameter(torch.zeros(len(self.pairs)))  # log r / 10

    def log_size(self, pair: Pair) -> torch.Tensor:
        """Return log r of a view pair."""
        return (SIZE_LR_MULTIPLIER * self.theta[self.index[pair]]).clamp(*LOG_SIZES)

    def dispersions(self) -> dict[Pair, float]:
        """Return 1 / r of each view pair."""
        return {pair: math.exp(-float(self.log_size(pair).detach())) for pair in self.pairs}

    def zero(self, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-probability of weight 0."""
        log_r = self.log_size(pair).to(eta.dtype)
        return -log_r.exp() * functional.softplus(eta - log_r)

    def at_link(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-probability of weights, without log w!."""
        return self.zero(eta, pair) + self.excess(w, eta, pair)

    def excess(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return log(Gamma(w + r) / Gamma(r)) - w log(1 + r / mu)."""
        log_r = self.log_size(pair)
        r = log_r.double().exp()  # differences of lgamma need float64
        rising = torch.lgamma(w.double() + r) - torch.lgamma(r)
        return rising.to(eta.dtype) - w * functional.softplus(log_r.to(eta.dtype) - eta)

    def log_constant(self, w: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return -log w!."""
        return -torch.lgamma(w + 1)

    def check_weights(self, where: str, weights: Array) -> None:
        """Raise GraphError if a weight is not a whole number."""
        wrong = np.flatnonzero(weights != np.floor(weights))
        if len(wrong):
            raise GraphError(
                f"{where}: expected whole numbers, got {len(wrong):,} others, such as "
                f"{weights[wrong[0]]:g}; round the weights, or use family 'poisson' or 'beta'"
            )

    def sample(
        self, eta: NDArray[np.float64], pair: Pair, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw counts."""
        r = math.exp(float(self.log_size(pair).detach()))
        return rng.negative_binomial(r, r / (r + np.exp(eta))).astype(np.float64)

    # -- a block ------------------------------------------------------------------------------

    def block_loss(self, block: Block) -> torch.Tensor:
        """Return minus the log-likelihood of a block per unit of measure, minimal in alpha.

        With E = exp(g - max g) of the block, computed once, the sums of a given alpha take one
        division per cell.
        """
        if not block.similarity.linear:
            return super().block_loss(block)
        batch, g = block.batch, block.link_similarities()
        w, counts = g.new_tensor(batch.weights), g.new_tensor(batch.link_counts)
        links = PairTerms(self, batch.pair, no_cells, 1.0, w, g, counts)
        log_r = self.log_size(batch.pair).to(g.dtype)
        with torch.no_grad():
            E, u, v, largest = exp_block(block.left, block.right, batch)
            cells = _Cells(E, u * (batch.factor / block.total), v, batch)
            shift = float(largest) - float(log_r)
            log_alpha = _solve_alpha(cells, links, shift, float(log_r))
        zeros: torch.Tensor = _Zeros.apply(  # type: ignore[no-untyped-call]
            block.left, block.right, log_r, cells, _ratio(log_alpha + shift)
        )
        return -zeros - links.value(log_alpha) - block.constant_loss


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


def _solve_alpha(cells: _Cells, links: PairTerms, shift: float, log_r: float) -> float:
    """Return the log alpha that maximises the likelihood of a block."""
    counts = links.counts * links.weights
    relative = links.similarities.detach() - log_r

    def slope(part: _Cells, a: float) -> float:
        at_links = float(counts @ torch.sigmoid(-(relative + a)))
        return at_links - math.exp(log_r) * part.shares(_ratio(a + shift))

    start = -math.log(max(cells.sum, 1e-300)) - shift - log_r
    sketch = cells.sketch()
    guess = solve(lambda a: slope(sketch, a), start, tolerance=10 * BLOCK_TOLERANCE)
    fall = (slope(sketch, guess - STEP) - slope(sketch, guess + STEP)) / (2 * STEP)
    inverse = 1 / fall if fall > 1e-6 else 1.0
    return solve(lambda a: slope(cells, a), guess, tolerance=BLOCK_TOLERANCE, inverse=inverse)


def _ratio(exponent: float) -> float:
    """Return t = exp(a + max g) / r, within the range of float32."""
    return math.exp(min(max(exponent, -RANGE), RANGE))


class _Zeros(torch.autograd.Function):
    r"""The sum of :math:`-r \log(1 + t E)` over a block, with alpha detached.

    Its derivative in g is :math:`-r\, t E / (1 + t E)`. That in log r, which divides t, too, is
    :math:`-r \log(1 + t E) + r\, t E / (1 + t E)`.
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
        ctx.slope = r * (cells.shares(t) - logs)
        ctx.save_for_backward(left, right, cells.finish(t), cells.u * -r, cells.v)
        return left.new_tensor(-r * logs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        left, right, P, u, v = ctx.saved_tensors
        u, v = (grad * u).unsqueeze(1), v.unsqueeze(1)
        return u * (P @ (v * right)), v * (P.T @ (u * left)), grad * ctx.slope, None, None
