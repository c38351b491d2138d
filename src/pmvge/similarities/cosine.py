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

    The vector is :math:`y = \sqrt s\, f / |f|`; then :math:`\langle y, y' \rangle = g`.
    """

    def __init__(self) -> None:
        super().__init__()
        # log s = 10 theta
        self.theta = nn.Parameter(torch.tensor(math.log(INITIAL_SCALE) / SCALE_LR_MULTIPLIER))

    def forward(self, f: torch.Tensor) -> torch.Tensor:
        """Return f scaled to norm sqrt(s)."""
        radius = torch.exp(0.5 * SCALE_LR_MULTIPLIER * self.theta)
        norm = torch.linalg.vector_norm(f, dim=-1, keepdim=True).clamp_min(1e-12)
        unit: torch.Tensor = f / norm
        return unit.mul_(radius)
