"""The logistic family: linked or not, with log-odds eta."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch.nn import functional

from pmvge.graph import Pair
from pmvge.likelihoods.binary import Binary
from pmvge.likelihoods.block_logs import sum_of_logs
from pmvge.likelihoods.block_loss import Block


class Logistic(Binary):
    r"""Weights are 0 or 1, linked with probability :math:`\mu / (1 + \mu)`: the odds are mu.

    .. math:: \mathrm{zero}(\eta) = -\log(1 + e^\eta), \qquad
              \mathrm{at\_link}(1, \eta) - \mathrm{zero}(\eta) = \eta.

    Where links are rare, it is about the Poisson and the Bernoulli family. Where a link
    was expected and is not there, it costs about :math:`\eta`, not :math:`e^\eta`, so that the
    influence of such a pair is bounded.
    """

    def zero(self, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-probability of no link."""
        return functional.logsigmoid(-eta)

    def at_link(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-probability of a link."""
        return functional.logsigmoid(eta)

    def excess(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-odds of a link."""
        return w * eta

    def expected(self, eta: torch.Tensor) -> torch.Tensor:
        """Return the probability of a link."""
        return torch.sigmoid(eta)

    def sample(
        self, eta: NDArray[np.float64], pair: Pair, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw zeros and ones."""
        linked: NDArray[np.bool_] = rng.random(eta.shape) < expit(eta)
        return linked.astype(np.float64)

    def block_loss(self, block: Block) -> torch.Tensor:
        """Return minus the log-likelihood of a block per unit of measure, minimal in alpha."""
        if not block.similarity.linear:
            return super().block_loss(block)
        g = block.link_similarities()
        counts = g.new_tensor(block.batch.link_counts)
        slope = float(counts.sum())
        zeros, log_alpha = sum_of_logs(block, g.new_zeros(()), lambda _: slope)
        return zeros - counts @ (g + log_alpha) - block.constant_loss
