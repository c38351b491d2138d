r"""Learn the priors of effects from their curvature (empirical Bayes).

Maximising over e and :math:`\sigma` together is unbounded at e = 0. The update adds the posterior
variance of e, from the curvature :math:`H_i` of the objective at the current effects:

.. math:: \sigma_d^2 \leftarrow \frac 1 K \operatorname{mean}_i \bigl(|e_i|^2
          + \operatorname{tr} H_i^{-1}\bigr), \qquad
          H_i \approx \mu_i S_d + I / \sigma_d^2, \qquad
          S_d = \sum_j \frac{\deg_j}{W} s_j s_j^\top,

and likewise :math:`\tau_d^2 \leftarrow \operatorname{mean} (b_i^2 + 1 / (\mu_i + \tau_d^{-2}))`,
with :math:`\mu_i = \sum_j \mu_{ij}`, and :math:`s_j` the derivative of :math:`g_{ij}` in
:math:`y_i`, which is :math:`y_j` for inner products. The information of an entity's links is
:math:`\sum_j \mu_{ij} s_j s_j^\top`; :math:`\mu_i S_d` has its total, and the mean partner in place
of the entity's own. Where the gradient in :math:`b_i` is 0, :math:`\mu_i = \deg_i - b_i /
\tau_d^2`: an entity without links of a view pair has information, too. Samples are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.distributed import Shards
from pmvge.encoders import Effects, MultiViewEncoder
from pmvge.graph import Links, MultiViewGraph, Pair
from pmvge.sampling import Measure, rows_of, with_measure

EVERY = 25  # steps between updates
ENTITIES = 4096  # of a view, whose effects are averaged
PARTNERS = 1024  # of a view pair, whose vectors give S
BOUNDS = (1e-3, 1e3)  # of sigma and tau


class _View(NamedTuple):
    """The samples of one view."""

    entities: torch.Tensor  # (n,) linked entities
    degrees: torch.Tensor  # (n, P) by view pair, in all processes
    share: torch.Tensor  # (P,) of the view pairs, in the links of the view
    partners: list[tuple[str, torch.Tensor, Any]]  # of each view pair: view, positions, rows


class PriorUpdate:
    """Set sigma and tau of views whose prior is learned, every ``EVERY`` steps.

    Links have the family's measure: its weight for Poisson, 1 where the information of a link is
    bounded.
    """

    def __init__(
        self,
        network: MultiViewEncoder,
        graph: MultiViewGraph,
        views: Iterable[str],
        rng: np.random.Generator,
        device: torch.device,
        shards: Shards,
        measures: Mapping[Pair, Measure],
    ) -> None:
        self.network, self.shards, self.device = network, shards, device
        self.graph = graph
        self.links = {p: with_measure(links, measures[p]) for p, links in graph.links.items()}
        found = {view: self._sample(view, rng) for view in views}
        self.views = {view: samples for view, samples in found.items() if samples is not None}

    def _sample(self, view: str, rng: np.random.Generator) -> _View | None:
        """Draw entities of a view, and partners of each view pair; None if it has no links."""
        pairs = self.network.bias_pairs[view]
        degrees = self._total(np.stack([_degrees(self.links[p], p, view) for p in pairs], 1))
        linked = np.flatnonzero(degrees.sum(1))
        if not len(linked):
            return None
        chosen = np.sort(rng.permutation(linked)[:ENTITIES])
        partners = [self._draw_partners(view, pair, rng) for pair in pairs]
        return _View(
            torch.from_numpy(chosen).to(self.device),
            torch.from_numpy(degrees[chosen]).to(self.device),
            torch.from_numpy(degrees.sum(0) / degrees.sum()).to(self.device),
            partners,
        )

    def _draw_partners(
        self, view: str, pair: Pair, rng: np.random.Generator
    ) -> tuple[str, torch.Tensor, Any]:
        other = pair[1] if pair[0] == view else pair[0]
        weights = _degrees(self.links[pair], pair, other)
        p = weights / weights.sum() if weights.sum() > 0 else None
        drawn = rng.choice(len(weights), PARTNERS, p=p)
        rows = rows_of(self.graph, other, drawn, self.device)
        return other, torch.from_numpy(drawn).to(self.device), rows

    def _total(self, degrees: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the degrees over all processes, if each has links of its own."""
        if not self.shards.sharded:
            return degrees
        parts = self.shards.world.gather(degrees.tobytes())
        total: NDArray[np.float64] = sum(np.frombuffer(part) for part in parts)  # type: ignore[assignment]
        return total.reshape(degrees.shape)

    def __call__(self, step: int) -> None:
        """Update the priors if it is time."""
        if step % EVERY or not self.views:
            return
        training = self.network.training
        self.network.eval()
        with torch.no_grad():
            for view, samples in self.views.items():
                effects = self.network.effects_of(view)
                assert effects is not None
                self._update(view, samples, effects)
        self.network.train(training)

    def _update(self, view: str, samples: _View, effects: Effects) -> None:
        e, b = (part.double() for part in effects.split(effects(samples.entities)))
        sigma, tau = effects.prior.double()
        expected = (samples.degrees - b / tau**2).clamp_min(0)  # mu_i
        variance = b.square() + 1 / (expected + tau**-2)
        new = [float(sigma), self._root(float(variance.mean()))]
        if effects.n_vector:
            featureless = self.network.is_featureless(view)
            scale = self.network.similarity.effect_scale(e, featureless=featureless)
            S = scale * self._second_moment(samples)
            information = expected.sum(1, keepdim=True) * torch.linalg.eigvalsh(S).clamp_min(0)
            variance = e.square().sum(1) + (1 / (information + sigma**-2)).sum(1)
            new[0] = self._root(float(variance.mean()) / effects.n_vector)
        effects.prior.copy_(torch.tensor(new))

    def _root(self, variance: float) -> float:
        return float(np.clip(np.sqrt(self.shards.world.mean(variance)), *BOUNDS))

    def _second_moment(self, samples: _View) -> torch.Tensor:
        """Return the mean of s s^T over the partners of all view pairs, by their weights."""
        K = self.network.n_components
        moments = []
        for other, index, rows in samples.partners:
            s = self.network.similarity.partner_slopes(self.network(other, rows, index)[:, :K])
            moments.append((s.T @ s).double() / len(s))
        return torch.einsum("p,pij->ij", samples.share, torch.stack(moments))


def _degrees(links: Links, pair: Pair, view: str) -> NDArray[np.float64]:
    return links.degrees()[0 if pair[0] == view else 1]


def learned_priors(
    network: MultiViewEncoder, given: Mapping[str, tuple[float, float] | None]
) -> list[str]:
    """Set the priors that are given, and return the views whose priors are learned."""
    learned = []
    for view, prior in given.items():
        effects = network.effects_of(view)
        if effects is None:
            continue
        if prior is None:
            learned.append(view)
        else:
            effects.prior.copy_(torch.tensor(prior))
    return learned
