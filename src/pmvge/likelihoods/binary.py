"""Families of weights 0 and 1."""

from __future__ import annotations

import numpy as np
import torch

from pmvge.errors import GraphError
from pmvge.graph import Pair
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.terms import Array


class Binary(Family):
    """A family of links that are there or not; the expected weight is the probability of a link."""

    def saturated(self, w: torch.Tensor, pair: Pair) -> torch.Tensor:
        """Return 0: a link can have probability 1."""
        return torch.zeros_like(w)

    def check_weights(self, where: str, weights: Array) -> None:
        """Raise GraphError if a weight is not 1."""
        wrong = np.flatnonzero(weights != 1)
        if len(wrong):
            raise GraphError(
                f"{where}: expected weights of 1, got {len(wrong):,} others, such as "
                f"{weights[wrong[0]]:g}; set all weights to 1, or use family 'poisson' or, for "
                "counts, 'negative_binomial'"
            )
