"""Hierarchical Poisson factorisation (P. Gopalan, J. Hofman and D. Blei, UAI 2015), by hpfrec."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import Links
from pmvge.similarities import Similarity


class LogInner(Similarity):
    """The log of the inner product of positive vectors: mu is the inner product itself."""

    linear = False

    def outer(self, product: torch.Tensor) -> torch.Tensor:
        """Return logarithms; 0 has that of the smallest positive number."""
        return product.clamp(min=torch.finfo(product.dtype).tiny).log()


def poisson_factors(links: Links, K: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return positive factors (n, K) and (m, K) whose inner products are expected weights."""
    model = import_module("hpfrec").HPF(
        k=K, random_seed=seed, reindex=False, ncores=1, verbose=False, keep_data=False
    )
    model.fit(links.matrix().tocoo())
    # Entities behind the last one with a link have no factors.
    left, right = (
        np.pad(np.asarray(factors), ((0, size - len(factors)), (0, 0)))
        for factors, size in zip((model.Theta, model.Beta), links.shape, strict=True)
    )
    return left, right
