"""The Bernoulli family: linked or not."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.distributed import total_weight
from pmvge.graph import Pair
from pmvge.likelihoods.alpha import (
    TOLERANCE,
    LogAlpha,
    TrainedGraph,
    alphas_from_partitions,
    link_terms,
)
from pmvge.likelihoods.binary import Binary
from pmvge.likelihoods.block_loss import BLOCK_TOLERANCE, Block
from pmvge.likelihoods.block_partition import log_block_partition
from pmvge.likelihoods.terms import PairTerms, no_cells, solve
from pmvge.progress import OnProgress

SMALL = -12.0  # eta below which log(1 - exp(-mu)) = eta - mu / 2 in float32 and float64
MOST = math.log(20.0)  # eta of a drawn link above which it counts as certain, in blocks
LARGE = 30.0  # eta above which exp(-mu) = 0; its derivative would be 0 times infinity


class Bernoulli(Binary):
    r"""Weights are 0 or 1, linked with probability :math:`1 - e^{-\mu}` (complementary log-log).

    .. math:: \mathrm{zero}(\eta) = -e^\eta, \qquad
              \mathrm{at\_link}(1, \eta) = \log(1 - \exp(-e^\eta)).

    It is the probability that a Poisson weight is positive, so :math:`\mu` keeps its meaning. The
    sum over entity pairs is that of Poisson weights, :math:`-\alpha Z`. So a block needs one log Z,
    and alpha is found by a search over the terms of links alone.
    """

    def zero(self, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-probability of no link."""
        return -eta.exp()

    def at_link(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-probability of a link."""
        ordinary = torch.log(-torch.expm1(-eta.clamp(SMALL, LARGE).exp()))
        small = eta.clamp(max=SMALL)
        return torch.where(eta < SMALL, small - 0.5 * small.exp(), ordinary)

    def excess(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-odds of a link."""
        return self.at_link(w, eta, pair) + eta.exp()

    def expected(self, eta: torch.Tensor) -> torch.Tensor:
        """Return the probability of a link."""
        return -torch.expm1(-eta.exp())

    def sample(
        self, eta: NDArray[np.float64], pair: Pair, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw zeros and ones."""
        return (rng.random(eta.shape) < -np.expm1(-np.exp(eta))).astype(np.float64)

    # -- sums over a view pair --------------------------------------------------------------

    def block_loss(self, block: Block) -> torch.Tensor:
        r"""Return :math:`\alpha \hat Z / c - \sum n\, \mathrm{excess}`, with alpha at its best.

        The excess of a link grows as mu does. Over all pairs that of :math:`\alpha Z` outweighs it,
        but a block can have links with a large mu and a small :math:`\hat Z`, and then no best
        alpha. So in blocks the excess does not grow where a link is certain, with mu > 20.
        """
        batch, g = block.batch, block.link_similarities()
        log_Z = log_block_partition(block.left, block.right, batch, block.similarity)
        counts = g.new_tensor(batch.link_counts)
        ones = torch.ones_like(g)
        links = PairTerms(_BoundedExcess(), batch.pair, no_cells, 1.0, ones, g, counts)
        start = float(log_Z.detach()) - math.log(block.total)  # log of Z per unit of measure
        log_alpha = solve(
            lambda a: links.link_slope(a) - math.exp(a + start), -start, tolerance=BLOCK_TOLERANCE
        )
        zeros = torch.exp(log_Z + (log_alpha - math.log(block.total)))
        return zeros - links.value(log_alpha) - block.constant_loss

    def fit_alphas(
        self,
        trained: TrainedGraph,
        rng: np.random.Generator,
        on_progress: OnProgress | None = None,
    ) -> dict[Pair, LogAlpha]:
        """Return log alpha of each view pair, from one log Z and the terms of links."""

        def log_alpha_of(pair: Pair, log_Z: float) -> float:
            weight = trained.weight(pair)
            # Weights are 1: their total is the measure.
            terms = link_terms(self, trained, pair, trained.links(pair), weight)
            start = log_Z - math.log(weight)

            def slope(a: float) -> float:
                return total_weight(trained.shards, terms.link_slope(a)) - math.exp(a + start)

            return solve(slope, -start, tolerance=TOLERANCE)

        return alphas_from_partitions(trained, rng, log_alpha_of, on_progress=on_progress)


class _BoundedExcess(Bernoulli):
    """The family with log-odds of a link that do not grow where mu is over 20."""

    def excess(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        return super().excess(w, eta.clamp(max=MOST), pair)
