"""The log-probability of held-out links, which compares models of different families."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.evaluation.evaluated_pairs import level_of_rows
from pmvge.graph import Pair
from pmvge.likelihoods import Family, Level

Array = NDArray[Any]


class HeldOutScore:
    """The log-probability of what is held out, if links are held out with probability s."""

    def __init__(self, family: Family, pair: Pair, share: float, log_alpha: Level) -> None:
        self.family, self.pair, self.share, self.log_alpha = family, pair, share, log_alpha
        self.unlinked = 0.0

    def add(self, g: torch.Tensor, rows: NDArray[np.int64]) -> None:
        """Add the scores of pairs as if none had a held-out link; g = -inf adds nothing."""
        with torch.no_grad():
            eta = g.double() + level_of_rows(self.log_alpha, rows)
            self.unlinked += float(self._missing(eta).sum())

    def per_link(self, w: Array, eta: Array) -> float:
        """Return the score per held-out link, from the weights and eta of these links."""
        weights, at = torch.from_numpy(w).double(), torch.from_numpy(eta)
        with torch.no_grad():
            present = self.family.at_link(weights, at, self.pair)
            present = present + self.family.log_constant(weights, self.pair) + math.log(self.share)
            at_links = float((present - self._missing(at)).sum())
        return (self.unlinked + at_links) / len(w)

    def _missing(self, eta: torch.Tensor) -> torch.Tensor:
        """Return log(1 - s (1 - P(0)))."""
        return torch.log1p(self.share * torch.expm1(self.family.zero(eta, self.pair)))
