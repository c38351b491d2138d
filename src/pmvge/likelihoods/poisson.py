"""The Poisson family: the model of the paper."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import Links, Pair
from pmvge.likelihoods.alpha import LogAlpha, TrainedGraph, alphas_from_partitions
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.block_loss import Block
from pmvge.likelihoods.block_partition import log_block_partition
from pmvge.likelihoods.partition import log_partition
from pmvge.likelihoods.terms import Array, link_similarity
from pmvge.progress import OnProgress
from pmvge.sampling import Measure
from pmvge.similarities import Similarity


class Poisson(Family):
    r"""Weights are Poisson, :math:`w_{ij} \sim \mathrm{Poisson}(\mu_{ij})`; any w > 0 is allowed.

    .. math:: \mathrm{zero}(\eta) = -e^\eta, \qquad \mathrm{at\_link}(w, \eta) = w \eta - e^\eta.

    Alpha has a closed form, :math:`\hat\alpha = W / Z` with :math:`Z = \sum_{I_{de}} \exp g_{ij}`.
    Put back into the likelihood, it gives the profile likelihood, which depends on g only through
    log Z and a sum over links:

    .. math:: \ell_p = \sum w_{ij} g_{ij} - W \log Z + \text{const}.
    """

    measure: ClassVar[Measure] = "weight"
    deviance_name: ClassVar[str] = "poisson_deviance"

    def zero(self, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return minus the expected weight."""
        return -self.expected(eta)

    def at_link(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-likelihood of weights, without log w!."""
        return w * eta - self.expected(eta)

    def excess(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return w eta, which is finite where the expected weight overflows."""
        return w * eta

    def log_constant(self, w: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return -log w!."""
        return -torch.lgamma(w + 1)

    def sample(
        self, eta: NDArray[np.float64], pair: Pair, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw Poisson weights."""
        return rng.poisson(np.exp(eta)).astype(np.float64)

    def sums(self, eta: torch.Tensor, pair: Pair) -> tuple[float, float]:
        """Return the sums of ``zero`` and of expected weights, from one exp."""
        total = float(self.expected(eta).sum())
        return -total, total

    def link_deviance(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the deviance of weights w > 0 minus that of 0; log(w / mu) never overflows."""
        return 2 * (w * (w.log() - eta) - w)

    def constant_loss(self, pair: Pair, links: Links) -> float:
        """Return log Z at g = 0."""
        return math.log(max(1, links.n_terms))

    def block_loss(self, block: Block) -> torch.Tensor:
        r"""Return :math:`\log(\hat Z / |I_{de}|) - \sum (w_{ij} / W) g_{ij}`."""
        batch = block.batch
        value = log_block_partition(block.left, block.right, batch, block.similarity)
        value = value - block.constant_loss
        g = block.link_similarities()
        if batch.link_weights is None:
            return value - g.mean()
        return value - g @ torch.from_numpy(batch.link_weights).to(g)

    def fit_alphas(
        self,
        trained: TrainedGraph,
        rng: np.random.Generator,
        on_progress: OnProgress | None = None,
    ) -> dict[Pair, LogAlpha]:
        """Return the closed form of log alpha of each view pair."""
        return alphas_from_partitions(
            trained,
            rng,
            lambda pair, log_Z: log_alpha_hat(trained.weight(pair), log_Z),
            on_progress=on_progress,
        )

    def log_likelihood(
        self,
        pair: Pair,
        links: Links,
        Y: Array,
        Y_other: Array,
        log_alpha: float,
        similarity: Similarity,
        on_progress: OnProgress | None = None,
    ) -> float:
        r"""Return :math:`\sum w_{ij} (\log\alpha + g_{ij}) - \alpha Z`."""
        other = None if links.within else Y_other
        log_Z = log_partition(Y, other, similarity=similarity, on_progress=on_progress)
        if log_alpha == -math.inf:
            return -math.inf if links.total > 0 else 0.0
        g = link_similarity(links, Y, Y_other, similarity=similarity)
        expected = self.expected_array(np.array(log_alpha + log_Z))
        return g + links.total * log_alpha - float(expected)


POISSON = Poisson()


def log_alpha_hat(total_weight: float, log_Z: float) -> float:
    r"""Return the log of section 4.2's closed form :math:`\hat\alpha^{(d,e)} = W_{de} / Z_{de}`."""
    return math.log(total_weight) - log_Z if total_weight > 0 else -math.inf
