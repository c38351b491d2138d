"""The negative binomial family: counts that vary more than Poisson counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pmvge.errors import GraphError
from pmvge.graph import Pair
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.block_logs import sum_of_logs
from pmvge.likelihoods.block_loss import Block
from pmvge.likelihoods.terms import Array, PairTerms, no_cells

# The learning rate of log r, as a multiple of that of the encoders: r can be far from 1.
SIZE_LR_MULTIPLIER = 10.0
LOG_SIZES = (-9.0, 9.0)  # bounds of log r; at r = 8,000 counts are Poisson to all purposes


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
        """Return minus the log-likelihood of a block per unit of measure, minimal in alpha."""
        if not block.similarity.linear:
            return super().block_loss(block)
        batch, g = block.batch, block.link_similarities()
        w, counts = g.new_tensor(batch.weights), g.new_tensor(batch.link_counts)
        log_r = self.log_size(batch.pair).to(g.dtype)
        relative, each = g.detach() - log_r.detach(), counts * w

        def link_slope(a: float) -> float:
            return float(each @ torch.sigmoid(-(relative + a)))

        zeros, log_alpha = sum_of_logs(block, log_r, link_slope)
        links = PairTerms(self, batch.pair, no_cells, 1.0, w, g, counts)
        return zeros - links.value(log_alpha) - block.constant_loss
