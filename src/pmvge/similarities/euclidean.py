"""Minus half the squared Euclidean distance."""

from __future__ import annotations

import torch

from pmvge.similarities.base import Similarity


class Euclidean(Similarity):
    r""":math:`g = -\tfrac 1 2 |f(x) - f(x')|^2`.

    Linked entities have vectors close to each other, so nearest neighbours can be read off a map.
    Two more coordinates make it an inner product,

    .. math:: g = \langle (y, -\tfrac 1 2 |y|^2, 1), (y', 1, -\tfrac 1 2 |y'|^2) \rangle.
    """

    def query(self, y: torch.Tensor) -> torch.Tensor:
        """Return (y, -|y|^2 / 2, 1)."""
        return torch.cat([y, _half_square(y), y.new_ones(y.shape[0], 1)], 1)

    def candidate(self, y: torch.Tensor) -> torch.Tensor:
        """Return (y, 1, -|y|^2 / 2)."""
        return torch.cat([y, y.new_ones(y.shape[0], 1), _half_square(y)], 1)

    def partner_slopes(self, y: torch.Tensor) -> torch.Tensor:
        """Return y - mean y: the entity's own vector is taken to be the mean of its partners."""
        return y - y.mean(0)


def _half_square(y: torch.Tensor) -> torch.Tensor:
    return -0.5 * y.square().sum(1, keepdim=True)
