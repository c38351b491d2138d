"""The beta-divergence: a robust fit that gives outliers little weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch

from pmvge.distributed import total_weight
from pmvge.graph import Links, Pair
from pmvge.likelihoods.alpha import LogAlpha, TrainedGraph, alphas_from_partitions, link_terms
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.block_loss import Block
from pmvge.likelihoods.block_partition import log_block_partition
from pmvge.progress import OnProgress
from pmvge.similarities import Similarity


class Beta(Family):
    r"""The beta-divergence of beta-graph embedding, with :math:`\beta` = 0.5; any w > 0 is allowed.

    .. math:: \mathrm{zero}(\eta) = -\kappa \frac{\mu^{1+\beta}}{1 + \beta}, \qquad
              \mathrm{at\_link}(w, \eta) - \mathrm{zero}(\eta) = \kappa w \frac{\mu^\beta}{\beta}.

    A link where :math:`\mu` is small, which is an outlier if its weight is large, has a small
    derivative, :math:`\kappa w \mu^\beta` instead of w. For :math:`\beta \to 0` it is the Poisson
    likelihood. With :math:`A = \sum w e^{\beta g}` and :math:`B = \sum e^{(1+\beta) g}`, alpha is
    A / B, and what training maximises is

    .. math:: [(1 + \beta) \log A - \beta \log B] / \beta

    per link. Near its maximum this is the sum of the terms above, divided by the number of links E,
    with :math:`\kappa = (1 + \beta) E / \sum w \mu^\beta`, which is set after training.

    It is a divergence, not a likelihood: there are no probabilities of weights. For another beta,
    register a subclass that sets ``beta``.

    References
    ----------
    A. Okuno and H. Shimodaira, "Robust graph embedding with noisy link weights", AISTATS 2019.
    """

    is_likelihood: ClassVar[bool] = False
    concave: ClassVar[bool] = False
    beta: ClassVar[float] = 0.5
    scale: torch.Tensor

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        super().__init__(pairs)
        self.register_buffer("scale", torch.ones(max(1, len(self.pairs)), dtype=torch.float64))

    def _scale(self, pair: Pair) -> float:
        return float(self.scale[self.index.get(pair, 0)])

    def zero(self, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the terms of weight 0."""
        power = 1 + self.beta
        return -self._scale(pair) / power * torch.exp(power * eta)

    def at_link(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the terms of weights w > 0."""
        return self.zero(eta, pair) + self.excess(w, eta, pair)

    def excess(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the terms of links."""
        return self._scale(pair) / self.beta * w * torch.exp(self.beta * eta)

    def information(self, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the expected negative curvature in eta."""
        return self._scale(pair) * torch.exp((1 + self.beta) * eta)

    # -- sums over a view pair --------------------------------------------------------------

    def constant_loss(self, pair: Pair, links: Links) -> float:
        """Return the loss at g = 0."""
        if links.total <= 0:
            return 0.0
        return math.log(max(1, links.n_terms)) - (1 + 1 / self.beta) * math.log(links.total)

    def block_loss(self, block: Block) -> torch.Tensor:
        r"""Return :math:`\log\hat B - (1 + 1 / \beta) \log\hat A`, minus the constant loss."""
        batch, g = block.batch, block.link_similarities()
        powered = Powered(block.similarity, 1 + self.beta)
        left = (1 + self.beta) * block.left if powered.linear else block.left
        log_B = log_block_partition(left, block.right, batch, powered)
        counts = g.new_tensor(np.log(batch.weights * batch.link_counts * block.total))
        log_A = torch.logsumexp(self.beta * g + counts, 0)
        return log_B - (1 + 1 / self.beta) * log_A - block.constant_loss

    def fit_alphas(
        self,
        trained: TrainedGraph,
        rng: np.random.Generator,
        on_progress: OnProgress | None = None,
    ) -> dict[Pair, LogAlpha]:
        """Return the closed form of log alpha of each view pair, and set the scales."""

        def log_alpha_of(pair: Pair, log_B: float) -> float:
            links = trained.links(pair)
            terms = link_terms(self, trained, pair, links, 1.0)
            logs = terms.weights.log() + self.beta * terms.similarities
            shift = trained.shards.world.mean(float(logs.max()) if len(logs) else 0.0)
            A = total_weight(trained.shards, float(torch.exp(logs - shift).sum()))
            count = total_weight(trained.shards, float(len(links)))
            log_A = math.log(A) + shift
            log_alpha = log_A - log_B
            log_scale = math.log((1 + self.beta) * count) - log_A - self.beta * log_alpha
            self.scale[self.index[pair]] = math.exp(log_scale)
            return log_alpha

        powered = Powered(trained.similarity, 1 + self.beta)
        return alphas_from_partitions(
            trained, rng, log_alpha_of, similarity=powered, on_progress=on_progress
        )


class Powered(Similarity):
    """The similarity times a factor."""

    def __init__(self, similarity: Similarity, factor: float) -> None:
        super().__init__()
        self.similarity, self.factor = similarity, factor
        self.linear = similarity.linear  # type: ignore[misc]
        self.equal_widths = similarity.equal_widths  # type: ignore[misc]

    def for_pair(self, a: str, b: str) -> Similarity:
        """Return the similarity of a view pair."""
        return Powered(self.similarity.for_pair(a, b), self.factor)

    def query(self, y: torch.Tensor) -> torch.Tensor:
        """Return the left factors, times the factor if the similarity is linear."""
        q = self.similarity.query(y)
        return self.factor * q if self.linear else q

    def candidate(self, y: torch.Tensor) -> torch.Tensor:
        """Return the right factors."""
        return self.similarity.candidate(y)

    def outer(self, product: torch.Tensor) -> torch.Tensor:
        """Return g from inner products."""
        return product if self.linear else self.factor * self.similarity.outer(product)
