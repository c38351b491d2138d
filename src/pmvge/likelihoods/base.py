"""The interface of a likelihood family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge.graph import Links, Pair
from pmvge.likelihoods.alpha import LogAlpha, TrainedGraph, fit_log_alpha
from pmvge.likelihoods.block_loss import Block, block_loss, constant_loss
from pmvge.likelihoods.terms import Array, pair_log_likelihood
from pmvge.progress import OnProgress, share_progress
from pmvge.sampling import Measure
from pmvge.similarities import Similarity


class Family(nn.Module):
    r"""A distribution of weights, :math:`w_{ij} \sim` family(:math:`\eta_{ij}`).

    With :math:`\eta_{ij} = \log\alpha^{(d,e)} + g_{ij}` the log-likelihood of a view pair is

    .. math:: \ell_{de} = \sum_{I_{de}} \mathrm{zero}(\eta_{ij}) + \sum_{\text{links}}
              [\mathrm{at\_link}(w_{ij}, \eta_{ij}) - \mathrm{zero}(\eta_{ij})].

    A block of entities estimates the first sum without bias, whatever ``zero`` is, and drawn links
    the second.

    A subclass defines :meth:`zero` and :meth:`at_link`, elementwise and differentiable in eta, with
    ``zero(-inf) = 0``. Both should be concave in eta: alpha is then unique. It may override:

    - ``measure``: links are drawn in proportion to it, "uniform" or "weight". Use "weight" only if
      the terms of links are about proportional to w; otherwise heavy links make estimates noisy.
    - :meth:`excess`, if the difference of ``at_link`` and ``zero`` is not accurate.
    - :meth:`expected` and :meth:`saturated`, if the expected weight is not :math:`\exp\eta`.
    - :meth:`check_weights`, to raise GraphError for weights that the family cannot have.
    - :meth:`log_constant`, if ``at_link`` leaves out a factor of the probability, and
      :meth:`sample`, for :func:`pmvge.simulation.simulate`.
    - ``concave = False`` and :meth:`information`, if ``at_link`` is not concave in eta: fold-in
      then uses Fisher scoring instead of Newton's method.
    - ``__init__``, for parameters that are learned with the encoders: one tensor with an entry for
      each of ``pairs``, at :attr:`index`.
    - :meth:`constant_loss`, :meth:`block_loss`, :meth:`fit_alphas` and :meth:`log_likelihood`, if
      alpha has a closed form.
    """

    measure: ClassVar[Measure] = "uniform"
    deviance_name: ClassVar[str] = "deviance"  # the key of the deviance in evaluation results
    is_likelihood: ClassVar[bool] = True  # False: a divergence, which has no probabilities
    concave: ClassVar[bool] = True  # whether ``zero`` and ``at_link`` are concave in eta

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        super().__init__()
        self.pairs = tuple(pairs)  # the observed view pairs
        self.index = {
            key: n for n, (a, b) in enumerate(self.pairs) for key in ((a, b), (b, a))
        }  # the number of a view pair, in either order

    # -- to be defined ----------------------------------------------------------------------

    def zero(self, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-likelihood of weight 0, that is, of no link."""
        raise NotImplementedError

    def at_link(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-likelihood of weights w > 0, up to a constant that depends on w alone."""
        raise NotImplementedError

    # -- with defaults ----------------------------------------------------------------------

    def excess(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return :meth:`at_link` minus :meth:`zero`."""
        return self.at_link(w, eta, pair) - self.zero(eta, pair)

    def expected(self, eta: torch.Tensor) -> torch.Tensor:
        r"""Return the expected weight; :math:`\exp(\log\alpha + g)` by default."""
        return eta.exp()

    def saturated(self, w: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the maximum of ``at_link(w, eta)`` over eta; by default its value at log w."""
        return self.at_link(w, w.log(), pair)

    def check_weights(self, where: str, weights: Array) -> None:
        """Raise GraphError if the family cannot have one of the weights, which are positive.

        ``where`` names the view pair and begins the message.
        """

    def log_constant(self, w: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the log-probability of weights w > 0 minus :meth:`at_link`; 0 by default."""
        return torch.zeros_like(w)

    def information(self, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the expected negative curvature in eta, elementwise; used if not concave."""
        raise NotImplementedError

    def sample(
        self, eta: NDArray[np.float64], pair: Pair, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw weights, elementwise."""
        raise NotImplementedError

    def for_pair(self, a: str, b: str) -> Family:
        """Return the family of a view pair; one for all pairs."""
        return self

    # -- derived ----------------------------------------------------------------------------

    def measures(self, pairs: Iterable[Pair]) -> dict[Pair, Measure]:
        """Return the draw measure of each view pair."""
        return {(a, b): self.for_pair(a, b).measure for a, b in pairs}

    def expected_array(self, eta: Array) -> NDArray[np.float64]:
        """Return :meth:`expected` of an array in float64; infinite where it overflows."""
        with torch.no_grad():
            return self.expected(torch.from_numpy(np.array(eta, np.float64))).cpu().numpy()

    def sums(self, eta: torch.Tensor, pair: Pair) -> tuple[float, float]:
        """Return the sum of :meth:`zero` and the sum of :meth:`expected`."""
        return float(self.zero(eta, pair).sum()), float(self.expected(eta).sum())

    def link_deviance(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return the deviance of weights w > 0 minus the deviance of 0."""
        return 2 * (self.saturated(w, pair) - self.excess(w, eta, pair))

    def deviance(self, w: torch.Tensor, eta: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return twice the log-likelihood that is lost against the saturated model, elementwise."""
        linked = w > 0
        at_links = self.link_deviance(torch.where(linked, w, 1.0), eta, pair)
        return torch.where(linked, at_links, 0.0) - 2 * self.zero(eta, pair)

    # -- sums over a view pair --------------------------------------------------------------

    def constant_loss(self, pair: Pair, links: Links) -> float:
        """Return the loss of a constant model (g = 0), which :meth:`block_loss` subtracts."""
        return constant_loss(self, pair, links)

    def block_loss(self, block: Block) -> torch.Tensor:
        """Return minus the log-likelihood of a block per unit of measure, minimal in alpha.

        ``block.constant_loss`` is subtracted.
        """
        return block_loss(self, block)

    def fit_alphas(
        self,
        trained: TrainedGraph,
        rng: np.random.Generator,
        on_progress: OnProgress | None = None,
    ) -> dict[Pair, LogAlpha]:
        """Return the log alpha that maximises the likelihood of each view pair."""
        callbacks = share_progress(trained.terms, on_progress)
        return {
            pair: fit_log_alpha(self, trained, pair, rng, callbacks[pair]) for pair in trained.terms
        }

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
        """Return the exact log-likelihood of a view pair."""
        return pair_log_likelihood(
            self, pair, links, Y, Y_other, log_alpha, similarity, on_progress
        )
