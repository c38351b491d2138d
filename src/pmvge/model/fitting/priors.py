r"""Learn the priors of effects from their curvature (empirical Bayes).

Maximising over e and :math:`\sigma` together is unbounded at e = 0. The marginal likelihood, with a
Gaussian approximation of the posterior of :math:`(e_i, b_i)`, is not. With the curvature
:math:`H_i` at the current effects, its maximum satisfies

.. math:: \sigma_d^2 = \frac{\operatorname{mean}_i |e_i|^2 / \phi_d}
          {\operatorname{mean}_i \gamma_i}, \qquad
          \gamma_i = K - \operatorname{tr}(H_i^{-1})_{ee} / \sigma_d^2, \qquad
          H_i \approx \mu_i A_d + \operatorname{diag}(\sigma_d^{-2}, \tau_d^{-2}),

and likewise :math:`\tau_d`. :math:`\gamma_i` is the number of directions that the links of an
entity determine. For :math:`\phi = 1` this is the fixed point of :math:`\sigma^2 =
\operatorname{mean}(|e_i|^2 + \operatorname{tr} H_i^{-1}) / K`, whose iterations are slow where
:math:`\sigma` is small; those of this form, which is MacKay's, are not.

:math:`A_d = \sum_j \frac{\deg_j}{W} s_j s_j^\top`, where :math:`s_j` is the derivative of
:math:`g_{ij}` in :math:`y_i`, which is :math:`y_j` for inner products, and 1 at the bias of the
view pair. The information of an entity's links is
:math:`\sum_j \mu_{ij} s_j s_j^\top`; :math:`\mu_i A_d` has its total, and the mean
partner in place of the entity's own. Where the gradient in :math:`b_i` is 0, :math:`\mu_i = \deg_i
- b_i / \tau_d^2`: an entity without links of a view pair has information, too.

:math:`\phi_d \ge 1` is the dispersion of the weights, the weight of one event: the median weight of
a link minus the mean weight of a pair. It is 1 for 0/1 links and for sparse counts. Five stars are
one event, not five; the noise of an effect then has :math:`\phi` times the variance that the
Poisson likelihood implies. Samples are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
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
MAX_FACTOR = 2.0  # of a change of sigma or tau in one update
MIN_DRAWS = 5.0  # of an entity, on average, before the first update: effects start at 0


class _View(NamedTuple):
    """The samples of one view."""

    entities: torch.Tensor  # (n,) linked entities
    degrees: torch.Tensor  # (n, P) by view pair, in all processes
    share: torch.Tensor  # (P,) of the view pairs, in the links of the view
    dispersion: float
    first_step: int  # of an update
    partners: list[tuple[str, torch.Tensor, Any]]  # of each view pair: view, positions, rows


class PriorUpdate:
    """Set sigma and tau of views whose prior is learned, every ``EVERY`` steps.

    Links have the family's measure: its weight for Poisson, 1 where the information of a link is
    bounded. The factors of view pairs multiply this information, as they do in the objective.
    ``drawn`` is the number of entities of a view in a batch, in all processes.
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
        drawn: int,
        pair_weights: Mapping[Pair, float] = MappingProxyType({}),
    ) -> None:
        self.network, self.shards, self.device, self.drawn = network, shards, device, drawn
        self.pair_weights = pair_weights
        self.graph = graph
        self.links = {p: with_measure(links, measures[p]) for p, links in graph.links.items()}
        found = {view: self._sample(view, rng) for view in views}
        self.views = {view: samples for view, samples in found.items() if samples is not None}

    def _sample(self, view: str, rng: np.random.Generator) -> _View | None:
        """Draw entities of a view, and partners of each view pair; None if it has no links."""
        pairs = self.network.bias_pairs[view]
        degrees = self._total(np.stack([_degrees(self.links[p], p, view) for p in pairs], 1))
        degrees = degrees * [self.pair_weights.get(pair, 1.0) for pair in pairs]
        linked = np.flatnonzero(degrees.sum(1))
        if not len(linked):
            return None
        chosen = np.sort(rng.permutation(linked)[:ENTITIES])
        partners = [self._draw_partners(view, pair, rng) for pair in pairs]
        share = degrees.sum(0) / degrees.sum()
        return _View(
            torch.from_numpy(chosen).to(self.device),
            torch.from_numpy(degrees[chosen]).to(self.device),
            torch.from_numpy(share).to(self.device),
            self.shards.world.mean(float(share @ [self._dispersion(pair) for pair in pairs])),
            int(np.ceil(MIN_DRAWS * len(linked) / self.drawn)),
            partners,
        )

    def _dispersion(self, pair: Pair) -> float:
        """Return the dispersion of weights: the median weight of a link minus the mean of a pair.

        The factor of a view pair multiplies weights.
        """
        links = self.links[pair]
        if not len(links):
            return 1.0
        event = float(np.median(links.weights)) - links.total / links.n_terms
        return max(1.0, event * self.pair_weights.get(pair, 1.0))

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
        due = {v: samples for v, samples in self.views.items() if step >= samples.first_step}
        if step % EVERY or not due:
            return
        training = self.network.training
        self.network.eval()
        with torch.no_grad():
            for view, samples in due.items():
                effects = self.network.effects_of(view)
                assert effects is not None
                self._update(view, samples, effects)
        self.network.train(training)

    def _update(self, view: str, samples: _View, effects: Effects) -> None:
        e, b = (part.double() for part in effects.split(effects(samples.entities)))
        sigma, tau = effects.prior.double().tolist()
        expected = (samples.degrees - b / tau**2).clamp_min(0).sum(1, keepdim=True)  # mu_i
        prior = torch.cat([e.new_full((e.shape[1],), sigma), b.new_full((b.shape[1],), tau)])
        A = prior[:, None] * self._second_moment(view, samples, e) * prior
        values, Q = torch.linalg.eigh(A)
        determined = expected * values.clamp_min(0)
        gamma = (determined / (1 + determined)).mean(0) @ Q.square().T  # of each coordinate
        K = e.shape[1]
        changed = [
            self._fixed_point(part, old, float(directions.sum()), samples.dispersion)
            for part, old, directions in ((e, sigma, gamma[:K]), (b, tau, gamma[K:]))
        ]
        effects.prior.copy_(torch.tensor(changed))

    def _fixed_point(
        self, part: torch.Tensor, old: float, gamma: float, dispersion: float
    ) -> float:
        """Return the next sigma or tau from the effects (n, K) and their mean gamma."""
        if not part.shape[1]:
            return old
        square = float(part.square().sum(1).mean()) / dispersion
        wanted = np.sqrt(self.shards.world.mean(square / max(gamma, 1e-12)))
        return float(np.clip(np.clip(wanted, old / MAX_FACTOR, old * MAX_FACTOR), *BOUNDS))

    def _second_moment(self, view: str, samples: _View, e: torch.Tensor) -> torch.Tensor:
        """Return A: the mean over the partners of all view pairs, by the shares of the pairs."""
        moments = []
        for number, (other, index, rows) in enumerate(samples.partners):
            own = torch.zeros(len(index), len(samples.partners), dtype=e.dtype, device=e.device)
            own[:, number] = 1.0
            if e.shape[1]:
                y = self.network(other, rows, index)[:, : self.network.n_components]
                s = self.network.similarity.partner_slopes(y).double()
                own = torch.cat([self._derivative(view, e) * s, own], 1)
            moments.append(own.T @ own / len(own))
        return torch.einsum("p,pij->ij", samples.share, torch.stack(moments))

    def _derivative(self, view: str, e: torch.Tensor) -> float:
        """Return the root mean square derivative of the vectors in their effects."""
        featureless = self.network.is_featureless(view)
        scale = self.network.similarity.effect_scale(e, featureless=featureless)
        return float(np.sqrt(scale))


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
