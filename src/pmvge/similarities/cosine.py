"""Cosine similarity with a learned scale."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pmvge.similarities.base import Similarity

INITIAL_SCALE = 2.0  # small: training starts near uniform similarity
# The learning rate of log s, as a multiple of that of the weights: strong signals need a large s.
SCALE_LR_MULTIPLIER = 10.0
LEAST_NORM = 1e-12  # that a vector is divided by


class Cosine(Similarity):
    r""":math:`g = s \cos(f(x), f(x'))` with one learned :math:`s > 0` for all views.

    The vector is :math:`y = \sqrt s\, f / |f|`; then :math:`\langle y, y' \rangle = g`. With
    effects e it is :math:`f / |f| + e`, scaled to the same norm.

    Without features there is only e, and its norm would have no meaning: no prior of e could
    shrink the vector of an entity with few links. There :math:`y = e / \sqrt{1 + |e|^2 / s}`, which
    is e where it is short, and never longer than :math:`\sqrt s`.
    """

    effect_sigma = 0.1  # relative to |f| = 1

    def __init__(self, n_components: int = 0) -> None:
        super().__init__(n_components)
        # log s = 10 theta
        self.theta = nn.Parameter(torch.tensor(math.log(INITIAL_SCALE) / SCALE_LR_MULTIPLIER))

    def forward(self, f: torch.Tensor, effects: torch.Tensor | None = None) -> torch.Tensor:
        """Return f scaled to norm sqrt(s); with effects e, f / |f| + e."""
        radius = torch.exp(0.5 * SCALE_LR_MULTIPLIER * self.theta)
        if effects is not None:  # relative to |f| = 1: otherwise f could make any e negligible
            y: torch.Tensor = _ScaledSum.apply(f, effects, radius)  # type: ignore[no-untyped-call]
            return y
        unit: torch.Tensor = f / _norm(f)
        return unit.mul_(radius)

    def from_effects(self, effects: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`e / \sqrt{1 + |e|^2 / s}`."""
        squares = effects.square().sum(1, keepdim=True)
        return effects * torch.rsqrt(1 + squares * torch.exp(-SCALE_LR_MULTIPLIER * self.theta))

    def explain(self) -> str:
        """Return a sentence on the size of the similarities g, with the learned scale."""
        scale = float(torch.exp(SCALE_LR_MULTIPLIER * self.theta.detach()))
        return (
            f"A similarity is the cosine times a learned scale, {scale:.3g} in this model, so it "
            "can exceed 1; with effects, biases are added."
        )

    def effect_scale(self, effects: torch.Tensor, *, featureless: bool) -> float:
        """Return s over the mean of |f / |f| + e|^2, where e is not correlated with f.

        Without features it is s over the mean of s + |e|^2. Both are for changes of direction.
        """
        scale = float(torch.exp(SCALE_LR_MULTIPLIER * self.theta.detach()))
        return scale / ((scale if featureless else 1) + float(effects.square().sum(1).mean()))


class _ScaledSum(torch.autograd.Function):
    r"""The vector :math:`y = r z / |z|` with :math:`z = u + e` and :math:`u = f / |f|`.

    A gradient G in y gives

    .. math:: G_e = \frac{r}{|z|} \Bigl(G - \frac{\langle G, y \rangle}{r^2} y\Bigr), \qquad
              G_f = \frac{1}{|f|} \bigl(G_e - \langle G_e, u \rangle u\bigr), \qquad
              G_r = \sum \langle G, y \rangle / r.

    Autograd needs three times as many passes over the rows, which is much of a small step.
    """

    @staticmethod
    def forward(
        ctx: Any, f: torch.Tensor, effects: torch.Tensor, radius: torch.Tensor
    ) -> torch.Tensor:
        norm = _norm(f)
        z = torch.addcdiv(effects, f, norm)
        stretch = radius / _norm(z)
        y = z.mul_(stretch)
        ctx.save_for_backward(f, norm, y, stretch, radius)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        f, norm, y, stretch, radius = ctx.saved_tensors
        along = torch.linalg.vecdot(grad, y).unsqueeze(-1)
        of_effects = torch.addcmul(grad, y, along / -radius.square()).mul_(stretch)
        turn = torch.linalg.vecdot(of_effects, f).unsqueeze(-1) / -norm.square()
        of_f = torch.addcmul(of_effects, f, turn).div_(norm)
        return of_f, of_effects, along.sum() / radius


def _norm(f: torch.Tensor) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(f, dim=-1, keepdim=True)
    return norm.clamp_min(LEAST_NORM)
