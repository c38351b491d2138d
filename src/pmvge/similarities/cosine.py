"""Cosine similarity with a learned scale."""

from __future__ import annotations

import math

import torch
from torch import nn

from pmvge.similarities.base import Similarity

INITIAL_SCALE = 2.0  # small: training starts near uniform similarity
# The learning rate of log s, as a multiple of that of the weights: strong signals need a large s.
SCALE_LR_MULTIPLIER = 10.0


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
        if effects is not None:  # relative to |f| = 1: otherwise f could make any e negligible
            f = nn.functional.normalize(f, dim=-1, eps=1e-12) + effects
        radius = torch.exp(0.5 * SCALE_LR_MULTIPLIER * self.theta)
        norm = torch.linalg.vector_norm(f, dim=-1, keepdim=True).clamp_min(1e-12)
        unit: torch.Tensor = f / norm
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
