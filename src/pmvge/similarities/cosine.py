"""Cosine similarity with a learned scale."""

from __future__ import annotations

import math

import torch
from torch import nn

# Where the learned scale of ``cosine`` starts: low, to claim nothing before it is learned.
FIRST_SCALE = 2.0
# Its logarithm learns this much faster than a weight: strong signals need large scales.
HASTE = 10.0


class Cosine(nn.Module):
    r""":math:`g = s \cos(f(x), f(x'))` with one learned :math:`s > 0` for the whole space.

    The embedding is :math:`y = \sqrt s\, f / |f|`, so that :math:`\langle y, y' \rangle = g`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(math.log(FIRST_SCALE) / HASTE))  # log s = 10 theta

    def forward(self, f: torch.Tensor) -> torch.Tensor:
        """Return f on the sphere of radius sqrt(s)."""
        return nn.functional.normalize(f, dim=-1) * torch.exp(0.5 * HASTE * self.theta)

    def in_place(self, f: torch.Tensor) -> torch.Tensor:
        """The same, without gradients and in the memory of f."""
        norm = torch.linalg.vector_norm(f, dim=-1, keepdim=True).clamp_min_(1e-12)
        return f.mul_(torch.exp(0.5 * HASTE * self.theta) / norm)
