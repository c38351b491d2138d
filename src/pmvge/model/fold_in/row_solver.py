r"""Maximise the log-posterior of the effects of new entities, all rows at once.

With encoders and the other side fixed, row i has the variables :math:`\theta_i = (e_i, b_i)` and

.. math:: F_i(\theta) = \sum_{\text{view pairs}} \lambda\, \ell_i(\eta_{i\cdot})
          - \tfrac 1 2 \theta^\top P \theta, \qquad
          \eta_{ij} = \log\alpha + o(\langle q_i(\theta), c_j \rangle),

where P is diagonal, with :math:`\sigma^{-2}` and :math:`\tau^{-2}`, and :math:`\lambda` the factor
of a view pair in the objective of the training (``pair_weights``). Steps are those of Fisher
scoring (Gauss-Newton in q), with :math:`J = \partial q / \partial\theta`, and with D and h the
slopes and negative curvatures of the likelihood in :math:`\langle q, c_j \rangle`:

.. math:: (J^\top C^\top \mathrm{diag}(h)\, C J + P)\, \delta = J^\top C^\top D - P \theta.

If q is linear in the effects, o is the identity and the family is concave, this is Newton's method
on a concave function. For other families h is the expected curvature.
The matrix is positive definite, so that a short enough step never lowers F: steps are halved until
it rises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from pmvge.graph import Pair
from pmvge.likelihoods import Family, Poisson
from pmvge.similarities import Similarity

MAX_STEPS = 100
HALVINGS = 30
ARMIJO = 1e-4  # share of the predicted rise that a step must reach
TOLERANCE = 1e-13  # of the predicted rise, relative to 1 + |F|
LEVEL_STEPS, LEVEL_BOUND = 50, 40.0


class Derivatives(NamedTuple):
    """Values of a log-likelihood by row, slopes and negative curvatures by candidate."""

    value: torch.Tensor  # (n,)
    slope: torch.Tensor  # (n, m)
    curvature: torch.Tensor  # (n, m)


@dataclass(frozen=True)
class RowLikelihood:
    r"""The log-likelihood of the links of n rows with the candidates of one other view.

    With an exposure s all zeros are observed:
    :math:`\sum_j v_j\,\mathrm{zero}(\eta_{ij} + \log s)` over pairs without a link, plus
    :math:`\mathrm{at\_link}(w_{ij}, \eta_{ij} + \log s)` over links. Without exposure, a free level
    of each row takes the place of log s, and the likelihood is maximal in it. For Poisson weights
    that is the multinomial likelihood given the row's total,

    .. math:: \sum_j w_{ij} \eta_{ij} - w_{i\cdot} \log \sum_j v_j e^{\eta_{ij}} + \text{const}.
    """

    pair: Pair
    family: Family
    similarity: Similarity
    log_alpha: float
    candidates: torch.Tensor  # (m, Q)
    weights: torch.Tensor  # (n, m) of links; 0 without a link
    importance: torch.Tensor | None  # v (n, m), 1 at links; None: 1
    exposure: float | None
    pair_weight: float = 1.0  # the factor of the view pair in the objective

    def take(self, rows: torch.Tensor) -> RowLikelihood:
        """Return the likelihood of some of the rows."""
        v = None if self.importance is None else self.importance[rows]
        return replace(self, weights=self.weights[rows], importance=v)

    def value(self, q: torch.Tensor) -> torch.Tensor:
        """Return the log-likelihood of each row, from the rows' query factors (n, Q)."""
        with torch.no_grad():
            product = q @ self.candidates.T
            value = self._derivatives(self.similarity.outer(product) + self.log_alpha).value
            return self.pair_weight * value

    def expand(self, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return values (n,), gradients (n, Q) and negative curvatures (n, Q, Q) in q."""
        C = self.candidates
        g, outer_slope = self._outer(q.detach() @ C.T)
        value, D, h = self._derivatives(g + self.log_alpha)
        level = h.sum(1, keepdim=True).clamp_min(1e-300)
        cross = h
        if outer_slope is not None:
            D, cross, h = D * outer_slope, h * outer_slope, h * outer_slope.square()
        H = torch.stack([(C * row[:, None]).T @ C for row in h])
        if self.exposure is None:  # the level follows q: subtract its Schur complement
            mixed = cross @ C
            H = H - mixed[:, :, None] * (mixed / level)[:, None, :]
        factor = self.pair_weight
        return factor * value, factor * (D @ C), factor * H

    def _outer(self, product: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return g and its derivative in the inner products; None for the identity."""
        if self.similarity.linear:
            return product, None
        with torch.enable_grad():
            product = product.requires_grad_()
            g = self.similarity.outer(product)
            (slope,) = torch.autograd.grad(g.sum(), product)
        return g.detach(), slope

    def _derivatives(self, eta: torch.Tensor) -> Derivatives:
        """Return the value by row, and the derivatives in eta; 0 for rows without information."""
        if self.exposure is not None:
            return self._terms(eta + math.log(self.exposure))
        total = self.weights.sum(1)
        linked = total > 0
        spread = eta if self.importance is None else eta + self.importance.log()
        level = total.clamp_min(1e-300).log() - spread.logsumexp(1)
        if not isinstance(self.family, Poisson):
            level = self._solve_level(eta, level, linked)
        value, D, h = self._terms(eta + torch.where(linked, level, 0.0)[:, None])
        rows = linked[:, None]
        return Derivatives(
            torch.where(linked, value, 0.0), torch.where(rows, D, 0.0), torch.where(rows, h, 0.0)
        )

    def _solve_level(
        self, eta: torch.Tensor, start: torch.Tensor, linked: torch.Tensor
    ) -> torch.Tensor:
        """Return the level of each row that maximises its log-likelihood, by Newton's method."""
        level = torch.where(linked, start, 0.0)
        start = level
        for _ in range(LEVEL_STEPS):
            _, D, h = self._terms(eta + level[:, None])
            step = (D.sum(1) / h.sum(1).clamp_min(1e-300)).clamp(-2.0, 2.0)
            level = torch.clamp(level + step, start - LEVEL_BOUND, start + LEVEL_BOUND)
            if not bool((step[linked].abs() >= 1e-12).any()):  # also without linked rows
                break
        return level

    def _terms(self, eta: torch.Tensor) -> Derivatives:
        """Return the log-likelihood of each row at eta, and its derivatives."""
        w, v = self.weights, self.importance
        if isinstance(self.family, Poisson):
            mu = eta.exp() if v is None else v * eta.exp()
            return Derivatives((w * eta).sum(1) - mu.sum(1), w - mu, mu)
        linked = w > 0
        with torch.enable_grad():
            eta = eta.detach().requires_grad_()
            zero = self.family.zero(eta, self.pair)
            zero = torch.where(linked, 0.0, zero if v is None else v * zero)
            at_link = self.family.at_link(w[linked], eta[linked], self.pair)
            terms = zero.masked_scatter(linked, at_link)
            (D,) = torch.autograd.grad(terms.sum(), eta, create_graph=True)
            if self.family.concave:
                (second,) = torch.autograd.grad(D.sum(), eta, materialize_grads=True)
                h = (-second).clamp_min(0.0)
            else:
                h = self.family.information(eta, self.pair)
                h = torch.where(linked, h, h if v is None else v * h)
        return Derivatives(terms.detach().sum(1), D.detach(), h.detach())


@dataclass(frozen=True)
class Rows:
    """New entities of a view: what their features say, their links, and the prior of effects."""

    f: torch.Tensor  # (n, K) outputs of the encoder
    bias: torch.Tensor  # (n, P) u(x), centred
    n_vector: int  # K, or 0 if the effects are biases alone
    precision: torch.Tensor  # (n_vector + P,) diagonal of the prior's precision
    similarity: Similarity
    featureless: bool
    likelihoods: Sequence[RowLikelihood]

    def take(self, rows: torch.Tensor) -> Rows:
        """Return some of the rows."""
        parts = [part.take(rows) for part in self.likelihoods]
        return replace(self, f=self.f[rows], bias=self.bias[rows], likelihoods=parts)

    def outputs(self, theta: torch.Tensor) -> torch.Tensor:
        """Return the outputs (n, K + P) of rows with effects theta (n, n_vector + P)."""
        e, b = theta[:, : self.n_vector], theta[:, self.n_vector :]
        if self.featureless:
            y = self.similarity.from_effects(e)
        else:
            y = self.similarity(self.f, e) if self.n_vector else self.similarity(self.f)
        return torch.cat([y, self.bias + b], 1)

    def objective(self, theta: torch.Tensor) -> torch.Tensor:
        """Return the log-posterior (n,) of effects, up to a constant."""
        with torch.no_grad():
            outputs = self.outputs(theta)
            value = -0.5 * (self.precision * theta.square()).sum(1)
            for part in self.likelihoods:
                value = value + part.value(part.similarity.query(outputs))
        return value

    def expand(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the objective (n,), its gradient (n, T), and a positive definite (n, T, T)."""
        value = -0.5 * (self.precision * theta.square()).sum(1)
        gradient = -self.precision * theta
        H = torch.diag(self.precision).repeat(len(theta), 1, 1)
        with torch.enable_grad():
            variable = theta.detach().requires_grad_()
            outputs = self.outputs(variable)
            queries = [part.similarity.query(outputs) for part in self.likelihoods]
        for part, q in zip(self.likelihoods, queries, strict=True):
            J = _jacobian(q, variable)
            own, slope, curvature = part.expand(q)
            value = value + own
            gradient = gradient + torch.einsum("nq,nqt->nt", slope, J)
            H = H + J.mT @ curvature @ J
        return value, gradient, H


def _jacobian(q: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """Return the derivatives (n, Q, T) of each row of q in its own row of theta."""
    columns = [
        torch.autograd.grad(column.sum(), theta, retain_graph=True)[0] for column in q.unbind(1)
    ]
    return torch.stack(columns, 1)


def maximize(rows: Rows, max_steps: int = MAX_STEPS) -> torch.Tensor:
    """Return the effects (n, n_vector + P) that maximise the objective, from 0 on.

    No step lowers the objective of a row. After ``max_steps`` Newton steps the maximum may not be
    reached.
    """
    theta = rows.f.new_zeros(len(rows.f), len(rows.precision))
    active = torch.arange(len(theta))
    for _ in range(max_steps):
        if not len(active):
            break
        part = rows.take(active)
        value, gradient, H = part.expand(theta[active])
        step = torch.linalg.solve(H, gradient)
        rise = (gradient * step).sum(1)
        moving = torch.nonzero(rise > TOLERANCE * (1 + value.abs())).ravel()
        part, active = part.take(moving), active[moving]
        moved = _search_line(part, theta[active], step[moving], value[moving], rise[moving])
        changed = (moved != theta[active]).any(1)
        theta[active] = moved
        active = active[changed]
    return theta


def _search_line(
    rows: Rows, theta: torch.Tensor, step: torch.Tensor, value: torch.Tensor, rise: torch.Tensor
) -> torch.Tensor:
    """Return theta plus the longest of step, step / 2, ... that raises each row's objective."""
    result, pending, length = theta.clone(), torch.arange(len(theta)), 1.0
    for _ in range(HALVINGS):
        if not len(pending):
            break
        trial = theta[pending] + length * step[pending]
        reached = rows.take(pending).objective(trial)
        raised = reached >= value[pending] + ARMIJO * length * rise[pending]  # False for NaN
        result[pending[raised]] = trial[raised]
        pending, length = pending[~raised], length / 2
    return result
